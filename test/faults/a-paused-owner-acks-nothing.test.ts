// Invariants 1 to 13, of which 8 most: the owner is stopped for longer than its session, another takes over, and it goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { Scenario } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const PAUSES = 3;

test('a paused owner acks nothing', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2 });
  const scenario = new Scenario(t, { seed: 5002, restMs: 2 }, world);
  const { history, load } = scenario;
  await scenario.begin();
  load.start();
  for (let pause = 0; pause < PAUSES; pause++) {
    const zombie = await world.owner();
    const begun = history.acknowledged;
    await until(() => history.acknowledged > begun + 50);
    world.pause(zombie);
    const successor = await world.owner();
    assert.notEqual(successor, zombie);
    const before = history.acknowledged;
    await until(() => history.acknowledged > before + 50);
    // What it has under way was decided in an epoch that is over.
    world.resume(zombie);
    await until(
      async () => (await world.at(zombie).get('/events/nothing-of-that-name', { asPeer: true })).status === 503,
    );
  }
  const { log } = await scenario.prove();
  assert.ok(log.voids > 0, 'no record of a paused owner came after its epoch: nothing is proved');
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});
