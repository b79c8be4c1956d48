// What looks after the copies of topics on Kafka knows every topic that a service makes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { Api, newTenant, success } from '../support/api.js';
import { Receiver } from '../support/api-channels.js';
import { reducerOf } from '../support/checker-model.js';
import { statefold } from '../support/cli.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

test('each topic of a service is looked at', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const prefix = freshPrefix();
  const env = { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: prefix };
  const receiver = await Receiver.open(t);
  const service = await startService(t, { env });
  const api = new Api(service, await newTenant(service, { tenantId: 'wide', partitions: 2 }));
  await api.deployReducer(reducerOf('ledger'));
  success(await api.post('/webhooks/endpoints', { url: receiver.url, source: { feed: {} } }), 201);
  for (let i = 0; i < 4; i++) await api.append(`ledger-${i % 2}`, 'Added', { id: `e${i}`, lane: 'l' });
  success(await api.delete('/aggregates/ledger-0'), 202);

  const admin = new Kafka({ clientId: 'tests', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  const kinds = ['audit', 'attempts', 'wide.events', 'wide.changes', 'wide.order', 'wide.redactions'];
  let made: string[] = [];
  await until(async () => {
    made = (await admin.listTopics()).filter((topic) => topic.startsWith(`${prefix}.`));
    return kinds.every((kind) => made.includes(`${prefix}.${kind}`));
  }).catch(() => assert.deepEqual(made, kinds, 'they are made'));
  // More than there are brokers, so that each lacks some.
  const wanting = { ...env, KAFKA_REPLICATION_FACTOR: '9' };
  const { out } = await statefold(wanting, temporaryDirectory(t), 'topics', 'check', '--json');
  const { short } = JSON.parse(out) as { readonly short: readonly { readonly topic: string }[] };
  assert.deepEqual(short.map(({ topic }) => topic).sort(), made.sort());
});
