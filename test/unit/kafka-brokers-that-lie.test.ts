// Brokers that answer, and whose answers are not what they seem: held back by a quota, cut, or old.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cluster } from '../../src/kafka/cluster.js';
import { CODE, KafkaCodeError } from '../../src/kafka/kafka-error.js';
import { encodeRecordBatch } from '../../src/log/kafka/record-batch.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { fetchedOf, metadataOf, startFakeBroker, type FakeBroker } from '../support/fake-broker.js';

const topic = 'statefold.acme.events';
const of = { topic, partition: 0 };

test('an answer that is cut within its first batch is no absence of records: more is asked for', async (t) => {
  const broker = await startFakeBroker(t);
  const batch = encodeRecordBatch([{ key: Buffer.from('k'), value: Buffer.alloc(5000, 7) }], 0);
  const asked: number[] = [];
  broker.answers = {
    Metadata: () => metadataOf([broker], topic, { leader: 0, epoch: 0 }),
    Fetch: (request) => {
      for (let i = 0; i < 3; i++) request.int32(); // replica, longest wait, fewest bytes
      const most = request.int32();
      asked.push(most);
      return fetchedOf(topic, { end: 1, records: batch.subarray(0, most) });
    },
  };
  const log = new KafkaLog({ brokers: [broker.address] });
  t.after(() => log.close());

  for (const bytes of [1, 8, 100]) {
    const page = await log.read(of, 0, bytes);
    assert.deepEqual(
      page.records.map(({ offset, value }) => [offset, value?.length]),
      [[0, 5000]],
      `asked for ${bytes} bytes`,
    );
  }
  assert.deepEqual(asked.slice(-2), [100, batch.length]);
});

test('a broker that a quota has read nothing is sent nothing, and a read waits for it', async (t) => {
  const broker = await startFakeBroker(t);
  const batch = encodeRecordBatch([{ key: Buffer.from('k'), value: Buffer.from('v') }], 0);
  let held = 0;
  broker.answers = {
    Metadata: () => metadataOf([broker], topic, { leader: 0, epoch: 0 }),
    Fetch: () => (held++ < 2 ? fetchedOf(topic, { throttleMs: 300 }) : fetchedOf(topic, { end: 1, records: batch })),
  };
  const log = new KafkaLog({ brokers: [broker.address], requestTimeoutMs: 200 });
  t.after(() => log.close());

  assert.equal((await log.read(of, 0, 1024)).records.length, 1);
  const fetches = broker.seen.filter(({ api }) => api === 'Fetch').map(({ at }) => at);
  assert.equal(fetches.length, 3);
  for (const [i, at] of fetches.entries()) if (i > 0) assert.ok(at - (fetches[i - 1] ?? 0) >= 299, fetches.join());
});

/** Two brokers: the first was cut off from the controller when it led, the second leads since. */
async function oneCutOff(t: Parameters<typeof startFakeBroker>[0]): Promise<{
  readonly cluster: Cluster;
  readonly brokers: readonly [FakeBroker, FakeBroker];
  readonly ask: () => Promise<number>;
}> {
  const brokers = [await startFakeBroker(t), await startFakeBroker(t)] as const;
  brokers[0].answers = { Metadata: () => metadataOf(brokers, topic, { leader: 0, epoch: 3 }) };
  brokers[1].answers = { Metadata: () => metadataOf(brokers, topic, { leader: 1, epoch: 4 }) };
  const cluster = new Cluster({
    brokers: brokers.map(({ address }) => address),
    clientId: 'test',
    connectTimeoutMs: 1000,
    requestTimeoutMs: 1000,
  });
  t.after(() => cluster.close());
  const ask = (): Promise<number> =>
    cluster.routed(of, (leader) => {
      if (leader.port === brokers[1].port) return Promise.resolve(leader.port);
      return Promise.reject(new KafkaCodeError(CODE.NOT_LEADER_OR_FOLLOWER, topic));
    });
  return { cluster, brokers, ask };
}

test('a broker that tells old leaders is not asked for ever: another one is', async (t) => {
  const { cluster, brokers, ask } = await oneCutOff(t);
  assert.equal(await ask(), brokers[1].port);
  // Whoever is asked from then on, the newest leader that was told of holds.
  for (let i = 0; i < 6; i++) {
    cluster.invalidate(topic);
    assert.equal((await cluster.findLeader(of)).port, brokers[1].port);
  }
});

test('a topic that was made anew has leaders again, though it counts its epochs from 0', async (t) => {
  const { cluster, brokers, ask } = await oneCutOff(t);
  assert.equal(await ask(), brokers[1].port);
  for (const broker of brokers)
    broker.answers = { Metadata: () => metadataOf(brokers, topic, { leader: 0, epoch: 0 }) };
  cluster.invalidate(topic);
  assert.equal((await cluster.findLeader(of)).port, brokers[0].port);
});

test('who follows a leader that is cut off, and none any more, comes to the one that is, though nothing fails', async (t) => {
  const { brokers } = await oneCutOff(t);
  const batch = encodeRecordBatch([{ key: Buffer.from('k'), value: Buffer.from('v') }], 0);
  const [cutOff, leader] = brokers;
  // It answers as before: that there is nothing new.
  cutOff.answers = { ...cutOff.answers, Fetch: () => fetchedOf(topic, { records: Buffer.alloc(0) }) };
  leader.answers = { ...leader.answers, Fetch: () => fetchedOf(topic, { end: 1, records: batch }) };
  const log = new KafkaLog({ brokers: brokers.map(({ address }) => address), freshMs: 50 });
  t.after(() => log.close());
  assert.deepEqual((await log.read(of, 0, 1024)).records, []);
  const found = await readWhenThere(log);
  assert.deepEqual(found, ['v']);
});

/** As a follower reads, for some seconds at most. */
async function readWhenThere(log: KafkaLog): Promise<readonly string[]> {
  for (const until = performance.now() + 10_000; performance.now() < until;) {
    const { records } = await log.read(of, 0, 1024, 100);
    if (records.length > 0) return records.map(({ value }) => String(value));
  }
  return [];
}
