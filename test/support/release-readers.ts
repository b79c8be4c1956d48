// All that reads: what each feature finds in the data of a release that is open in this one.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { noJail } from '../hostile/escape-world.js';
import { Api, newTenant, success } from './api.js';
import { openEvents, openSocket } from './api-channels.js';
import { statefold } from './cli.js';
import { feedEvents, feedLines, feedSocket, pages, type FeedEvent } from './feed-channels.js';
import { jsonLines } from './json-lines.js';
import { lackingOf, type Expected } from './release-fixture.js';
import { AS_ADMIN, sample, startService, temporaryDirectory, until, type Answer, type Service } from './service.js';
import { openKeyed, snapshotOf } from './streams.js';
import { digestOf, exported, importLines } from './transfer.js';

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '' } = sample('bank');

/** Tenants of a fixture that have events and are served, with their partitions. */
const TENANTS = { default: 1, long: 1, wide: 3, again: 1 } as const;

const apiOf = (service: Service, { keys }: Expected, tenant: string): Api => new Api(service, keys[tenant] ?? '');

const eventsIn = (told: readonly FeedEvent[]): readonly FeedEvent[] => told.filter(({ type }) => type === undefined);

/** The feed of each tenant says the same by each of its channels. */
export async function readFeeds(t: TestContext, service: Service, expected: Expected): Promise<void> {
  for (const tenant of Object.keys(TENANTS)) {
    const api = apiOf(service, expected, tenant);
    const told = await pages(api, '&limit=7');
    assert.ok(told.length > 0);
    assert.equal(
      told.some(({ type }) => type === 'erased'),
      tenant === 'default',
    );
    for (const open of [feedLines, feedEvents, feedSocket]) {
      const channel = await open(t, api, '?after=0');
      assert.deepEqual(await channel.received(told.length), told, `${tenant}: ${open.name}`);
      channel.close();
    }
    const aggregates = await api.read<{ aggregates: { aggregateId: string; version: number }[] }>(
      '/aggregates?limit=1000',
    );
    for (const { aggregateId, version } of aggregates.aggregates) {
      const { events: its } = await api.read<{ events: { eventId: string }[] }>(`/events/${aggregateId}?limit=1000`);
      assert.equal(its.length, version);
      assert.deepEqual(
        its.map(({ eventId }) => eventId),
        eventsIn(told)
          .filter((event) => event.aggregateId === aggregateId)
          .map(({ eventId }) => eventId),
      );
    }
  }
}

/** Changes, by each channel, and the states that streams tell first. */
export async function readChanges(t: TestContext, service: Service, expected: Expected): Promise<void> {
  const api = apiOf(service, expected, 'default');
  const path = `/projections/${expected.projectionId}`;
  const told = await api.notifications(expected.projectionId, 1);
  for (const open of [openEvents, openSocket]) {
    const channel = await open(t, api, expected.projectionId, '?afterSequence=0');
    assert.deepEqual(await channel.received(told.length), told, open.name);
    channel.close();
  }
  const { states } = await api.read<{ states: { key: string; state: unknown }[] }>(`${path}/states?limit=1000`);
  assert.ok(states.length > 0);
  const byKey = (one: { key: string }, other: { key: string }): number => (one.key < other.key ? -1 : 1);
  for (const kind of ['stream', 'sse']) {
    const stream = await openKeyed(t, api, `${path}/${kind}?snapshot=true`);
    const { states: first } = await snapshotOf(stream);
    assert.deepEqual(
      first.map(({ key, state }) => ({ key, state })).sort(byKey),
      states.map(({ key, state }) => ({ key, state })).sort(byKey),
      kind,
    );
    stream.close();
  }
}

/** Folded again from the log nothing differs, and what tells of tenants, endpoints and code answers. */
export async function readAbout(service: Service, expected: Expected): Promise<void> {
  for (const tenant of ['default', 'long', 'wide']) {
    const api = apiOf(service, expected, tenant);
    const { projections } = await api.read<{ projections: { id: string }[] }>('/projections');
    for (const path of ['/aggregate-types/account', ...projections.map(({ id }) => `/projections/${id}`)]) {
      const verified = success(await api.post(`${path}/verify`, { sample: 100 }), 200).json<Record<string, unknown>>();
      assert.deepEqual([verified['complete'], verified['different'], verified['absent']], [true, 0, 0], path);
      assert.ok(Number(verified['equal']) > 0);
    }
    const stored = Buffer.byteLength((await exported(service, api.key ?? '')).join(''));
    for (const { usage } of [
      await api.read<{ usage: { storageBytes: number } }>('/usage'),
      success(await api.get(`/admin/tenants/${tenant}/usage`, AS_ADMIN), 200).json<{
        usage: { storageBytes: number };
      }>(),
    ])
      assert.ok(usage.storageBytes > stored / 4, `${usage.storageBytes} of ${stored} bytes`);
  }
  const api = apiOf(service, expected, 'default');
  for (const { endpointId, delivered } of [expected.feedEndpoint, expected.changesEndpoint]) {
    const { attempts } = await api.read<{ attempts: { messageId: string }[] }>(
      `/webhooks/endpoints/${endpointId}/attempts?limit=100`,
    );
    assert.ok(attempts.length > 0);
    for (const { messageId } of attempts) assert.ok(delivered.includes(messageId));
    await api.read(`/webhooks/endpoints/${endpointId}/parked`);
  }
  const { revisions } = await api.read<{ revisions: { revision: number }[] }>(
    `/projections/${expected.projectionId}/revisions`,
  );
  for (const { revision } of revisions)
    await api.read(`/projections/${expected.projectionId}/revisions/${revision}/sources`);
  for (const path of ['/state-types', '/event-types', '/auth/whoami']) await api.read(path);
}

/** SQL and its views have what the feed and the states have. */
export async function readSql(service: Service, expected: Expected): Promise<void> {
  if (noJail !== undefined) return;
  for (const tenant of ['default', 'long', 'wide']) {
    const api = apiOf(service, expected, tenant);
    const told = eventsIn(await pages(api));
    const position = told.at(-1)?.position ?? 0;
    const rows = async <T>(query: string): Promise<T[]> => {
      const ask = (): Promise<Answer> =>
        api.post(`/sql?waitFor=${position}&waitSeconds=30`, { query, format: 'JSONEachRow' });
      let answer = await ask();
      // Rows that an erasure removes just then are gone from the copy that is read.
      await until(async () => answer.status !== 503 || ((answer = await ask()), false));
      return jsonLines<T>(success(answer, 200).text);
    };
    const found = 'SELECT event_id AS eventId FROM';
    const ids = (of: readonly { readonly eventId: string }[]): string[] => of.map(({ eventId }) => eventId).sort();
    assert.deepEqual(ids(await rows<FeedEvent>(`${found} events FINAL`)), ids(told));
    const ofAccounts = told.filter(({ aggregateType }) => aggregateType === 'account');
    assert.deepEqual(ids(await rows<FeedEvent>(`${found} account_events`)), ids(ofAccounts));
    const states: object[] = [];
    for (const aggregateId of [...new Set(ofAccounts.map((event) => event.aggregateId))].sort()) {
      const answer = await api.get(`/aggregate-types/account/${aggregateId}/state`);
      const { state } = answer.json<{ state?: { owner: string; balance: number; entries: number } | null }>();
      if (state) states.push({ aggregate_id: aggregateId, ...state });
    }
    const query = 'SELECT aggregate_id, owner, toInt32(balance) AS balance, toInt32(entries) AS entries';
    await until(async () => {
      const views = await rows(`${query} FROM account_states ORDER BY aggregate_id`);
      return JSON.stringify(views) === JSON.stringify(states);
    });
  }
}

/** What is exported and taken in elsewhere has the same events in the same order, and folds to the same states. */
export async function moveOut(t: TestContext, service: Service, expected: Expected): Promise<void> {
  const target = await startService(t);
  for (const [tenant, partitions] of Object.entries(TENANTS)) {
    const lines = await exported(service, expected.keys[tenant] ?? '');
    const key = await newTenant(target, { tenantId: `moved-${tenant}`, partitions });
    success(await importLines(target, `moved-${tenant}`, lines), 200);
    const { states, ...were } = await digestOf(service, expected.keys[tenant] ?? '');
    // What was passed over in a fold is no event, and stays behind.
    const isWhole = tenant === 'long' || tenant === 'wide';
    if (isWhole) await new Api(target, key).deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
    const { states: folded, ...are } = await digestOf(target, key);
    assert.deepEqual(are, were, tenant);
    if (isWhole) assert.equal(folded, states, tenant);
  }
  await target.stop();
}

/** A restored backup says all that the release said. */
export async function restored(t: TestContext, service: Service, expected: Expected): Promise<void> {
  const [elsewhere, folder] = [temporaryDirectory(t), join(temporaryDirectory(t), 'backup')];
  const run = async (dataDirectory: string, ...args: string[]): Promise<void> => {
    const { code, err } = await statefold({ STATEFOLD_DATA_DIR: dataDirectory }, elsewhere, ...args);
    assert.equal(code, 0, err);
  };
  const again = join(temporaryDirectory(t), 'data');
  await run(service.dataDirectory, 'backup', folder);
  await run(again, 'restore', folder);
  const other = await startService(t, { dataDirectory: again });
  let wrong: string[] = [];
  await until(async () => (wrong = await lackingOf(other, expected, true)).length === 0, 30_000).catch(() => undefined);
  assert.deepEqual(wrong, []);
  await other.stop();
}

/** An aggregate of the release is erased: no reader finds it, all others go on, and the audit log of the release takes that up. */
export async function erase(t: TestContext, service: Service, expected: Expected): Promise<void> {
  const api = apiOf(service, expected, 'default');
  const erased = 'account-2';
  const before = await pages(api);
  assert.ok(before.some(({ aggregateId }) => aggregateId === erased));
  const ask = async (): Promise<string> =>
    success(await api.delete(`/aggregates/${erased}`), 202).json<{ status: string }>().status;
  await until(async () => (await ask()) === 'erased');
  assert.equal((await api.get(`/events/${erased}`)).status, 410);
  const left = before.filter(({ aggregateId }) => aggregateId !== erased);
  const told = await pages(api);
  assert.deepEqual(
    told.filter(({ aggregateId }) => aggregateId !== erased),
    left,
  );
  assert.deepEqual(
    told.filter(({ aggregateId }) => aggregateId === erased).map(({ type }) => type),
    ['erased'],
  );
  assert.equal((await exported(service, api.key ?? '')).length, eventsIn(told).length);
  await readFeeds(t, service, expected);
  for (const answer of [await api.get('/audit?limit=1000'), await api.get('/admin/audit?limit=1000', AS_ADMIN)]) {
    const { entries } = success(answer, 200).json<{ entries: { action: string; object: object; outcome: string }[] }>();
    assert.ok(
      entries.some(
        ({ action, object, outcome }) =>
          action === 'aggregate.erase' && outcome === 'done' && isDeepStrictEqual(object, { aggregateId: erased }),
      ),
      answer.text,
    );
  }
}

/** The read store is written anew of the log of the release, and has the same. */
export async function rebuildReadStore(service: Service, expected: Expected): Promise<void> {
  const admin = new Api(service, null);
  success(await admin.post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
  await until(async () => {
    const activity = success(await admin.get('/admin/processes/activity', AS_ADMIN), 200);
    return activity.json<{ readStoreRebuild?: { state: string } }>().readStoreRebuild?.state === 'done';
  }, 60_000);
  await readSql(service, expected);
}
