import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/service.js';
import {
  freshPrefix,
  kafkaForTests,
  kafkaTool,
  needsKafkaHome,
  needsKafkaTools,
  startKafka,
} from '../support/kafka.js';

test('the shared Kafka takes what its own tools write, and gives it back', { skip: needsKafkaTools }, async () => {
  const kafka = await kafkaForTests();
  const topic = `${freshPrefix()}.words`;
  await kafka.tool('kafka-topics', ['--create', '--topic', topic, '--partitions', '1']);
  await kafka.tool('kafka-console-producer', ['--topic', topic], 'one\ntwo\n');
  assert.equal(
    await kafka.tool('kafka-console-consumer', ['--topic', topic, '--from-beginning', '--max-messages', '2']),
    'one\ntwo\n',
  );
});

test(
  'three brokers: any one is killed, what was written stays, and it comes back on its port',
  { skip: needsKafkaTools, timeout: 120_000 },
  async (t) => {
    const cluster = await startKafka({ brokers: 3 });
    t.after(() => cluster.close());
    const topic = 'words';
    await kafkaTool(cluster.brokers, 'kafka-topics', ['--create', '--topic', topic, '--partitions', '3']);
    await kafkaTool(cluster.brokers, 'kafka-console-producer', ['--topic', topic], 'one\ntwo\n');
    const [first, ...others] = cluster.nodes;
    assert.ok(first);
    await first.kill();
    assert.equal(first.pid, undefined);
    const alive = others.map(({ port }) => `127.0.0.1:${port}`);
    const read = await kafkaTool(alive, 'kafka-console-consumer', [
      '--topic',
      topic,
      '--from-beginning',
      '--max-messages',
      '2',
    ]);
    assert.deepEqual(read.trim().split('\n').sort(), ['one', 'two']);
    const described = (): Promise<string> =>
      kafkaTool(alive, 'kafka-topics', ['--describe', '--topic', topic, '--under-replicated-partitions']);
    await until(async () => (await described()).includes('Partition:'));
    await first.start();
    await until(async () => !(await described()).includes('Partition:'));
  },
);

test('a broker that can not start says why', { skip: needsKafkaHome }, async () => {
  await assert.rejects(startKafka({ properties: { 'log.segment.bytes': 'many' } }), /log\.segment\.bytes/);
});
