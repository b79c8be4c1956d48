// A projection that is built while an aggregate is erased may have its events, and says so.
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
