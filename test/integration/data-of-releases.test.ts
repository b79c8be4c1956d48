// The data of every release that was ever made: opened, compared answer by answer with what that release said of it, written to, and
// opened again. A fixture is written once, by `scripts/make-fixture.mjs`, and never changed.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import test, { type TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore, STORE_FORMAT } from '../../src/store/local-store.js';
import { Api, problem, success, type Appended } from '../support/api.js';
import { Receiver } from '../support/api-channels.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { loadTopics } from '../support/kafka-dump.js';
import { MASTER_KEY } from '../support/peers.js';
import {
  DATA_FILE,
  EXPECTED_FILE,
  FIXTURE_ENV,
  lackingOf,
  lacks,
  releases,
  TOPICS_FILE,
  unpackFolder,
  type Expected,
} from '../support/release-fixture.js';
import {
  erase,
  moveOut,
  readAbout,
  readChanges,
  readFeeds,
  readSql,
  rebuildReadStore,
  restored,
} from '../support/release-readers.js';
import { ROOT, startService, temporaryDirectory, until, type Service } from '../support/service.js';

const nameOf = (folder: string): string => `${basename(dirname(folder))}, ${basename(folder)}`;
const expectedOf = (folder: string): Expected =>
  JSON.parse(readFileSync(join(folder, EXPECTED_FILE), 'utf8')) as Expected;

/** A service that has just opened the data says all that the release said, as soon as it has folded it. */
async function saysTheSame(service: Service, expected: Expected, isFolded: boolean): Promise<void> {
  let wrong: string[] = [];
  await until(async () => (wrong = await lackingOf(service, expected, isFolded)).length === 0, 30_000).catch(
    () => undefined,
  );
  assert.deepEqual(wrong, []);
}

/** Of an answer of the release, what its body has. */
const bodyOf = <T>({ answers }: Expected, path: string): T =>
  answers.find((answer) => answer.key === 'default' && answer.path.startsWith(path))?.body as T;

const eventsOf = (expected: Expected, id: string): number =>
  bodyOf<{ events: unknown[] }>(expected, `/events/${id}?`).events.length;

/** The service, to which nothing was written since, goes on where the release ended. Gives what holds that a restarted one has the same. */
async function goesOn(
  t: TestContext,
  service: Service,
  expected: Expected,
): Promise<(restarted: Service) => Promise<void>> {
  const { keys, projectionId, repeatable, erased } = expected;
  const api = new Api(service, keys['default'] ?? '');
  const { idempotencyKey, body, answer } = repeatable;
  const repeat = success(await api.post('/events', body, { headers: { 'idempotency-key': idempotencyKey } }), 201);
  const again = repeat.json<Appended>();
  assert.equal(lacks(again, { eventId: (answer as Appended).eventId, version: 2 }), undefined, repeat.text);
  const event = (aggregateId: string, cents: unknown, expectedVersion?: number): object => ({
    ...{ aggregateId, eventType: 'Deposited', data: { cents } },
    ...(expectedVersion !== undefined && { expectedVersion }),
  });
  problem(await api.post('/events', event(erased, 1)), 410, 'GONE');
  problem(await api.post('/events', event('account-0', 'none')), 422, 'SCHEMA_VIOLATION');
  problem(await api.post('/events', event('account-0', 1, 0)), 409, 'VERSION_CONFLICT');

  const had = bodyOf<{ state: { balance: number } }>(expected, '/aggregate-types/account/account-0/state').state;
  const version = eventsOf(expected, 'account-0');
  const told = bodyOf<{ notifications: { sequence: number }[] }>(
    expected,
    `/projections/${projectionId}/notifications`,
  ).notifications;
  const appended = success(await api.post('/events', event('account-0', 11, version)), 201).json<Appended>();
  assert.equal(appended.version, version + 1);
  assert.equal((appended.state as typeof had).balance, had.balance + 11);
  success(
    await api.post('/events/transaction', {
      appends: ['account-0', 'account-1'].map((aggregateId, i) => ({
        aggregateId,
        events: [
          {
            eventType: i === 0 ? 'TransferSent' : 'TransferReceived',
            data: { transferId: 't-since', from: 'account-0', to: 'account-1', cents: 4 },
          },
        ],
      })),
    }),
    201,
  );
  const last = told.at(-1)?.sequence ?? 0;
  const since = await api.notifications(projectionId, 2, `&afterSequence=${last}`);
  // Each start takes a sequence for the claim of its owner.
  assert.deepEqual(
    since.map(({ key }) => key),
    ['t-since', 't-since'],
  );
  assert.ok(since[0] !== undefined && since[1] !== undefined && since[0].sequence > last);
  assert.equal(since[1].sequence, since[0].sequence + 1);

  const receiver = await Receiver.open(t);
  for (const [path, { endpointId, secret, delivered }] of [
    ['/feed', expected.feedEndpoint],
    ['/changes', expected.changesEndpoint],
  ] as const) {
    success(await api.patch(`/webhooks/endpoints/${endpointId}`, { url: receiver.url + path }), 200);
    success(await api.post(`/webhooks/endpoints/${endpointId}/resume`), 200);
    const end =
      path === '/feed'
        ? (await api.read<{ position: number }>('/feed?limit=1000')).position
        : (since.at(-1)?.sequence ?? 0);
    await until(async () => (await api.read<{ through: number }>(`/webhooks/endpoints/${endpointId}`)).through >= end);
    const messages = receiver.of(path);
    assert.ok(messages.length >= 4, `${path} has what waited, and what came since`);
    for (const message of messages) {
      assert.ok(!delivered.includes(message.headers['webhook-id'] ?? ''), `${path}: sent again`);
      assert.equal(message.headers['x-kept'], 'sealed');
      new Webhook(secret).verify(message.body, message.headers);
    }
  }
  const wide = new Api(service, keys['wide'] ?? '');
  for (let i = 0; i < 8; i++)
    assert.equal((await wide.append(`account-${i}`, 'Deposited', { cents: 1 })).version, 3, 'in several partitions');

  const paths = [
    '/events/account-0',
    '/events/account-1',
    '/aggregate-types/account/account-1/state',
    '/feed?limit=1000',
    `/projections/${projectionId}/states`,
    `/projections/${projectionId}/notifications?limit=1000`,
  ];
  const read = (of: Service): Promise<unknown[]> =>
    Promise.all([
      ...paths.map((path) => new Api(of, api.key).read(path)),
      new Api(of, wide.key).read('/feed?limit=1000'),
    ]);
  const answers = await read(service);
  return async (restarted) => {
    await until(async () => isDeepStrictEqual(await read(restarted), answers), 30_000).catch(() => undefined);
    assert.deepEqual(await read(restarted), answers);
  };
}

test('this release has left its data to the tests of later ones', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  for (const file of [DATA_FILE, TOPICS_FILE] as const)
    assert.ok(
      releases(file).some((folder) => basename(dirname(folder)) === version),
      `run \`node scripts/make-fixture.mjs\` with KAFKA_HOME set, and keep what it writes`,
    );
});

/** Every reader finds in the data what is there, and goes on when something of it goes. A log on Kafka is backed up by its owner. */
async function walk(t: TestContext, service: Service, expected: Expected, isEmbedded: boolean): Promise<void> {
  await saysTheSame(service, expected, true);
  const steps: readonly (readonly [name: string, work: () => Promise<void>])[] = [
    ['feeds', () => readFeeds(t, service, expected)],
    ['changes', () => readChanges(t, service, expected)],
    ['what tells of it', () => readAbout(service, expected)],
    ['SQL', () => readSql(service, expected)],
    ['export and import', () => moveOut(t, service, expected)],
    ...(isEmbedded ? ([['backup', () => restored(t, service, expected)]] as const) : []),
    ['erasure', () => erase(t, service, expected)],
    ['SQL after it', () => readSql(service, expected)],
    ['a rebuild of the read store', () => rebuildReadStore(service, expected)],
  ];
  for (const [name, work] of steps) await t.test(name, work);
}

for (const folder of releases(DATA_FILE))
  test(`the data directory of ${nameOf(folder)}`, async (t) => {
    const expected = expectedOf(folder);
    const dataDirectory = temporaryDirectory(t);
    const start = (): Promise<Service> => startService(t, { readStore: true, dataDirectory, env: FIXTURE_ENV });
    await t.test('says the same from the store that the release left', async () => {
      unpackFolder(readFileSync(join(folder, DATA_FILE)), dataDirectory);
      const service = await start();
      await saysTheSame(service, expected, false);
      await service.stop();
    });

    await t.test('says the same where the store is of another format, and is folded again', async () => {
      const path = join(dataDirectory, 'store');
      assert.ok(existsSync(path));
      const newer = new LocalStore({ path, logger: silentLogger, format: STORE_FORMAT + 1 });
      assert.deepEqual([...newer.sections()], [], 'a store of another format is empty');
      await newer.close();
      const service = await start();
      await saysTheSame(service, expected, true);
      await service.stop();
      rmSync(path, { recursive: true });
    });

    await t.test('is read by all that reads, moved, restored, erased in and written anew', async (t) => {
      const fresh = temporaryDirectory(t);
      unpackFolder(readFileSync(join(folder, DATA_FILE)), fresh);
      const service = await startService(t, {
        readStore: true,
        dataDirectory: fresh,
        env: FIXTURE_ENV,
      });
      await walk(t, service, expected, true);
      await service.stop();
    });

    await t.test('goes on, over a restart', async () => {
      let service = await start();
      await saysTheSame(service, expected, true);
      const isKept = await goesOn(t, service, expected);
      await service.stop();
      service = await start();
      await isKept(service);
      await service.stop();
    });
  });

for (const folder of releases(TOPICS_FILE))
  test(`the topics of ${nameOf(folder)}`, { skip: needsKafka }, async (t) => {
    const expected = expectedOf(folder);
    const { brokers } = await kafkaForTests();
    const prefix = freshPrefix();
    await loadTopics(brokers, prefix, readFileSync(join(folder, TOPICS_FILE)));
    const start = (env: Readonly<Record<string, string>> = {}): Promise<Service> =>
      startService(t, {
        readStore: true,
        env: {
          ...FIXTURE_ENV,
          KAFKA_BROKERS: brokers.join(','),
          KAFKA_TOPIC_PREFIX: prefix,
          KAFKA_SESSION_TIMEOUT_MS: '6000',
          STATEFOLD_MASTER_KEY: MASTER_KEY,
          CLICKHOUSE_URL: 'http://127.0.0.1:9',
          ...env,
        },
      });
    // A data directory of its own each time: from snapshots and the log alone.
    await t.test('is read by all that reads, moved, erased in and written anew', async (t) => {
      const own = freshPrefix();
      await loadTopics(brokers, own, readFileSync(join(folder, TOPICS_FILE)));
      // With a read store of its own: the embedded one.
      const service = await start({ KAFKA_TOPIC_PREFIX: own, CLICKHOUSE_URL: '' });
      await walk(t, service, expected, false);
      await service.stop();
    });
    let service = await start();
    await saysTheSame(service, expected, true);
    const isKept = await goesOn(t, service, expected);
    await service.stop();
    service = await start();
    await isKept(service);
    await service.stop();
  });
