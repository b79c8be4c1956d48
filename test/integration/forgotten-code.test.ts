// The code of revisions that are not remembered any more has left the log. Whoever folds history again comes to the same states without it,
// and tells nothing twice (invariants 11, 12).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManyKeysWorld, PROJECTION, type Seat } from '../support/many-keys-world.js';
import { until } from '../support/service.js';

const KEYS = 600;

/** A revision after the other, of other code each, with events behind each. */
async function redeployed(world: ManyKeysWorld, seat: Seat, first: number, last: number): Promise<void> {
  for (let revision = first; revision <= last; revision++) {
    world.deploy(seat, revision, revision);
    await seat.untilLive(revision);
    await world.append(seat, KEYS / revision);
  }
}

const untilThere = async (seat: Seat, revision: number): Promise<void> => {
  await seat.untilLive(revision);
  await until(() => seat.task.projectionLag === 0);
};

/** All changes in the log, those of former revisions too. */
const told = async (seat: Seat): Promise<readonly string[]> =>
  (await seat.told()).map(({ sequence, key, state }) => `${sequence} ${key} ${String(state)}`);

const withSequences = async ({ task }: Seat): Promise<readonly string[]> => {
  const { states } = await task.projections.states({
    projectionId: PROJECTION,
    prefix: '',
    limit: KEYS,
    cursor: undefined,
  });
  return states.map(({ key, sequence, state }) => `${key} ${sequence} ${String(state)}`);
};

for (const forgotten of [[1], [2], [1, 2], [1, 3], [1, 2, 3]])
  test(`a tenant is folded from the start without the code of revisions ${forgotten.join(', ')}`, async (t) => {
    const world = new ManyKeysWorld(t);
    const first = await world.open('store');
    await redeployed(world, first, 1, 4);
    const [states, changes] = [await withSequences(first), await told(first)];
    await first.close();
    for (const code of forgotten) world.forget(code);
    const again = await world.open('other');
    await untilThere(again, 4);
    assert.deepEqual(await withSequences(again), states);
    assert.deepEqual(await told(again), changes);
    await world.append(again, 1);
    assert.equal((await told(again)).length, changes.length + 1);
  });

for (const forgotten of [[1], [2], [1, 2], [1, 3], [1, 2, 3]])
  test(`the same without revisions ${forgotten.join(', ')}, and without the changes that were told`, async (t) => {
    const world = new ManyKeysWorld(t);
    const first = await world.open('store');
    await redeployed(world, first, 1, 4);
    const states = await first.states();
    await first.close();
    // Its claim is the youngest record of the changes, and all others are past their days.
    world.now = () => Date.now() + 2 * 3_600_000;
    await (await world.open('store')).close();
    await world.clean();
    for (const code of forgotten) world.forget(code);
    const again = await world.open('other');
    await untilThere(again, 4);
    assert.deepEqual(await again.states(), states);
    assert.deepEqual(await told(again), []);
    await world.append(again, 1);
    assert.equal((await told(again)).length, 1);
  });

test('a process that was away while its live revision was forgotten goes on with the one that took its place', async (t) => {
  const world = new ManyKeysWorld(t);
  const away = await world.open('away');
  await redeployed(world, away, 1, 2);
  await away.close();
  const owner = await world.open('store');
  await world.append(owner, KEYS / 4);
  await redeployed(world, owner, 3, 4);
  const [states, changes] = [await withSequences(owner), await told(owner)];
  await owner.close();
  world.forget(1);
  world.forget(2);
  const back = await world.open('away');
  await untilThere(back, 4);
  assert.deepEqual(await withSequences(back), states);
  assert.deepEqual(await told(back), changes);
});
