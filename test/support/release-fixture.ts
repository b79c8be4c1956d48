// What a release wrote, kept for the ones after it: `scripts/make-fixture.mjs` writes such a fixture, and
// `test/integration/data-of-releases.test.ts` opens each that was ever made.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { TestContext } from 'node:test';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { environments } from '../../src/app/open-log.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { Api, newTenant, success } from './api.js';
import { Receiver } from './api-channels.js';
import { AS_ADMIN, ROOT, sample, until, type Service } from './service.js';

export const RELEASES = join(ROOT, 'test', 'fixtures', 'releases');
/** Packed files of a data directory, and packed records of the topics of a Kafka. */
export const DATA_FILE = 'data.br';
export const TOPICS_FILE = 'topics.br';
export const EXPECTED_FILE = 'expected.json';

const FOR_LONG_MS = String(100 * 365 * 24 * 3600 * 1000);
/** Of services on a fixture: what it holds must not be too old for anything. */
export const FIXTURE_ENV = {
  CHANGES_RETENTION_MS: FOR_LONG_MS,
  AUDIT_RETENTION_MS: FOR_LONG_MS,
  SNAPSHOT_AFTER_RECORDS: '100',
};

/** An answer of the release. `key`: by whose key of `Expected.keys` it was asked; undefined: as the owner of the service. */
export interface Answered {
  readonly key?: string;
  readonly path: string;
  readonly status: number;
  readonly body: unknown;
}

export interface Expected {
  readonly release: string;
  /** By tenant. */
  readonly keys: Readonly<Record<string, string>>;
  readonly projectionId: string;
  readonly feedEndpoint: Endpoint;
  readonly changesEndpoint: Endpoint;
  /** A request that was made with an `Idempotency-Key`, and its answer. */
  readonly repeatable: { readonly idempotencyKey: string; readonly body: object; readonly answer: object };
  readonly erased: string;
  readonly answers: readonly Answered[];
}

interface Endpoint {
  readonly endpointId: string;
  readonly secret: string;
  /** Up to where all was delivered. */
  readonly through: number;
  /** Ids of the messages that were delivered. */
  readonly delivered: readonly string[];
}

const ALL = 'limit=1000';
const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '', 'Transfers.cs': transfers = '' } = sample('bank');
/** The same states in another text, so that it is another revision. */
const reworded = transfers.replace('on its way', 'not there yet');
const changed = transfers.replace('transfer.Cents, SentAt: null', 'transfer.Cents + 1, SentAt: null');

const transfer = (id: string, from: string, to: string, cents: number): object => ({
  appends: [
    { aggregateId: from, events: [{ eventType: 'TransferSent', data: { transferId: id, from, to, cents } }] },
    { aggregateId: to, events: [{ eventType: 'TransferReceived', data: { transferId: id, from, to, cents } }] },
  ],
  metadata: { teller: 'Grace' },
});

/** Has the service write some of everything that it can store. Resolves with what it answers then; stop it before its files are taken. */
export async function writeAll(t: Pick<TestContext, 'after'>, service: Service, release: string): Promise<Expected> {
  const receiver = await Receiver.open(t);
  const api = new Api(service);
  await api.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
  const projectionId = await api.deployProjection(
    { 'Transfers.cs': transfers, 'Events.cs': events },
    { config: JSON.stringify({ sse: true }) },
  );
  const endpoint = async (path: string, source: object): Promise<{ endpointId: string; secret: string }> =>
    success(
      await api.post('/webhooks/endpoints', {
        ...{ url: receiver.url + path, source, from: 'start', isolateSecret: true },
        ...{ headers: { 'X-Kept': 'sealed' }, description: 'of a fixture' },
      }),
      201,
    ).json();
  const followed = {
    '/feed': await endpoint('/feed', { feed: {} }),
    '/changes': await endpoint('/changes', { projectionId }),
  };

  for (const [i, owner] of ['Ada', 'Bob', 'Cyd', 'Dee'].entries())
    await api.append(
      `account-${i}`,
      'Opened',
      { owner, since: 1815 + i, note: 'ünï✓', exact: 12345678901234, part: 0.1 },
      { metadata: { by: 'Grace', n: [1, null, { deep: true }] }, correlationId: `c-${i}`, causationId: 'walk-in' },
    );
  const body = { aggregateId: 'account-0', eventType: 'Deposited', data: { cents: 700 }, expectedVersion: 1 };
  const idempotencyKey = 'kept-by-the-log';
  const answer = success(
    await api.post('/events', body, { headers: { 'idempotency-key': idempotencyKey } }),
    201,
  ).json<object>();
  success(
    await api.post('/events/batch', {
      aggregateId: 'account-1',
      events: [
        { eventType: 'Deposited', data: { cents: 900 }, metadata: { counter: 1 } },
        { eventType: 'Withdrawn', data: { cents: 100 } },
      ],
    }),
    201,
  );
  const transact = async (...of: Parameters<typeof transfer>): Promise<unknown> =>
    success(await api.post('/events/transaction', transfer(...of)), 201);
  await transact('t-1', 'account-0', 'account-1', 50);
  await transact('t-2', 'account-3', 'account-0', 20);
  await transact('t-3', 'account-1', 'account-3', 30);
  // One that throws, and stays so; one that was passed over.
  await api.append('account-thrown', 'Withdrawn', { cents: 1 });
  await api.append('account-passed', 'Withdrawn', { cents: 1 });
  success(await api.post('/aggregate-types/account/account-passed/skip', { version: 1 }), 200);
  await api.append('account-passed', 'Opened', { owner: 'Eve' });
  success(
    await api.put('/event-types/Deposited', {
      schema: { type: 'object', required: ['cents'], properties: { cents: { type: 'integer' } } },
    }),
    200,
  );

  // Revisions: live, kept, gone and rolled back to.
  const isLive = (revision: number): Promise<void> =>
    until(
      async () =>
        (await api.read<{ live?: { revision: number } }>(`/projections/${projectionId}/status`)).live?.revision ===
        revision,
    );
  const redeploy = async (source: string, revision: number): Promise<void> => {
    success(await api.upload('projections', { 'Transfers.cs': source, 'Events.cs': events }, { projectionId }), 202);
    await isLive(revision);
  };
  await redeploy(changed, 2);
  success(await api.post(`/projections/${projectionId}/rollback`), 202);
  await isLive(3);
  await redeploy(reworded, 4);
  const deleted = await api.deployProjection({
    'Other.cs': transfers.replaceAll('Transfers', 'Other').replaceAll('TransferState', 'OtherState'),
    'Events.cs': events,
  });
  success(await api.delete(`/projections/${deleted}`), 204);
  await api.deployReducer({
    'AccountReducer.cs': reducer.replace('is open already', 'was open'),
    'Events.cs': events,
  });

  // One aggregate goes, with its part of two transactions.
  const erased = 'account-3';
  success(await api.request('DELETE', `/aggregates/${erased}`, { body: { reason: 'ticket 4711' } }), 202);
  await until(
    async () => success(await api.delete(`/aggregates/${erased}`), 202).json<{ status: string }>().status === 'erased',
  );
  success(await api.post(`/projections/${projectionId}/rebuild`), 202);
  await isLive(5);
  await transact('t-4', 'account-0', 'account-2', 5);

  // What was delivered, and what waits.
  const endpoints: Endpoint[] = [];
  for (const [path, { endpointId, secret }] of Object.entries(followed)) {
    const show = (): Promise<{ through: number; pending: number; parked: number }> =>
      api.read(`/webhooks/endpoints/${endpointId}`);
    const end = async (): Promise<number> =>
      path === '/feed'
        ? (await api.read<{ position: number }>(`/feed?${ALL}`)).position
        : ((await api.notifications(projectionId, 1)).at(-1)?.sequence ?? 0);
    const last = await end();
    await until(async () => (await show()).through >= last);
    success(await api.post(`/webhooks/endpoints/${endpointId}/pause`), 200);
    const { through } = await show();
    const delivered = receiver.of(path).map(({ headers }) => headers['webhook-id'] ?? '');
    endpoints.push({ endpointId, secret, through, delivered: [...new Set(delivered)] });
  }
  await transact('t-5', 'account-2', 'account-1', 1);
  await api.append('account-2', 'Deposited', { cents: 3 });
  await api.notifications(projectionId, 1, `&afterSequence=${endpoints[1]?.through ?? 0}`);

  // Tenants: of one partition, with much in its log; of several; suspended; deleted, and made again under its id.
  const keys: Record<string, string> = { default: api.key ?? '' };
  keys['long'] = await newTenant(service, { tenantId: 'long', name: 'Long' });
  const long = new Api(service, keys['long']);
  await long.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
  for (let i = 0; i < 130; i++)
    await long.append(`account-${i % 5}`, i < 5 ? 'Opened' : 'Deposited', { owner: `o${i}`, cents: i });
  keys['wide'] = await newTenant(service, { tenantId: 'wide', name: 'Wide', partitions: 3 });
  const wide = new Api(service, keys['wide']);
  await wide.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
  const wideProjection = await wide.deployProjection({ 'Transfers.cs': transfers, 'Events.cs': events });
  for (let i = 0; i < 8; i++) {
    await wide.append(`account-${i}`, 'Opened', { owner: `w${i}` });
    await wide.append(`account-${i}`, 'TransferSent', {
      transferId: `w-${i}`,
      from: `account-${i}`,
      to: 'x',
      cents: i,
    });
  }
  await wide.notifications(wideProjection, 8);
  const asOwner = async (method: string, path: string, request: object | undefined, status: number): Promise<void> => {
    success(
      await new Api(service, null).request(method, path, { ...AS_ADMIN, ...(request && { body: request }) }),
      status,
    );
  };
  const former = await newTenant(service, { tenantId: 'again', name: 'Again' });
  await new Api(service, former).append('a-1', 'Of the former', {});
  await asOwner('DELETE', '/admin/tenants/again', undefined, 204);
  keys['again'] = await newTenant(service, { tenantId: 'again', name: 'Again' });
  await new Api(service, keys['again']).append('a-1', 'Of the new one', {});
  keys['held'] = await newTenant(service, { tenantId: 'held', name: 'Held' });
  await asOwner('PATCH', '/admin/tenants/held', { suspended: true }, 200);

  const accounts = (n: number): string[] => Array.from({ length: n }, (_, i) => `account-${i}`);
  const ofAccounts = (ids: readonly string[]): string[] =>
    ids.flatMap((id) => [`/events/${id}?${ALL}`, `/aggregate-types/account/${id}/state`]);
  const common = ['/aggregates', '/feed', '/event-types', '/reducers', '/projections'].map((path) => `${path}?${ALL}`);
  const ofProjection = (id: string): string[] => [
    `/projections/${id}/status`,
    `/projections/${id}/revisions`,
    `/projections/${id}/states?${ALL}`,
    `/projections/${id}/notifications?${ALL}`,
  ];
  const asked: readonly (readonly [key: string | undefined, paths: readonly string[]])[] = [
    [
      'default',
      [
        ...common,
        ...ofAccounts([...accounts(4), 'account-thrown', 'account-passed']),
        '/aggregate-types/account/account-0/state?atVersion=2',
        '/event-types/Deposited',
        '/aggregate-types/account',
        '/aggregate-types/account/history',
        '/aggregate-types/account/faults',
        ...ofProjection(projectionId),
        `/audit?${ALL}`,
        `/webhooks/endpoints?${ALL}`,
        ...endpoints.map(({ endpointId }) => `/webhooks/endpoints/${endpointId}`),
      ],
    ],
    ['long', [...common, ...ofAccounts(accounts(5))]],
    ['wide', [...common, ...ofAccounts(accounts(8)), ...ofProjection(wideProjection)]],
    ['again', [...common, '/events/a-1']],
    ['held', ['/aggregates']],
    [
      undefined,
      [
        `/admin/tenants?${ALL}`,
        ...Object.keys(keys).map((tenant) => `/admin/tenants/${tenant}/keys?${ALL}`),
        '/admin/tenants/again',
      ],
    ],
  ];
  const answers: Answered[] = [];
  for (const [key, paths] of asked)
    for (const path of paths) {
      const { status, text } = await service.get(path, key === undefined ? AS_ADMIN : { key: keys[key] ?? '' });
      answers.push({ ...(key !== undefined && { key }), path, status, body: JSON.parse(text) as unknown });
    }
  const [feedEndpoint, changesEndpoint] = endpoints;
  assert.ok(feedEndpoint !== undefined && changesEndpoint !== undefined);
  return {
    ...{ release, keys, projectionId, feedEndpoint, changesEndpoint },
    ...{ repeatable: { idempotencyKey, body, answer }, erased, answers },
  };
}

/** Members of answers that say how things are now, or of the request. */
const OF_THE_MOMENT = new Set(['requestId', 'lastUsedAt', 'pending', 'lag', 'eventsPerSecond']);

/**
 * Where an answer lacks what the release answered, in words; undefined: nowhere. Members may have come since; lists are to be the
 * same, entry by entry.
 */
export function lacks(answer: unknown, expected: unknown, at = '', isFolded = false): string | undefined {
  if (isFolded && NOT_IN_THE_LOG.some((place) => place.test(at))) return undefined;
  if (typeof expected !== 'object' || expected === null || typeof answer !== 'object' || answer === null)
    return Object.is(answer, expected)
      ? undefined
      : `${at} is ${JSON.stringify(answer)}, and was ${JSON.stringify(expected)}`;
  // A key without scopes of its own has all of them, also those that came since.
  if (at.endsWith('/scopes') && Array.isArray(expected) && Array.isArray(answer)) {
    const missing = expected.filter((scope) => !answer.includes(scope));
    return missing.length === 0 ? undefined : `${at} lacks ${missing.join(', ')}`;
  }
  if (Array.isArray(expected) && (!Array.isArray(answer) || answer.length !== expected.length))
    return `${at} has ${Array.isArray(answer) ? answer.length : 'no'} entries, and had ${expected.length}`;
  for (const [name, value] of Object.entries(expected)) {
    if (OF_THE_MOMENT.has(name)) continue;
    const lack = lacks((answer as Readonly<Record<string, unknown>>)[name], value, `${at}/${name}`, isFolded);
    if (lack !== undefined) return lack;
  }
  return undefined;
}

/** What is not in the log, or not the same in every fold of it, as the pages of upgrades and of erasure say: an answer may differ there once the store was folded again. */
const NOT_IN_THE_LOG = [
  /^\/event-types\?\S* \/eventTypes\/\d+\/events$/,
  /\/faults?\/(\d+\/)?at$/,
  /\/catchUp\/(processed|total)$/,
  /\/generations\/\d+\/status$/,
  /\/revisions\/\d+\/changedKeys$/,
];

/**
 * What a service that has the fixture lacks of it, once it has folded all: one line an answer. `isFolded`: the store was lost, and is
 * folded again.
 */
export async function lackingOf(service: Service, { keys, answers }: Expected, isFolded: boolean): Promise<string[]> {
  const wrong: string[] = [];
  for (const { key, path, status, body } of answers) {
    const answer = await service.get(path, key === undefined ? AS_ADMIN : { key: keys[key] ?? '' });
    const lack =
      answer.status === status
        ? lacks(answer.json<unknown>(), body, `${path} `, isFolded)
        : `${path}: ${answer.status} ${answer.text}`;
    if (lack !== undefined) wrong.push(`${key ?? 'owner'}: ${lack}`);
  }
  return wrong;
}

/** As the service does once a minute: what erasures left is taken out of the log. */
export async function cleanLog(dataDirectory: string): Promise<void> {
  const log = new LmdbLog({ path: environments({ dataDirectory }).log.path });
  await log.clean();
  await log.close();
}

/** What of a data directory is not kept: it is made again, or the next start is to make it. */
const LEFT_OUT = new Set(['clickhouse', 'work', 'lock.mdb', 'instance.lock']);

/** All files of the folder in one, compressed: a line of JSON with their names and lengths, then their bytes. */
export function packFolder(folder: string): Buffer {
  const files = (inside: string): string[] =>
    readdirSync(inside, { withFileTypes: true }).flatMap((entry) => {
      if (LEFT_OUT.has(entry.name)) return [];
      const path = join(inside, entry.name);
      return entry.isDirectory() ? files(path) : entry.isFile() ? [path] : [];
    });
  return pack(files(folder).map((path) => ({ head: { name: relative(folder, path) }, bytes: readFileSync(path) })));
}

export function unpackFolder(packed: Buffer, folder: string): void {
  for (const { head, bytes } of unpack<{ readonly name: string }>(packed)) {
    const path = join(folder, head.name);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, bytes, { mode: 0o600 });
  }
}

/** Parts of bytes with a head each, in one, compressed. */
export function pack(parts: readonly { readonly head: object; readonly bytes: Buffer }[]): Buffer {
  const heads = parts.map(({ head, bytes }) => ({ head, length: bytes.length }));
  const whole = Buffer.concat([Buffer.from(`${JSON.stringify(heads)}\n`), ...parts.map(({ bytes }) => bytes)]);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: whole.length,
  };
  return brotliCompressSync(whole, { params });
}

export function unpack<T>(packed: Buffer): { readonly head: T; readonly bytes: Buffer }[] {
  const whole = brotliDecompressSync(packed);
  let at = whole.indexOf('\n') + 1;
  return (JSON.parse(whole.toString('utf8', 0, at)) as { head: T; length: number }[]).map(({ head, length }) => ({
    head,
    bytes: whole.subarray(at, (at += length)),
  }));
}

/** Releases that left data of the kind, by their folders. */
export const releases = (file: typeof DATA_FILE | typeof TOPICS_FILE): readonly string[] =>
  readdirSync(RELEASES).flatMap((release) =>
    ['embedded', 'kafka']
      .map((kind) => join(RELEASES, release, kind))
      .filter((folder) => existsSync(join(folder, file))),
  );
