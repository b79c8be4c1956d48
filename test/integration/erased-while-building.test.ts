// What a projection has of an aggregate that is erased: one that is built meanwhile may have its events, and says so; one that is built later has none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, ManyKeysWorld, PROJECTION, stateOf } from '../support/many-keys-world.js';
import { until } from '../support/service.js';

test('events that the first batch of a build was read with are in its states, and it says so', async (t) => {
  const world = new ManyKeysWorld(t);
  const seat = await world.open('store');
  const { task } = seat;
  // What is shorter is folded by the swap itself.
  await Promise.all(Array.from({ length: 1200 }, () => world.send(task, 1)));
  let go = (): void => undefined;
  world.gate = new Promise((resolve) => (go = resolve));
  world.deploy(seat, 1, 1);
  await until(() => world.asked > 0);
  await task.first.erase('a-0', undefined);
  await until(() => task.projectionLag === 0);
  go();
  await seat.untilLive(1);
  assert.deepEqual([...(await seat.states()).values()], [stateOf(1, keyOf(0), 1200)], 'it has the event that is gone');
  assert.equal(task.projections.life(PROJECTION).erasedSinceBuild, true);
});

test('states of a former revision, which have events of an erased aggregate, are not where the next one of its code begins', async (t) => {
  const world = new ManyKeysWorld(t);
  const seat = await world.open('store');
  const { task } = seat;
  for (let i = 0; i < 2; i++) await world.send(task, 1);
  for (const [revision, code] of [
    [1, 1],
    [2, 2],
  ] as const) {
    world.deploy(seat, revision, code);
    await seat.untilLive(revision);
  }
  assert.equal(task.projections.life(PROJECTION).kept.length, 1);
  await task.first.erase('a-0', undefined);
  await until(() => task.projectionLag === 0);
  assert.deepEqual([...(await seat.states()).values()], [stateOf(2, keyOf(0), 2)], 'what is live is not taken back');
  world.deploy(seat, 3, 1);
  await seat.untilLive(3);
  assert.deepEqual([...(await seat.states()).values()], [stateOf(1, keyOf(0), 1)]);
  assert.equal(task.projections.life(PROJECTION).erasedSinceBuild, false);
});
