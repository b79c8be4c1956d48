// Invariants 1 to 13: a process joins and leaves, or is killed, every moment, so that slots go round under load.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { seeded } from '../support/load.js';
import { Scenario } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const ROUNDS = 6;

test('processes that come and go', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 3 });
  const scenario = new Scenario(t, { seed: 5004 }, world);
  const random = seeded(5004);
  const { history, load } = scenario;
  await scenario.begin();
  load.start();
  for (let round = 0; round < ROUNDS; round++) {
    const process = Math.floor(random() * 3);
    await world.endOne(process, random() < 0.5 ? 'SIGTERM' : 'SIGKILL');
    const before = history.acknowledged;
    await Promise.all([world.startOne(process), until(() => history.acknowledged > before + 10)]);
  }
  const { log } = await scenario.prove();
  assert.ok(log.epochs > 1, 'no slot moved: nothing is proved');
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});
