// Invariants 1, 2 and 20: somebody had a real broker drop events, their topic, or the catalog, or take less than it did. Who has not folded them
// serves nothing, rather than a shorter history; and nothing is acknowledged that is not there.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { CATALOG_TOPIC } from '../../src/catalog/fenced-catalog.js';
import { InvariantError } from '../../src/core/errors.js';
import { alterConfigsCall } from '../../src/kafka/calls.js';
import { Cluster } from '../../src/kafka/cluster.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { startService, until } from '../support/service.js';
import { TaskWorld } from '../support/task-world.js';

const EVENTS = { topic: 'statefold.acme.events', partition: 0 };

interface Ground {
  readonly prefix: string;
  /** The topic of the events as the broker has it. */
  readonly topic: string;
  readonly admin: Admin;
  readonly open: (requestTimeoutMs?: number) => KafkaLog;
  /** A process with nothing on its disk. */
  readonly start: (tenantId?: string, requestTimeoutMs?: number) => Promise<TaskWorld>;
  readonly set: (configs: Readonly<Record<string, string>>) => Promise<void>;
}

async function ground(t: TestContext): Promise<Ground> {
  const { brokers } = await kafkaForTests();
  const prefix = freshPrefix();
  const topic = `${prefix}.acme.events`;
  const admin = new Kafka({ clientId: 'faults', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  const cluster = new Cluster({ brokers, clientId: 'faults', connectTimeoutMs: 3000, requestTimeoutMs: 5000 });
  t.after(() => cluster.close());
  const open = (requestTimeoutMs = 10_000): KafkaLog => {
    const log = new KafkaLog({ brokers: [...brokers], prefix, requestTimeoutMs });
    t.after(() => log.close());
    return log;
  };
  return {
    ...{ prefix, topic, admin, open },
    start: (tenantId = 'acme', requestTimeoutMs) => TaskWorld.start(t, { log: open(requestTimeoutMs), tenantId }),
    set: async (configs) => {
      const [answer] = await cluster.askAdmin(() => Promise.resolve(alterConfigsCall(topic, configs)), 5000);
      assert.equal(answer?.code, 0);
    },
  };
}

const append = async (world: TaskWorld, text = ''): Promise<number> => (await answerOf(world, text)).status;

async function answerOf({ url }: TaskWorld, text: string): Promise<{ readonly status: number; readonly body: string }> {
  const body = JSON.stringify({ aggregateId: 'a-1', eventType: 'Added', data: { text } });
  const answer = await fetch(`${url}/events`, { method: 'POST', body });
  return { status: answer.status, body: await answer.text() };
}

/** It neither takes nor shows anything, and says that the log lost data. */
async function isRefused(world: TaskWorld, why: RegExp): Promise<void> {
  assert.equal(await append(world), 503);
  assert.equal((await fetch(`${world.url}/events/a-1`)).status, 503);
  const stop = world.stops.find((error) => error instanceof InvariantError);
  assert.match(String(stop?.message), why);
}

test(
  '2: who has not folded events that were dropped does not begin anew behind them',
  { skip: needsKafka },
  async (t) => {
    const { admin, topic, open, set, start } = await ground(t);
    const first = await start();
    for (let n = 0; n < 5; n++) assert.equal(await append(first), 201);
    await set({ 'cleanup.policy': 'delete' });
    await admin.fetchTopicOffsets(topic); // else the client does not know who leads it
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] });
    const log = open();
    await until(async () => (await log.startOffset(EVENTS)) === 4);
    await set({ 'cleanup.policy': 'compact' });
    // Its owner has folded them.
    assert.equal(await append(first), 201);
    await first.close();
    await isRefused(await start(), /acme\.events-0: the log begins at 4, 0 is to be read next, .*: the log lost data$/);
    assert.equal(await log.endOffset(EVENTS), 7, 'a claim, and what was acknowledged');
  },
);

test('2: a tenant whose events were deleted with their topic is not begun anew', { skip: needsKafka }, async (t) => {
  const { admin, topic, start } = await ground(t);
  const first = await start();
  assert.equal(await append(first), 201);
  await first.close();
  await admin.deleteTopics({ topics: [topic] });
  await until(async () => !(await admin.listTopics()).includes(topic));
  await isRefused(
    await start(),
    /topic \S+\.acme\.events is not there, and \S+\.acme\.changes, which was made with it, was written to: .*; the log lost data$/,
  );
});

test(
  '2: topics that are deleted under their owner are not made anew, and no other tenant waits for it',
  { skip: needsKafka },
  async (t) => {
    const { admin, prefix, topic, start } = await ground(t);
    const [owner, other] = [await start('acme', 1000), await start('other', 1000)];
    for (const world of [owner, other]) assert.equal(await append(world), 201);
    // All that it has, as where a broker comes back without its disk.
    const topics = [topic, `${prefix}.acme.changes`];
    await admin.deleteTopics({ topics });
    const answers = new Set<number>();
    await until(async () => {
      answers.add(await append(owner));
      assert.equal(await append(other), 201);
      return owner.stops.some((error) => error instanceof InvariantError);
    });
    assert.deepEqual([...answers], [503]);
    await isRefused(
      owner,
      /topic \S+\.acme\.\w+ was there .*, and is not any more: .* not made anew; the log lost data$/,
    );
    const left = await admin.listTopics();
    assert.deepEqual(
      topics.filter((name) => left.includes(name)),
      [],
    );
  },
);

test('2: a topic that takes less than a commit needs', { skip: needsKafka }, async (t) => {
  const { start, set } = await ground(t);
  const [owner, large] = [await start(), 'x'.repeat(20_000)];
  assert.equal(await append(owner, large), 201);
  await set({ 'max.message.bytes': '10000' });
  await until(async () => (await append(owner, large)) === 503);
  const refused = await answerOf(owner, large);
  assert.match(refused.body, /takes less at once than the service needs .* nothing was stored/);
  assert.equal(await append(owner), 201, 'what is small enough is taken');
  await set({ 'max.message.bytes': '20000000' });
  await until(async () => (await append(owner, large)) === 201);
});

test(
  '2: a catalog that was deleted is not begun anew beside the topics of its tenants',
  { skip: needsKafka },
  async (t) => {
    const { brokers } = await kafkaForTests();
    const { admin, prefix, open, start } = await ground(t);
    const log = open();
    assert.deepEqual(await log.tenantTopicsWithout(CATALOG_TOPIC), [], 'nothing is there yet');
    const tenant = await start();
    assert.equal(await append(tenant), 201);
    await tenant.close();
    assert.deepEqual(await log.tenantTopicsWithout(CATALOG_TOPIC), [`${prefix}.acme.events`]);
    const service = startService(t, { env: { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: prefix } });
    await assert.rejects(service, /Kafka has no topic \S+\.catalog, and has topics of tenants \(\S+\.acme\.events\)/);
    assert.deepEqual((await admin.listTopics()).filter((name) => name.startsWith(`${prefix}.`)).sort(), [
      `${prefix}.acme.changes`,
      `${prefix}.acme.events`,
    ]);
  },
);
