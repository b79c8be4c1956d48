// Invariants 9, 11 and 12: the process dies in the middle of what it does to a whole projection, or a whole tenant. The next one goes
// on where it was: each key is told once, no reader sees a part of it, and nothing is left behind.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore } from '../../src/store/local-store.js';
import { MANY_KEYS_PROCESS, SMALL, type Operation } from '../support/many-keys-process.js';
import { keyOf, ManyKeysWorld, stateOf, type Seat } from '../support/many-keys-world.js';
import { temporaryDirectory, until } from '../support/service.js';

const KEYS = 1200;
const ALL = Array.from({ length: KEYS }, (_, i) => keyOf(i));

test('kill -9 between two slices', async (t) => {
  const base = await prepared(t);
  const killed = async (operation: Operation, slices: number): Promise<ManyKeysWorld> => {
    const directory = temporaryDirectory(t);
    cpSync(base, directory, { recursive: true });
    const child = spawn(process.execPath, [MANY_KEYS_PROCESS, directory, operation, String(slices)], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    assert.equal(signal, 'SIGKILL', `it died in the middle of '${operation}'`);
    return new ManyKeysWorld(t, { directory, ...SMALL });
  };
  /** Each of these keys is told once by the revision, in one order, behind all that was told before. */
  const isTold = async (seat: Seat, revision: number, keys: readonly string[]): Promise<void> => {
    const all = await seat.told();
    all.forEach(({ sequence }, i) => assert.ok(i === 0 || sequence > (all[i - 1]?.sequence ?? 0)));
    const of = (one: number): string[] => all.filter((change) => change.revision === one).map(({ key }) => key);
    assert.deepEqual(of(1), ALL);
    assert.deepEqual(of(2), ALL);
    assert.deepEqual(of(revision), keys);
  };
  const hasStates = async (seat: Seat, code: number, other: readonly (readonly [string, string])[] = []) =>
    assert.deepEqual(await seat.states(), new Map([...ALL.map((key) => [key, stateOf(code, key)] as const), ...other]));

  for (const slices of [3, 40, 180])
    await t.test(`in the swap of a redeploy, after ${slices} slices`, async () => {
      const world = await killed('redeploy', slices);
      world.deployed(3, 3);
      const seat = await world.open('store');
      await seat.untilLive(3);
      await hasStates(seat, 3);
      await isTold(seat, 3, ALL);
      await seat.untilSwept();
      assert.equal(seat.rows('s'), 2 * KEYS, 'the live revision, and the one before');
      await seat.close();
      // An owner without a store comes to the same.
      const fresh = await world.open('fresh');
      await fresh.untilLive(3);
      await hasStates(fresh, 3);
      await isTold(fresh, 3, ALL);
    });

  await t.test('in the swap of a rebuild: there is nothing to tell of it', async () => {
    const world = await killed('rebuild', 40);
    world.deployed(3, 2, 'rebuild');
    const seat = await world.open('store');
    await seat.untilLive(3);
    await hasStates(seat, 2);
    await isTold(seat, 3, []);
    await seat.untilSwept();
    assert.equal(seat.rows('s'), KEYS + KEYS, 'the live revision, and the one that was kept before');
  });

  await t.test('in the swap of a rollback', async () => {
    const world = await killed('rollback', 60);
    world.deployed(3, 1, 'rollback');
    const seat = await world.open('store');
    await seat.untilLive(3);
    await hasStates(seat, 1);
    await isTold(seat, 3, ALL);
  });

  await t.test('of a standby in the swap that it follows, which is then the owner', async () => {
    const world = await killed('follow', 60);
    world.deployed(3, 3);
    const seat = await world.open('standby');
    await seat.untilLive(3);
    await until(() => seat.task.projectionLag === 0);
    const [first = ''] = ALL;
    await hasStates(seat, 3, [[first, stateOf(3, first, 2)]]);
    await isTold(seat, 3, [...ALL, first]);
  });

  await t.test('in the removal of a projection', async () => {
    const world = await killed('drop', 60);
    const seat = await world.open('store');
    await seat.untilSwept();
    assert.equal((await seat.states()).size, 0);
    for (const table of ['s', 'n', 'f', 'F', 'a', 'p', 'e'])
      assert.equal(seat.rows(table), 0, `rows of table ${table}`);
  });

  await t.test('in the trim of the index of changes', async () => {
    const world = await killed('trim', 1);
    world.deployed(2, 2);
    const seat = await world.open('store');
    await seat.task.changes.of('p').start();
    await seat.untilSwept();
    assert.deepEqual(await seat.told(), []);
    assert.ok(seat.rows('n') <= 1, 'all but the last block');
    await hasStates(seat, 2);
    await world.append(seat, 1);
    assert.deepEqual(
      (await seat.told()).map(({ key }) => key),
      ALL.slice(0, 1),
    );
  });

  await t.test('in the removal of a tenant', async () => {
    const world = await killed('remove', 2);
    const store = new LocalStore({ path: join(world.directory, 'store'), logger: silentLogger });
    assert.deepEqual([...store.sections()], []);
    await store.close();
  });
});

/** A log and a store with two revisions of each key, the second one live. */
async function prepared(t: TestContext): Promise<string> {
  const world = new ManyKeysWorld(t, SMALL);
  const seat = await world.open('store');
  world.deploy(seat, 1, 1);
  await seat.untilLive(1);
  await world.append(seat, KEYS);
  world.deploy(seat, 2, 2);
  await seat.untilLive(2);
  await seat.untilSwept();
  await seat.close();
  await world.log.close();
  return world.directory;
}
