// What is done to a whole projection goes on in slices: other work has its turn between two of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchHolds } from '../support/holds.js';
import { keyOf, ManyKeysWorld, PROJECTION, stateOf, wholeLife } from '../support/many-keys-world.js';

/** In one go a swap of so many held the event loop for 0.7 s. */
const KEYS = 40_000;
const MOST_MS = 50;

test('a swap, a rollback, a trim and a drop of many keys hold the event loop for less than 50 ms', async (t) => {
  const world = new ManyKeysWorld(t);
  const seat = await world.open('store');
  world.deploy(seat, 1, 1);
  await seat.untilLive(1);
  await world.append(seat, KEYS);
  const holds = watchHolds();
  t.after(() => holds.end());
  const measured = async (name: string, work: () => Promise<void>): Promise<void> => {
    holds.longest();
    await work();
    const longest = holds.longest();
    t.diagnostic(`${name}: ${longest.toFixed(1)} ms`);
    assert.ok(longest < MOST_MS, `${name} held the event loop for ${longest} ms`);
  };
  await wholeLife(world, seat, measured, async () => {
    assert.equal(seat.task.projections.life(PROJECTION).live?.revision, 4);
    const [state] = (
      await seat.task.projections.statesOf({ projectionId: PROJECTION, key: keyOf(KEYS - 1), cursor: undefined })
    ).states;
    assert.equal(state?.state?.toString(), stateOf(1, keyOf(KEYS - 1)));
  });
  assert.equal(seat.rows('s'), 0);
});
