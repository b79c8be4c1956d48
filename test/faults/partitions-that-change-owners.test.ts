// Invariants 1 to 13 for a tenant of eight partitions: processes that each own some of them are killed, and come back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partitionOf } from '../../src/core/murmur2.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { seeded } from '../support/load.js';
import { Scenario } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const PARTITIONS = 8;
/** An aggregate that nobody has, of each partition. */
const SAMPLES = Array.from(
  { length: PARTITIONS },
  (_, partition) =>
    Array.from({ length: 100 }, (_, n) => `nobody-${n}`).find((id) => partitionOf(id, PARTITIONS) === partition) ?? '',
);

test('one process, killed in a loop', async (t) => {
  const scenario = Scenario.alone(t, { seed: 6001, partitions: PARTITIONS, rows: true });
  const { history, load, world } = scenario;
  await scenario.begin();
  load.start();
  for (let round = 0; round < 4; round++) {
    const before = history.acknowledged;
    await until(() => history.acknowledged > before + 100);
    await world.end('SIGKILL');
    await world.start();
  }
  const { log } = await scenario.prove();
  assert.ok(log.epochs > PARTITIONS, 'no partition was claimed again: nothing is proved');
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});

test('two processes on Kafka, each killed in its turn', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2 });
  const scenario = new Scenario(t, { seed: 6002, partitions: PARTITIONS }, world);
  const random = seeded(6002);
  const { history, load } = scenario;
  await scenario.begin();
  // Asked for an aggregate of each partition, as another process would ask, both answer for some.
  await until(async () => {
    const answers = await Promise.all(
      [0, 1].flatMap((process) => SAMPLES.map((id) => world.at(process).get(`/events/${id}`, { asPeer: true }))),
    );
    const owned = [0, 1].map(
      (process) =>
        answers.slice(process * PARTITIONS, (process + 1) * PARTITIONS).filter(({ status }) => status === 404).length,
    );
    return owned.every((count) => count > 0) && owned.reduce((sum, count) => sum + count, 0) === PARTITIONS;
  });
  load.start();
  for (let round = 0; round < 5; round++) {
    const before = history.acknowledged;
    await until(() => history.acknowledged > before + 50);
    const process = round % 2;
    await world.endOne(process, random() < 0.6 ? 'SIGKILL' : 'SIGTERM');
    await world.startOne(process);
  }
  const { log } = await scenario.prove();
  assert.ok(log.epochs > PARTITIONS, 'no partition moved: nothing is proved');
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});
