// What was erased is in no file of the brokers once their cleaner came by; and in a tenant of several partitions it is gone from its
// own, and nothing else is, on either log.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Kafka, logLevel, type ConfigResourceTypes } from 'kafkajs';
import { Api, newTenant, problem, success } from '../support/api.js';
import { totals } from '../support/csharp.js';
import { freshPrefix, needsKafkaHome, startKafka } from '../support/kafka.js';
import { MASTER_KEY } from '../support/peers.js';
import { sample, startService, temporaryDirectory, until, type Service } from '../support/service.js';

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '' } = sample('bank');
const TOPIC = 2 as ConfigResourceTypes.TOPIC;
const AGGREGATES = 9;

/** Files below the folder that hold one of the texts; what the broker removes meanwhile holds nothing. */
function holders(folder: string, texts: readonly string[]): string[] {
  const unlessGone = <T>(read: () => T): T | undefined => {
    try {
      return read();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  };
  return (unlessGone(() => readdirSync(folder, { withFileTypes: true })) ?? []).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return holders(path, texts);
    const bytes = entry.isFile() ? unlessGone(() => readFileSync(path)) : undefined;
    return texts.some((text) => bytes?.includes(text)) ? [path] : [];
  });
}

/** As an admin of the cluster may set them: what takes a day at the soonest is due at once. */
async function cleanSoon(brokers: readonly string[], prefix: string): Promise<void> {
  const admin = new Kafka({ clientId: 'tests', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const topics = (await admin.listTopics()).filter(
      (name) => name.startsWith(`${prefix}.`) && name.endsWith('.events'),
    );
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: topics.map((name) => ({ type: TOPIC, name })),
    });
    await admin.alterConfigs({
      validateOnly: false,
      resources: resources.map(({ resourceName, configEntries }) => {
        const configs = new Map(
          configEntries
            .filter(({ isDefault, readOnly }) => !isDefault && !readOnly)
            .map((one) => [one.configName, one.configValue]),
        );
        for (const [name, value] of Object.entries({
          'cleanup.policy': 'compact',
          'min.compaction.lag.ms': '0',
          'max.compaction.lag.ms': '1000',
          'min.cleanable.dirty.ratio': '0.01',
          'segment.ms': '200',
          'delete.retention.ms': '0',
          'file.delete.delay.ms': '100',
        }))
          configs.set(name, value);
        return {
          type: TOPIC,
          name: resourceName,
          configEntries: [...configs].map(([name, value]) => ({ name, value })),
        };
      }),
    });
  } finally {
    await admin.disconnect();
  }
}

interface Told {
  readonly canaries: readonly string[];
  readonly kept: string;
  readonly erased: string;
  /** What others have, as clients read it. */
  readonly others: unknown;
  readonly othersOf: (api: Api) => Promise<unknown>;
}

/** Appends to several aggregates, also in a transaction, and erases one. */
async function eraseOne(api: Api): Promise<Told> {
  const [name, meta, inTransaction, kept] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const erased = 'account-0';
  await api.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
  for (let i = 0; i < AGGREGATES; i++)
    await api.append(
      `account-${i}`,
      'Opened',
      { owner: i === 0 ? name : `${kept}-${i}` },
      { metadata: { who: i === 0 ? meta : 'other' } },
    );
  // With one that lies in the same partition: in a tenant of several not all do.
  let partner: string | undefined;
  for (let i = 1; i < AGGREGATES && partner === undefined; i++) {
    const answer = await api.post('/events/transaction', {
      appends: [
        { aggregateId: `account-${i}`, events: [{ eventType: 'Deposited', data: { cents: 5, note: `${kept}-t` } }] },
        { aggregateId: erased, events: [{ eventType: 'Deposited', data: { cents: 5, note: inTransaction } }] },
      ],
    });
    if (answer.status === 201) partner = `account-${i}`;
    else problem(answer, 422, 'CROSS_PARTITION');
  }
  assert.ok(partner !== undefined, 'one of them lies beside it');
  const canaries = [name, meta, inTransaction];
  const othersOf = async (of: Api): Promise<unknown> => {
    const { events: all } = await of.read<{ events: { aggregateId: string; eventType: string }[] }>('/feed?limit=1000');
    const read: unknown[] = [
      all.filter(({ aggregateId, eventType }) => aggregateId !== erased && eventType !== 'Poked'),
    ];
    for (let i = 1; i < AGGREGATES; i++)
      read.push((await of.read<{ state: unknown }>(`/aggregate-types/account/account-${i}/state?atVersion=1`)).state);
    return read;
  };
  const others = await othersOf(api);
  success(await api.request('DELETE', `/aggregates/${erased}`), 202);
  await until(
    async () => success(await api.delete(`/aggregates/${erased}`), 202).json<{ status: string }>().status === 'erased',
  );
  const told = { canaries, kept, erased, others, othersOf };
  await isGone(api, told);
  return told;
}

async function isGone(api: Api, { erased, canaries, kept, others, othersOf }: Told): Promise<void> {
  assert.deepEqual(await othersOf(api), others);
  problem(await api.get(`/events/${erased}`), 410, 'GONE');
  problem(await api.post('/events', { aggregateId: erased, eventType: 'Opened', data: {} }), 410, 'GONE');
  const feed = success(await api.get('/feed?limit=1000'), 200);
  for (const text of canaries) assert.ok(!feed.text.includes(text));
  const { events: all } = feed.json<{ events: { aggregateId: string; type?: string }[] }>();
  assert.deepEqual(
    all.filter(({ aggregateId }) => aggregateId === erased).map(({ type }) => type),
    ['erased'],
  );
  assert.ok(feed.text.includes(`${kept}-t`), 'what the transaction says of the other one stays');
}

test(
  'nothing of an erased aggregate is in any file of the brokers',
  { skip: needsKafkaHome, timeout: 280_000 },
  async (t) => {
    const cluster = await startKafka({
      properties: { 'log.cleaner.backoff.ms': 100, 'log.initial.task.delay.ms': 100 },
    });
    t.after(() => cluster.close());
    const prefix = freshPrefix();
    const start = (): Promise<Service> =>
      startService(t, {
        readStore: true,
        env: {
          KAFKA_BROKERS: cluster.brokers.join(','),
          KAFKA_TOPIC_PREFIX: prefix,
          KAFKA_SESSION_TIMEOUT_MS: '6000',
          STATEFOLD_MASTER_KEY: MASTER_KEY,
          CLICKHOUSE_URL: 'http://127.0.0.1:9',
        },
      });
    let service = await start();
    const wideKey = await newTenant(service, { tenantId: 'wide', name: 'Wide', partitions: 3 });
    let apis = [new Api(service), new Api(service, wideKey)];
    const told: Told[] = [];
    for (const api of apis) told.push(await eraseOne(api));
    const canaries = told.flatMap((one) => one.canaries);
    assert.ok(holders(cluster.directory, canaries).length > 0, 'they are found while they are there');
    await cleanSoon(cluster.brokers, prefix);
    await until(async () => {
      // A record after its time rolls the segment: an idle partition's last one is never cleaned.
      for (const api of apis)
        for (let i = 1; i < AGGREGATES; i++) await api.append(`account-${i}`, 'Poked', { filler: 1 });
      return holders(cluster.directory, canaries).length === 0;
    }, 150_000);
    assert.ok(holders(cluster.directory, [told[0]?.kept ?? '']).length > 0);
    // From nothing but what the cleaner left.
    await service.stop();
    service = await start();
    apis = [new Api(service), new Api(service, wideKey)];
    for (const [i, api] of apis.entries()) {
      const one = told[i];
      assert.ok(one !== undefined);
      await until(async () => (await api.get('/feed?limit=1')).status === 200);
      await isGone(api, one);
    }
  },
);

test('an aggregate of a tenant of several partitions is erased', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  const key = await newTenant(service, { tenantId: 'wide', name: 'Wide', partitions: 3 });
  let api = new Api(service, key);
  const told = await eraseOne(api);
  await service.stop();
  service = await startService(t, { readStore: true, dataDirectory });
  api = new Api(service, key);
  await isGone(api, told);
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  await api.append('account-1', 'Added', { key: 'k', n: 3 });
  assert.deepEqual(
    (await api.notifications(projectionId, 1)).map(({ key: of }) => of),
    ['k'],
  );
});
