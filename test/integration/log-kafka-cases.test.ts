// What the contract of the log does not say: refusals of the broker, lost answers, topics that are there already, offsets for Kafka's tools.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { silentLogger } from '../../src/core/logger.js';
import { KafkaLog, type KafkaLogOptions } from '../../src/log/kafka/kafka-log.js';
import {
  AppendIndefiniteError,
  AppendRefusedError,
  type LogRecord,
  type NewRecord,
  type PartitionRef,
  type TopicSpec,
} from '../../src/log/log.js';
import { freshPrefix, kafkaForTests, needsKafka, needsKafkaHome, needsKafkaTools } from '../support/kafka.js';
import { until } from '../support/service.js';
import { PRODUCE, startKafkaBehindProxies } from '../support/tcp-proxy.js';

const spec: TopicSpec = { topic: 'statefold.acme.events', partitions: 2, cleanup: { policy: 'tombstones' } };
const ref: PartitionRef = { topic: spec.topic, partition: 0 };
const other: PartitionRef = { topic: spec.topic, partition: 1 };
const DAY = 24 * 3600 * 1000;
const ALL = 8 * 1024 * 1024;

const record = (key: string, value: string | Buffer | null = key): NewRecord => ({
  key: Buffer.from(key),
  value: value === null ? null : Buffer.from(value),
});
const keys = (records: readonly LogRecord[]): string[] =>
  records.map(({ offset, key }) => `${offset} ${key.toString()}`);

async function open(
  t: Pick<TestContext, 'after'>,
  options: Partial<KafkaLogOptions> = {},
): Promise<KafkaLog & { readonly name: string }> {
  const prefix = options.prefix ?? freshPrefix();
  const log = new KafkaLog({ brokers: options.brokers ?? (await kafkaForTests()).brokers, ...options, prefix });
  t.after(() => log.close());
  return Object.assign(log, { name: `${prefix}.acme.events` });
}

async function adminOf(t: Pick<TestContext, 'after'>): Promise<Admin> {
  const admin = new Kafka({
    clientId: 'tests',
    brokers: [...(await kafkaForTests()).brokers],
    logLevel: logLevel.NOTHING,
  }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  return admin;
}

describe('the log on Kafka', { skip: needsKafka }, () => {
  it('refuses what the topic refuses, and what goes along with it lands', async (t) => {
    const prefix = freshPrefix();
    const log = await open(t, { prefix });
    const strict = await open(t, { prefix, topicConfigOverrides: { 'max.message.bytes': '2000' } });
    const narrow: TopicSpec = { ...spec, topic: 'statefold.narrow' };
    await log.ensureTopics([spec]);
    await strict.ensureTopics([narrow]);
    const large = 'x'.repeat(3000);
    const results = await Promise.allSettled(
      [ref, { topic: narrow.topic, partition: 0 }, other, { topic: narrow.topic, partition: 1 }, ref].map((to, i) =>
        log.append(to, [record(`k${i}`, large)]),
      ),
    );
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
    );
    for (const result of results)
      if (result.status === 'rejected')
        assert.ok(
          result.reason instanceof AppendRefusedError && result.reason.message.includes('MESSAGE_TOO_LARGE (10)'),
          String(result.reason),
        );
    assert.equal(await log.endOffset({ topic: narrow.topic, partition: 0 }), 0);
    assert.equal((await log.append({ topic: narrow.topic, partition: 0 }, [record('small')])).baseOffset, 0);
    assert.deepEqual(keys((await log.read(ref, 0, ALL)).records), ['0 k0', '1 k4']);
    // Known to be too large before it is sent.
    const small = await open(t, { prefix, maxAppendBytes: 1000 });
    await assert.rejects(
      small.append(ref, [record('a', 'x'.repeat(500)), record('b', 'y'.repeat(500))]),
      (error) => error instanceof AppendRefusedError && error.message.includes('2 records have 1130 bytes'),
    );
    assert.equal(await log.endOffset(ref), 2);
  });

  it("gives the broker's time of the append, the same when it is read", async (t) => {
    const log = await open(t);
    await log.ensureTopics([spec]);
    const { timestamp } = await log.append(ref, [record('a'), record('b')]);
    assert.deepEqual(
      (await log.read(ref, 0, ALL)).records.map((found) => found.timestamp),
      [timestamp, timestamp],
    );
    assert.ok(Math.abs(timestamp - Date.now()) < 60_000);
  });

  it('reads single records of large batches and of many small ones', async (t) => {
    const log = await open(t);
    await log.ensureTopics([spec]);
    for (let i = 0; i < 5; i++)
      await log.append(
        ref,
        Array.from({ length: 300 }, (_, j) => record(`${i * 300 + j}`, 'v'.repeat(200))),
      );
    for (let i = 1500; i < 1600; i++) await log.append(ref, [record(`${i}`)]);
    for (const offsets of [
      [0],
      [1599],
      [299, 300],
      [7, 900, 1100, 1499, 1500, 1503, 1577],
      Array.from({ length: 1600 }, (_, i) => i),
      Array.from({ length: 160 }, (_, i) => i * 10),
      [3, 5000],
    ]) {
      const found = (await log.readAt(ref, offsets)).records;
      assert.deepEqual(
        keys(found),
        offsets.filter((offset) => offset < 1600).map((offset) => `${offset} ${offset}`),
      );
    }
    const [first] = (await log.readAt(ref, [150])).records;
    assert.ok((first?.key.buffer.byteLength ?? Infinity) < 10_000, 'it does not hold its batch');
    assert.deepEqual((await log.readAt(other, [0, 5])).records, []);
  });

  it('goes on from the start when what is asked for was dropped, and has nothing past the end', async (t) => {
    const [log, admin] = [await open(t), await adminOf(t)];
    await log.ensureTopics([{ ...spec, cleanup: { policy: 'delete', retentionMs: DAY } }]);
    for (let i = 0; i < 10; i++) await log.append(ref, [record(`k${i}`)]);
    await admin.fetchTopicOffsets(log.name); // it must know the leader first
    await admin.deleteTopicRecords({ topic: log.name, partitions: [{ partition: 0, offset: '6' }] });
    assert.equal(await log.startOffset(ref), 6);
    assert.deepEqual(keys((await log.read(ref, 0, ALL)).records), ['6 k6', '7 k7', '8 k8', '9 k9']);
    assert.deepEqual(keys((await log.read(ref, 2, ALL, 30_000)).records), ['6 k6', '7 k7', '8 k8', '9 k9']);
    assert.deepEqual(keys((await log.readAt(ref, [1, 5, 6, 8])).records), ['6 k6', '8 k8']);
    assert.deepEqual((await log.read(ref, 11, ALL)).records, []);
    assert.deepEqual((await log.read(ref, 11, ALL, 150)).records, []);
    assert.equal(await log.endOffset(ref), 10);
  });

  it('creates topics that drop nothing by themselves, and names what is wrong with one that is there', async (t) => {
    const [log, admin] = [await open(t), await adminOf(t)];
    await log.ensureTopics([spec]);
    const described = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: log.name }] });
    const configs = Object.fromEntries(
      described.resources[0]?.configEntries.map(({ configName, configValue }) => [configName, configValue]) ?? [],
    );
    for (const [name, value] of Object.entries({
      'cleanup.policy': 'compact',
      'min.cleanable.dirty.ratio': '1.0',
      'min.compaction.lag.ms': `${DAY}`,
      'max.compaction.lag.ms': `${30 * DAY}`,
      'message.timestamp.type': 'LogAppendTime',
      'retention.ms': '-1',
      'retention.bytes': '-1',
      'unclean.leader.election.enable': 'false',
      'compression.type': 'producer',
    }))
      assert.equal(configs[name], value, name);

    for (const [wrong, says] of [
      [
        { 'unclean.leader.election.enable': 'true' },
        /has unclean\.leader\.election\.enable=true, not false: kafka-configs\.sh .*--entity-name \S+\.acme\.events --add-config unclean\.leader\.election\.enable=false$/,
      ],
      [{ 'message.timestamp.type': 'CreateTime' }, /has message\.timestamp\.type=CreateTime, not LogAppendTime/],
      [{ 'max.message.bytes': '1000' }, /has max\.message\.bytes=1000, not at least 16777216/],
      [
        { 'cleanup.policy': 'compact,delete' },
        /has cleanup 'compact,delete', not 'tombstones': .*cleanup\.policy=compact/,
      ],
      [{ 'cleanup.policy': 'delete', 'retention.ms': '1000' }, /has cleanup 'delete', not 'tombstones'/],
      [{ 'max.compaction.lag.ms': `${90 * DAY}` }, /has max\.compaction\.lag\.ms=7776000000, not at most 2592000000/],
    ] as const) {
      const prefix = freshPrefix();
      await (await open(t, { prefix, topicConfigOverrides: wrong })).ensureTopics([spec]);
      await assert.rejects((await open(t, { prefix })).ensureTopics([spec]), says);
    }
    const reader = await open(t, { prefix: log.name.split('.')[0] ?? '', replicationFactor: 3 });
    // Fewer copies than wanted are told, and stop nothing.
    await reader.ensureTopics([spec]);
    const { topics, short } = await reader.replication.look();
    assert.deepEqual(
      [
        topics,
        short.map(({ topic, copies, copiesWanted, inSync, inSyncWanted }) => [
          topic,
          copies < 3,
          copiesWanted,
          inSync,
          inSyncWanted,
        ]),
      ],
      [1, [[log.name, true, 3, 1, 2]]],
    );
  });

  it('leaves partitions alone that somebody has added, and names a topic that has too few, which nobody is told to delete', async (t) => {
    const [log, admin] = [await open(t), await adminOf(t)];
    await log.ensureTopics([spec]);
    await log.append(ref, [record('before')]);
    await admin.createPartitions({ topicPartitions: [{ topic: log.name, count: 3 }] });
    const lines: string[] = [];
    const logger = { ...silentLogger, warn: (_: object, text?: string) => void lines.push(text ?? '') };
    const later = await open(t, { prefix: log.name.split('.')[0] ?? '', logger });
    await later.ensureTopics([spec]);
    assert.deepEqual(lines, [
      `topic ${log.name} has 3 partitions, and 2 of them are used: those that were added stay empty`,
    ]);
    await later.append(ref, [record('after')]);
    assert.deepEqual(keys((await later.read(ref, 0, ALL)).records), ['0 before', '1 after']);
    await assert.rejects(later.ensureTopics([{ ...spec, partitions: 4 }]), ({ message }: Error) => {
      assert.match(message, /has 3 partitions, not 4: .*see what it holds/);
      assert.doesNotMatch(message, /delete/);
      return true;
    });
  });

  it('takes over how long records are kept, as it is a setting', async (t) => {
    const [log, admin] = [await open(t), await adminOf(t)];
    const kept = async (): Promise<unknown> =>
      (
        await admin.describeConfigs({
          includeSynonyms: false,
          resources: [{ type: 2, name: log.name, configNames: ['retention.ms', 'segment.ms', 'cleanup.policy'] }],
        })
      ).resources[0]?.configEntries
        .map(({ configName, configValue }) => `${configName}=${configValue}`)
        .sort();
    await log.ensureTopics([{ ...spec, cleanup: { policy: 'delete', retentionMs: 8 * DAY } }]);
    assert.deepEqual(await kept(), ['cleanup.policy=delete', `retention.ms=${8 * DAY}`, `segment.ms=${DAY}`]);
    await log.ensureTopics([{ ...spec, cleanup: { policy: 'delete', retentionMs: 4 * DAY } }]);
    // A broker tells the configs of a topic as it knows them, and hears of a change after who made it.
    const wanted = ['cleanup.policy=delete', `retention.ms=${4 * DAY}`, `segment.ms=${DAY / 2}`];
    await until(async () => isDeepStrictEqual(await kept(), wanted));
  });

  it('has brokers compress nothing: it could not be read', async (t) => {
    const prefix = freshPrefix();
    const compressed = await open(t, { prefix, topicConfigOverrides: { 'compression.type': 'lz4' } });
    await compressed.ensureTopics([spec]);
    assert.deepEqual((await compressed.replication.look()).compressing, [
      { topic: compressed.name, compression: 'lz4' },
    ]);
    const log = await open(t, { prefix });
    await log.ensureTopics([spec]);
    const isWell = async (): Promise<boolean> => (await log.replication.look()).compressing.length === 0;
    await until(isWell);
    await log.append(ref, [record('after', 'v'.repeat(1000))]);
    assert.deepEqual(keys((await log.read(ref, 0, ALL)).records), ['0 after']);
    // Who has it open does not look at it again: the watch sets it back.
    const admin = await adminOf(t);
    const set = (value: string): Promise<unknown> =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [{ type: 2, name: log.name, configEntries: [{ name: 'compression.type', value }] }],
      });
    await set('zstd');
    await until(async () => !(await isWell()));
    await log.replication.uncompress((await log.replication.look()).compressing);
    await until(isWell);
  });

  it('leaves alone what brokers compress so that it can be read', async (t) => {
    const prefix = freshPrefix();
    const packing = await open(t, { prefix, topicConfigOverrides: { 'compression.type': 'gzip' } });
    await packing.ensureTopics([spec]);
    await packing.append(ref, [record('packed', 'v'.repeat(1000))]);
    const log = await open(t, { prefix });
    await log.ensureTopics([spec]);
    const [packed] = (await log.read(ref, 0, ALL)).records;
    assert.equal(packed?.value?.toString(), 'v'.repeat(1000));
    const configs = await (
      await adminOf(t)
    ).describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: log.name, configNames: ['compression.type'] }],
    });
    assert.equal(configs.resources[0]?.configEntries[0]?.configValue, 'gzip');
  });

  it('sets what is its own, and still names what is not', async (t) => {
    const prefix = freshPrefix();
    const wrong = { 'compression.type': 'lz4', 'unclean.leader.election.enable': 'true' };
    await (await open(t, { prefix, topicConfigOverrides: wrong })).ensureTopics([spec]);
    await assert.rejects(
      (await open(t, { prefix })).ensureTopics([spec]),
      /has unclean\.leader\.election\.enable=true/,
    );
  });

  it('makes a topic once when many ask for it at one time', async (t) => {
    const prefix = freshPrefix();
    const logs = await Promise.all([1, 2, 3, 4].map(() => open(t, { prefix })));
    await Promise.all(logs.map((log) => log.ensureTopics([spec, { ...spec, topic: 'statefold.other' }])));
    await Promise.all(logs.map((log, i) => log.append(ref, [record(`k${i}`)])));
    assert.equal(await logs[0]?.endOffset(ref), 4);
  });

  it('tells how far partitions are folded as offsets of a group', async (t) => {
    const prefix = freshPrefix();
    const [log, admin] = [await open(t, { prefix }), await adminOf(t)];
    await log.ensureTopics([spec]);
    for (let i = 0; i < 7; i++) await log.append(i < 5 ? ref : other, [record(`k${i}`)]);
    log.reportPositions([
      { of: ref, position: 3 },
      { of: other, position: 2 },
    ]);
    log.reportPositions([{ of: ref, position: 5 }]);
    const offsets = async (): Promise<string> => {
      const [topic] = await admin.fetchOffsets({ groupId: `${prefix}-tasks`, topics: [log.name] });
      return [...(topic?.partitions ?? [])]
        .sort((a, b) => a.partition - b.partition)
        .map(({ partition, offset }) => `${partition}:${offset}`)
        .join(' ');
    };
    await until(async () => (await offsets()) === '0:5 1:2');
    log.reportPositions([{ of: other, position: 1 }]);
    await until(async () => (await offsets()) === '0:5 1:1');
    if (needsKafkaTools !== false) return t.diagnostic(`not looked at with Kafka's own tool: ${needsKafkaTools}`);
    const told = await (
      await kafkaForTests()
    ).tool('kafka-consumer-groups', ['--describe', '--group', `${prefix}-tasks`]);
    assert.deepEqual(
      told
        .split('\n')
        .flatMap((line) => /events\s+(\d)\s+(\d)\s+(\d)\s+(\d)/.exec(line)?.slice(1).join(' ') ?? [])
        .sort(),
      ['0 5 5 0', '1 1 2 1'],
    );
  });

  it('says which broker can not be reached, and refuses appends', async (t) => {
    const log = await open(t, { brokers: ['127.0.0.1:1'] });
    await assert.rejects(
      log.append(ref, [record('a')]),
      (error) => error instanceof AppendRefusedError && error.message.includes('127.0.0.1:1'),
    );
    await assert.rejects(log.ensureTopics([spec]), /no connection to the broker 127\.0\.0\.1:1/);
    assert.throws(() => new KafkaLog({ brokers: ['localhost'] }), /'localhost' is no address/);
  });
});

it(
  '3: an append without an answer is indefinite, in time, and the next ones go on; reads are asked again',
  { skip: needsKafkaHome, timeout: 120_000 },
  async (t) => {
    const { brokers, proxies } = await startKafkaBehindProxies(t);
    const [proxy] = proxies;
    assert.ok(proxy !== undefined);
    // Patient with what is answered late on a busy machine.
    const log = await open(t, { brokers, requestTimeoutMs: 3000, connectTimeoutMs: 2000 });
    await log.ensureTopics([spec]);
    await log.append(ref, [record('k0')]);

    const inTime = async (
      append: Promise<unknown>,
      kind: typeof AppendIndefiniteError | typeof AppendRefusedError,
    ): Promise<void> => {
      const started = performance.now();
      await assert.rejects(append, kind);
      assert.ok(performance.now() - started < 15_000);
    };
    // The reply is lost: it landed.
    proxy.judge(({ apiKey }) => (apiKey === PRODUCE ? 'lose reply' : 'pass'));
    await inTime(log.append(ref, [record('k1')]), AppendIndefiniteError);
    await proxy.heal();
    assert.deepEqual(await log.append(ref, [record('k2')]).then(({ baseOffset }) => baseOffset), 2);

    // Half-open: connections that are there never say anything again, later ones pass.
    proxy.stallPresent();
    await inTime(log.append(ref, [record('lost')]), AppendIndefiniteError);
    assert.equal(await log.endOffset(ref), 3, 'by a new connection');
    assert.equal((await log.append(ref, [record('k3')])).baseOffset, 3);

    // Reset while a read waits: it goes on at the new connection.
    const waiting = log.read(ref, 4, ALL, 60_000);
    await log.endOffset(ref);
    proxy.reset();
    await until(() =>
      log.append(ref, [record('k4')]).then(
        () => true,
        () => false,
      ),
    );
    assert.deepEqual(keys((await waiting).records), ['4 k4']);

    // Nobody there: refused at once, again and again.
    await proxy.refuse();
    proxy.reset();
    await until(() =>
      log.append(ref, [record('x')]).then(
        () => false,
        (error) => error instanceof AppendRefusedError,
      ),
    );
    const started = performance.now();
    for (let i = 0; i < 200; i++) await assert.rejects(log.append(ref, [record('x')]), AppendRefusedError);
    assert.ok(performance.now() - started < 5000);
    await assert.rejects(log.endOffset(ref));
    await assert.rejects(log.read(ref, 0, ALL, 1000));
    const end = 5;
    await proxy.heal();
    await until(() =>
      log.append(ref, [record('after')]).then(
        () => true,
        (error) => assert.ok(error instanceof AppendRefusedError) === undefined && false,
      ),
    );
    assert.deepEqual(keys((await log.read(ref, end, ALL)).records), [`${end} after`], 'nothing that was refused');
  },
);
