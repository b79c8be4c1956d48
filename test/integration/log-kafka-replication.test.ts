// Topics that were made while a broker was alone, and the copies that they are given later, on three real brokers.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { alterConfigsCall, metadataCall } from '../../src/kafka/calls.js';
import { Cluster } from '../../src/kafka/cluster.js';
import { KafkaLog, type KafkaLogOptions } from '../../src/log/kafka/kafka-log.js';
import type { TopicSpec } from '../../src/log/log.js';
import { needsKafkaHome, startKafka } from '../support/kafka.js';
import {
  AS_ADMIN,
  API_KEY,
  PROGRAM,
  programOf,
  ROOT,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.js';
import { MASTER_KEY } from '../support/peers.js';

const events: TopicSpec = { topic: 'statefold.acme.events', partitions: 2, cleanup: { policy: 'tombstones' } };
const changes: TopicSpec = {
  topic: 'statefold.acme_1f2e3d4c.changes',
  partitions: 1,
  cleanup: { policy: 'delete', retentionMs: 86_400_000 },
};
const catalog: TopicSpec = { topic: 'statefold.catalog', partitions: 1, cleanup: { policy: 'tombstones' } };

/** What `ask` gives once it does not fail any more, and gives anything. */
async function eventually<T>(ask: () => Promise<T | undefined>): Promise<T> {
  let answer: T | undefined;
  await until(async () => (answer = await ask().catch(() => undefined)) !== undefined, 60_000);
  return answer as T;
}

test('copies of topics on three brokers', { skip: needsKafkaHome, timeout: 290_000 }, async (t) => {
  const cluster = await startKafka({ brokers: 3 });
  t.after(() => cluster.close());
  const open = (options: Partial<KafkaLogOptions> = {}): KafkaLog => {
    const log = new KafkaLog({ brokers: cluster.brokers, prefix: 'raised', requestTimeoutMs: 5000, ...options });
    t.after(() => log.close());
    return log;
  };

  const brokers = (): Cluster => {
    const all = new Cluster({
      brokers: cluster.brokers,
      clientId: 'tests',
      connectTimeoutMs: 3000,
      requestTimeoutMs: 5000,
    });
    t.after(() => all.close());
    return all;
  };
  const replicasOf = async (topic: string): Promise<readonly number[]> => {
    const { topicMetadata } = await brokers().ask('query', () => metadataCall([topic]));
    return topicMetadata[0]?.partitionMetadata.find(({ partitionId }) => partitionId === 0)?.replicas ?? [];
  };

  await t.test('what lacks copies is named, whatever else is on the brokers', async () => {
    const alone = open({ replicationFactor: 1 });
    await alone.ensureTopics([events, changes]);
    await open().ensureTopics([catalog]);
    await open({ prefix: 'raised.other', replicationFactor: 1 }).ensureTopics([events]);
    for (let n = 0; n < 20; n++)
      await alone.append({ topic: events.topic, partition: n % 2 }, [
        { key: Buffer.from(`k${n}`), value: Buffer.from(`${n}`) },
      ]);
    assert.deepEqual(
      await alone.replication.look(),
      { topics: 3, brokers: 3, short: [], dropping: [], compressing: [] },
      'one is what it wants',
    );
    const lacking = { copies: 1, copiesWanted: 3, inSync: 1, inSyncWanted: 2 };
    assert.deepEqual(await open().replication.look(), {
      topics: 3,
      brokers: 3,
      short: [
        { topic: 'raised.acme.events', ...lacking },
        { topic: 'raised.acme_1f2e3d4c.changes', ...lacking },
      ],
      dropping: [],
      compressing: [],
    });
    const { short } = await open({ minInsyncReplicas: 3 }).replication.look();
    assert.deepEqual(
      short.map(({ topic, copies, inSync, inSyncWanted }) => [topic, copies, inSync, inSyncWanted]),
      [
        ['raised.acme.events', 1, 1, 3],
        ['raised.acme_1f2e3d4c.changes', 1, 1, 3],
        ['raised.catalog', 3, 2, 3],
      ],
    );
    await assert.rejects(
      open({ replicationFactor: 4 }).replication.raise(),
      /wants 4 copies of each topic, and Kafka has 3 brokers: start the others first, or set it lower/,
    );
  });

  await t.test('they are raised under load, all that was written stays, and any broker may go then', async () => {
    const log = open();
    const [alone] = await replicasOf('raised.acme.events');
    let written = 20;
    let loading = true;
    const load = (async (): Promise<void> => {
      while (loading) {
        await log.append({ topic: events.topic, partition: written % 2 }, [
          { key: Buffer.from(`k${written}`), value: Buffer.from(`${written}`) },
        ]);
        written++;
      }
    })();
    const seen: (readonly [number, number])[] = [];
    const after = await log.replication.raise(({ done, total }) => void seen.push([done, total]));
    assert.deepEqual(after, { topics: 3, brokers: 3, short: [], dropping: [], compressing: [] });
    assert.deepEqual(seen[0], [0, 3]);
    assert.deepEqual(seen.at(-1), [3, 3]);
    for (const [i, [done]] of seen.entries())
      assert.ok(i === 0 || done >= (seen[i - 1]?.[0] ?? 0), 'it never goes back');
    loading = false;
    await load;

    const again: unknown[] = [];
    assert.deepEqual(await log.replication.raise((progress) => void again.push(progress)), after);
    assert.deepEqual(again, [], 'there is nothing left to do');

    // The one that had the only copy.
    const node = cluster.nodes.find(({ id }) => id === alone) ?? assert.fail('the first broker');
    await node.kill();
    const reader = open({
      brokers: cluster.nodes.filter((one) => one !== node).map(({ port }) => `127.0.0.1:${port}`),
    });
    const of = { topic: events.topic, partition: 0 };
    const records = await eventually(async () => {
      const found = await reader.read(of, 0, 16 * 1024 * 1024);
      return found.records.length === (await reader.endOffset(of)) ? found.records : undefined;
    });
    const all = Array.from({ length: written }, (_, n) => n).filter((n) => n % 2 === 0);
    assert.deepEqual(
      records.map(({ value }) => Number(value?.toString())),
      all,
    );
    await eventually(() => reader.append(of, [{ key: Buffer.from('without it'), value: Buffer.from('1') }]));
    await node.start();
  });

  await t.test('a service on topics with too few says so and serves; the command raises them beside it', async () => {
    const dataDirectory = temporaryDirectory(t);
    const env = {
      KAFKA_BROKERS: cluster.brokers.join(','),
      KAFKA_TOPIC_PREFIX: 'served',
      STATEFOLD_MASTER_KEY: MASTER_KEY,
      CLICKHOUSE_URL: 'http://127.0.0.1:9',
    };
    const first = await startService(t, { dataDirectory, env: { ...env, KAFKA_REPLICATION_FACTOR: '1' } });
    const event = { aggregateId: 'a-1', eventType: 'E', data: {} };
    assert.equal((await first.post('/events', event)).status, 201);
    const ready = async (service: typeof first): Promise<Record<string, string>> => {
      const answer = await service.get('/health/ready', { key: null });
      assert.equal(answer.status, 200, answer.text);
      return answer.json<{ checks: Record<string, string> }>().checks;
    };
    assert.equal((await ready(first))['replication'], 'up');
    await first.stop();

    const service = await startService(t, { dataDirectory, env });
    await until(async () => (await ready(service))['replication'] === 'degraded');
    assert.match(service.output, /served\.artefacts, .*: fewer copies on Kafka than wanted.*statefold topics raise/);
    const gauge = async (): Promise<string | undefined> =>
      /^statefold_log_topics_short_of_copies (\d+)$/m.exec((await service.get('/metrics', AS_ADMIN)).text)?.[1];
    assert.ok(Number(await gauge()) >= 6);
    const run = async (
      ...args: string[]
    ): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> => {
      const child = spawn(process.execPath, [programOf(PROGRAM), ...args], {
        cwd: ROOT,
        env: { PATH: process.env['PATH'], STATEFOLD_API_KEY: API_KEY, STATEFOLD_DATA_DIR: dataDirectory, ...env },
      });
      let [out, err] = ['', ''];
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, out, err };
    };
    const before = await run('topics', 'check');
    assert.equal(before.code, 1, before.err);
    assert.match(before.out, /^TOPIC +COPIES +WANTED +IN SYNC +WANTED\n/);
    assert.match(before.out, /^served\.default\.events +1 +3 +1 +2$/m);
    const raised = await run('topics', 'raise');
    assert.deepEqual(
      [raised.code, raised.out],
      [0, `All ${/All (\d+)/.exec(raised.out)?.[1]} topics have as many copies as wanted, on 3 brokers.\n`],
      raised.err,
    );
    const [, total] = /^0 of (\d+) partitions have their copies\n/.exec(raised.err) ?? [];
    assert.ok(raised.err.endsWith(`${total} of ${total} partitions have their copies\n`), raised.err);
    await until(async () => (await ready(service))['replication'] === 'up', 60_000);
    assert.equal(await gauge(), '0');
    assert.equal((await service.post('/events', event)).status, 201);
    const none = await run('--json', 'topics', 'raise');
    assert.deepEqual([none.code, none.err], [0, '']);
    assert.deepEqual((JSON.parse(none.out) as { short: unknown }).short, []);
    await service.stop();

    // Somebody has a topic drop events: whoever runs the service must not learn that from what is gone.
    const keeps = async (policy: string, topic = 'served.default.events'): Promise<unknown> =>
      brokers().askAdmin(() => Promise.resolve(alterConfigsCall(topic, { 'cleanup.policy': policy })), 5000);
    await keeps('compact,delete');
    const wary = await startService(t, { dataDirectory, env });
    await until(async () => (await ready(wary))['replication'] === 'degraded');
    const told =
      /topic served\.default\.events drops records .*cleanup\.policy=compact,delete.*--entity-name served\.default\.events --add-config cleanup\.policy=compact/;
    assert.match(wary.output, told);
    const dropping = await run('topics', 'check');
    assert.equal(dropping.code, 1, dropping.err);
    assert.match(dropping.out, /^All \d+ topics have as many copies as wanted, on 3 brokers\.\n/);
    assert.match(dropping.out, told);
    // Something stays wrong, so that the service looks again soon; and the tenant is open: what opens it sets the compression back itself.
    await keeps('compact,delete', 'served.artefacts');
    await keeps('compact');
    await until(async () => (await wary.post('/events', event)).status === 201);
    const compress = async (by: string): Promise<unknown> =>
      brokers().askAdmin(
        () => Promise.resolve(alterConfigsCall('served.default.events', { 'compression.type': by })),
        5000,
      );
    await compress('lz4');
    const unreadable =
      /topic served\.default\.events is compressed .*compression\.type=lz4.*--entity-name served\.default\.events --add-config compression\.type=producer/;
    const compressing = await run('topics', 'check');
    assert.equal(compressing.code, 1, compressing.err);
    assert.match(compressing.out, unreadable);
    await until(() => unreadable.test(wary.output));
    assert.equal((await ready(wary))['replication'], 'degraded');
    await compress('producer');
    await keeps('compact', 'served.artefacts');
    await until(async () => (await ready(wary))['replication'] === 'up');
    assert.equal((await run('topics', 'check')).code, 0);
    await wary.stop();
  });
});
