import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { LogArtefactStore } from '../../src/catalog/artefacts.js';
import { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { quotasOf } from '../../src/catalog/tenant-quotas.js';
import { createTenant } from '../../src/catalog/tenants.js';
import { SoleOwner } from '../../src/placement/sole-owner.js';
import { findProjectRoot } from '../../src/config/project-root.js';
import { readSettings } from '../../src/config/settings.js';
import { isoTimestamp, type AppendCommand, type AppendResult, type StoredEvent } from '../../src/core/event.js';
import { StatefoldError } from '../../src/core/errors.js';
import { uuidv7 } from '../../src/core/ids.js';
import { silentLogger } from '../../src/core/logger.js';
import { inferAggregateType } from '../../src/core/names.js';
import type { Deployments, NotificationConfig } from '../../src/deployments/deployments.js';
import type { SourceFile } from '../../src/deployments/source-file.js';
import { Admission } from '../../src/http/admission.js';
import { createEdge, type Edge } from '../../src/http/edge.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { AggregateState, Aggregates, EventsPage, EventsQuery } from '../../src/aggregates/aggregates.js';
import type { Tenant, AggregateHomes, Tenants } from '../../src/tenancy/tenant.js';
import { NO_PROCESSES } from '../support/no-processes.js';
import { NO_SQL } from '../support/no-sql.js';
import { NO_SQL_ACCOUNTS } from '../support/no-sql-accounts.js';
import { openapiFault } from '../support/openapi.js';
import { NO_AUDIT } from '../support/no-audit.js';
import { noEndpoints } from '../support/no-endpoints.js';
import { noEventTypes } from '../support/no-event-types.js';
import { noInspections } from '../support/no-inspections.js';
import { quietChannels, schemaRegistryOf } from '../support/edge-parts.js';
import { peers } from '../support/peers.js';

const STATE = Buffer.from('{"big":90071992547409931,"f":1.0,"__proto__":{}}');
const ADMIN_KEY = 'an-admin-key-of-the-test';

/** What the edge stands on: an engine that holds events in memory, and deployments that remember what they were given. */
const unasked = (): Promise<never> => Promise.reject(new Error('nobody asks for this here'));

class MemoryAggregates implements Aggregates {
  readonly list = unasked;
  readonly types = unasked;
  readonly eventTypes = unasked;
  readonly eventType = unasked;
  readonly release = unasked;
  readonly erase = unasked;
  readonly commands: AppendCommand[] = [];
  readonly #events = new Map<string, StoredEvent[]>();

  append(command: AppendCommand): Promise<AppendResult> {
    this.commands.push(command);
    const events = this.#events.get(command.aggregateId) ?? [];
    const base = events.length;
    if (typeof command.expectedVersion === 'number' && command.expectedVersion !== base) {
      const details = { expectedVersion: command.expectedVersion, currentVersion: base };
      return Promise.reject(new StatefoldError('VERSION_CONFLICT', `the aggregate is at version ${base}`, { details }));
    }
    const {
      aggregateId,
      aggregateType = inferAggregateType(aggregateId),
      correlationId,
      causationId,
      metadata,
    } = command;
    const timestamp = Date.now();
    const added = command.events.map(({ eventType, data }, i) => ({
      eventId: uuidv7(),
      aggregateId,
      aggregateType,
      eventType,
      version: base + i + 1,
      timestamp,
      correlationId,
      causationId,
      data,
      metadata,
    }));
    this.#events.set(aggregateId, [...events, ...added]);
    const result = {
      aggregateId,
      aggregateType,
      startVersion: base + 1,
      endVersion: base + added.length,
      eventIds: added.map(({ eventId }) => eventId),
      timestamp,
    };
    return Promise.resolve(aggregateType === 'folded' ? { ...result, state: STATE } : result);
  }

  readonly transact = unasked;
  readonly import = unasked;

  events({ aggregateId, fromVersion = 1, limit }: EventsQuery): Promise<EventsPage> {
    const events = this.#events.get(aggregateId);
    if (events === undefined)
      return Promise.reject(new StatefoldError('NOT_FOUND', `aggregate ${aggregateId} does not exist`));
    return Promise.resolve({ events: events.slice(fromVersion - 1, fromVersion - 1 + limit), nextVersion: undefined });
  }

  state(aggregateType: string, aggregateId: string): Promise<AggregateState> {
    return Promise.resolve({ aggregateId, aggregateType, version: 1, state: STATE, lastModified: 0, fault: undefined });
  }

  catchUp(): undefined {
    return undefined;
  }

  eventsPerSecond(): undefined {
    return undefined;
  }

  keptGenerations(): [] {
    return [];
  }
}

class MemoryTenant implements Omit<Tenant, 'tenantId' | 'changes' | 'events'> {
  readonly storageBytes = 0;
  readonly aggregates = new MemoryAggregates();
  readonly projections = {
    states: unasked,
    statesOf: unasked,
    includes: unasked,
    snapshot: () => {
      throw new Error('not asked here');
    },
    reached: 0,
    build: () => undefined,
    eventsPerSecond: () => undefined,
    life: () => ({ live: undefined, building: undefined, kept: [], past: [], erasedSinceBuild: false }),
    onLive: () => () => undefined,
  };
  readonly faults = {
    ofType: unasked,
    countOfType: unasked,
    ofProjection: unasked,
    countOfProjection: () => {
      throw new Error('not asked here');
    },
    releaseKeys: unasked,
  };
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

let edge: Edge;
let origin = '';
let apiKey = '';
let otherKey = '';
let closeAll: () => Promise<void>;
const tenants = new Map<string, MemoryTenant>();
const uploads: {
  readonly sources: readonly SourceFile[];
  readonly config?: NotificationConfig | undefined;
  readonly projectionId?: string | undefined;
}[] = [];

/** A request whose answer must fit the OpenAPI document. */
async function ask(
  method: string,
  path: string,
  options: { readonly body?: string | FormData; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Answer> {
  const response = await fetch(origin + path, {
    method,
    headers: {
      'X-API-Key': apiKey,
      ...(typeof options.body === 'string' ? { 'Content-Type': 'application/json' } : {}),
      ...options.headers,
    },
    ...(options.body === undefined ? {} : { body: options.body }),
  });
  const text = await response.text();
  const body = text === '' ? undefined : (JSON.parse(text) as Answer['body']);
  assert.equal(openapiFault(method, path.split('?')[0] ?? '', response.status, body), undefined, text);
  assert.ok(response.headers.get('x-request-id'));
  return { status: response.status, headers: response.headers, text, body: body ?? {} };
}

/** The status and code of a refusal. */
const refused = ({ status, body }: Answer): string => `${status} ${String(body['code'])}`;
const append = (body: object | string, headers?: Record<string, string>): Promise<Answer> =>
  ask('POST', '/events', {
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(headers === undefined ? {} : { headers }),
  });
const EVENT = { aggregateId: 'order-1', eventType: 'Placed', data: {} };

/** All that a raw connection answers until it ends. */
function raw(lines: string): Promise<string> {
  const { port, hostname } = new URL(origin);
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(port), hostname, () => socket.write(lines));
    socket.setTimeout(10_000, () => reject(new Error(`no end after ${text}`)));
    socket
      .on('data', (chunk: Buffer) => (text += chunk.toString()))
      .on('close', () => resolve(text))
      .on('error', reject);
  });
}

before(async () => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-edge-'));
  const log = new LmdbLog({ path });
  const catalog = await FencedCatalog.open({
    log,
    codec: loadCodecs(join(findProjectRoot(), 'schemas', 'avro')).catalog,
    artefacts: await LogArtefactStore.open({ log }),
    owner: 'edge-test',
    logger: silentLogger,
  });
  apiKey = (await createTenant(catalog, { tenantId: 'one' })).apiKey;
  otherKey = (await createTenant(catalog, { tenantId: 'two' })).apiKey;
  const artefact = { tenantId: 'one', createdAt: isoTimestamp(0), artefactId: 'a' };
  for (const reducerId of ['r1', 'r2', 'r3'])
    await catalog.put('reducer', reducerId, 0, { ...artefact, reducerId, status: 'pending_compilation' });
  await catalog.put('projection', 'p1', 0, {
    ...artefact,
    projectionId: 'p1',
    status: 'compiling',
    revision: 1,
    sse: false,
  });
  const open = (tenantId: string): Tenant => {
    if (!tenants.has(tenantId)) tenants.set(tenantId, new MemoryTenant());
    return tenants.get(tenantId) as unknown as Tenant;
  };
  const registry: Tenants & AggregateHomes = {
    open: (tenantId) => Promise.resolve(open(tenantId)),
    home: (tenantId) => {
      open(tenantId);
      return tenants.get(tenantId)?.aggregates ?? assert.fail(`no tenant ${tenantId}`);
    },
    partitionsOf: () => 1,
    active: (tenantId) => tenants.get(tenantId) as unknown as Tenant,
    onActivated: () => undefined,
  };
  const deployments: Partial<Deployments> = {
    requireFewerUploads: () => undefined,
    uploadReducer: (_tenantId, sources) => {
      uploads.push({ sources });
      return Promise.resolve({ ...artefact, reducerId: 'r9', status: 'pending_compilation' });
    },
    uploadProjection: (_tenantId, sources, config, projectionId) => {
      uploads.push({ sources, config, projectionId });
      const { webhookUrl: url, isolateSecret: isolated = false } = config ?? {};
      const of = { tenantId: artefact.tenantId, endpointId: 'p9', source: { projectionId: 'p9' } };
      return Promise.resolve({
        projection: {
          ...artefact,
          projectionId: 'p9',
          status: 'compiling',
          revision: 1,
          sse: config?.sse ?? false,
        },
        endpoint: typeof url === 'string' ? { ...of, url, isolated: isolated ?? false, secrets: [] } : undefined,
        secret: 'whsec_x',
      });
    },
    rotateProjectionSecret: () =>
      Promise.reject(new StatefoldError('WEBHOOK_SECRET_SHARED', 'the projection uses the shared secret')),
    rotateTenantSecret: () => Promise.reject(new TypeError('a secret of the house')),
  };
  const settings = readSettings({
    PORT: '0',
    HEADERS_TIMEOUT_MS: '300',
    REQUEST_TIMEOUT_MS: '600',
    MAX_UPLOAD_BYTES: '100000',
  });
  const admission = new Admission({ catalog, quotaOf: quotasOf(catalog, settings), limits: settings });
  edge = createEdge({
    settings,
    catalog,
    tenants: registry,
    ownership: new SoleOwner(),
    peers,
    deployments: deployments as Deployments,
    ...noEndpoints,
    removeTenantData: () => Promise.resolve(),
    seenIds: () => assert.fail('nothing is imported'),
    admission,
    audit: NO_AUDIT,
    channels: quietChannels(catalog, admission),
    schemaRegistry: schemaRegistryOf(catalog, admission, settings),
    adminKey: ADMIN_KEY,
    inspections: noInspections,
    ...noEventTypes,
    sql: NO_SQL,
    sqlAccounts: NO_SQL_ACCOUNTS,
    readStoreAccess: () => Promise.reject(new StatefoldError('UNAVAILABLE', 'The read store is away')),
    rebuildReadStore: () => Promise.resolve(),
    cancelReadStoreRebuild: () => Promise.resolve(),
    probes: [{ name: 'readStore', required: false, check: () => Promise.reject(new Error('away')) }],
    processes: NO_PROCESSES,
    metrics: () => Promise.resolve({ contentType: 'text/plain', text: 'up 1\n' }),
    logger: silentLogger,
  });
  origin = `http://127.0.0.1:${await edge.listen()}`;
  closeAll = async () => {
    await edge.close();
    await catalog.close();
    await log.close();
    rmSync(path, { recursive: true });
  };
});
after(() => closeAll());

describe('appends', () => {
  it('answer what the interface says, with the state as it is', async () => {
    const answer = await append({ ...EVENT, aggregateId: 'folded-ü"1' });
    assert.equal(answer.status, 201);
    assert.deepEqual(Object.keys(answer.body), [
      'eventId',
      'aggregateId',
      'aggregateType',
      'version',
      'timestamp',
      'state',
    ]);
    assert.equal(answer.body['aggregateId'], 'folded-ü"1');
    assert.ok(answer.text.endsWith(`"state":${STATE.toString()}}`), answer.text);
    assert.equal((await append(EVENT)).body['state'], undefined);
  });

  it('keep data and metadata as they were sent, through the listing', async () => {
    const data = '{"n":9007199254740993, "f":1.0,"e":"\\u0041\\/é😀","d":1,"d":2,"__proto__":{"x":-0},"2":0,"1":1e400}';
    await append(`{"aggregateId":"order/ü 1","eventType":"T","data":${data} ,"metadata": {"m" : 1.50}}`);
    const command = tenants.get('one')?.aggregates.commands.at(-1);
    assert.equal(command?.metadata?.toString(), '{"m" : 1.50}');
    const listing = await ask('GET', `/events/${encodeURIComponent('order/ü 1')}`);
    assert.ok(listing.text.includes(`"data":${data},"version":1,`), listing.text);
    const events = listing.body['events'] as readonly object[];
    assert.deepEqual(Object.keys(events[0] ?? {}), [
      'eventId',
      'aggregateId',
      'eventType',
      'data',
      'version',
      'timestamp',
    ]);
  });

  it('of a batch answer every id', async () => {
    const answer = await ask('POST', '/events/batch', {
      body: JSON.stringify({ aggregateId: 'b-1', events: [1, 2, 3].map((n) => ({ eventType: 'T', data: { n } })) }),
    });
    assert.equal(answer.status, 201);
    const { startVersion, endVersion, eventIds } = answer.body;
    assert.deepEqual([startVersion, endVersion, (eventIds as string[]).length], [1, 3, 3]);
  });

  it('that conflict tell the versions, and the events since when asked', async () => {
    await append({ ...EVENT, aggregateId: 'c-1', data: { n: 1 } });
    const answer = await ask('POST', '/events?includeConflicts=true', {
      body: '{"aggregateId":"c-1","eventType":"T","data":{},"expectedVersion":0}',
    });
    assert.equal(refused(answer), '409 VERSION_CONFLICT');
    assert.equal(answer.body['currentVersion'], 1);
    assert.equal((answer.body['conflicts'] as readonly unknown[]).length, 1);
    assert.deepEqual(
      (
        await ask('POST', '/events?includeConflicts=true', {
          body: '{"aggregateId":"nobody","eventType":"T","data":{},"expectedVersion":7}',
        })
      ).body['conflicts'],
      [],
    );
  });

  it('pass on what was asked for', async () => {
    await append(
      { ...EVENT, aggregateType: 'order', expectedVersion: 'exists', correlationId: 'c', causationId: 'd' },
      { 'Idempotency-Key': 'k1' },
    );
    const command = tenants.get('one')?.aggregates.commands.at(-1);
    assert.equal(command?.commandId, 'k1');
    assert.ok(command.keyed && command.requestHash.length === 32);
    assert.deepEqual(
      [command.aggregateType, command.expectedVersion, command.correlationId, command.causationId, command.metadata],
      ['order', 'exists', 'c', 'd', undefined],
    );
  });

  it('with a bad body tell every fault and its place', async () => {
    const answer = await append({
      aggregateId: 'x'.repeat(257),
      eventType: 1,
      data: [],
      aggregateType: 'a b',
      expectedVersion: '3',
      correlationId: null,
      metadata: 'm',
    });
    assert.equal(refused(answer), '400 INVALID_REQUEST');
    const pointers = (answer.body['errors'] as readonly { pointer: string }[]).map(({ pointer }) => pointer);
    assert.deepEqual(pointers, [
      '/aggregateId',
      '/eventType',
      '/data',
      '/aggregateType',
      '/expectedVersion',
      '/correlationId',
      '/metadata',
    ]);
    const batch = await ask('POST', '/events/batch', {
      body: JSON.stringify({ events: [{ eventType: 'T', data: {} }, { eventType: 'T' }, 3] }),
    });
    assert.deepEqual(batch.body['errors'], [
      { pointer: '/events/1/data', message: 'is required' },
      { pointer: '/events/2', message: 'must be an object' },
      { pointer: '/aggregateId', message: 'is required' },
    ]);
  });

  const bodies: [string, string, RegExp][] = [
    ['that is empty', '', /unexpected end/],
    ['that is cut', '{"aggregateId":', /unexpected end/],
    ['with text behind', `${JSON.stringify(EVENT)} x`, /unexpected text after/],
    ['that is no object', '[]', /must be an object/],
    ['with a lone surrogate', '{"aggregateId":"a","eventType":"T","data":{"s":"\\ud800"}}', /lone surrogate/],
    [
      'that is too deep',
      `{"aggregateId":"a","eventType":"T","data":${'{"a":'.repeat(64)}1${'}'.repeat(64)}}`,
      /64 levels/,
    ],
    ['with a control character in an id', '{"aggregateId":"a\\u0000","eventType":"T","data":{}}', /control character/],
    ['with a fraction as version', '{"aggregateId":"a","eventType":"T","data":{},"expectedVersion":1.5}', /integer/],
    ['with a negative version', '{"aggregateId":"a","eventType":"T","data":{},"expectedVersion":-1}', /integer/],
  ];
  for (const [what, body, message] of bodies) {
    it(`with a body ${what} are refused`, async () => {
      const answer = await append(body);
      assert.equal(refused(answer), '400 INVALID_REQUEST');
      assert.match(String(answer.body['detail']), message);
    });
  }

  it('with other bodies and headers are refused', async () => {
    assert.equal(refused(await append(EVENT, { 'Content-Type': 'text/plain' })), '415 UNSUPPORTED_MEDIA_TYPE');
    assert.equal(
      refused(await append(EVENT, { 'Content-Type': 'application/json; charset=latin1' })),
      '415 UNSUPPORTED_MEDIA_TYPE',
    );
    assert.equal((await append(EVENT, { 'Content-Type': 'application/json; charset=UTF-8' })).status, 201);
    assert.equal(refused(await append(EVENT, { 'Content-Encoding': 'gzip' })), '415 UNSUPPORTED_MEDIA_TYPE');
    assert.equal(refused(await append(EVENT, { 'Idempotency-Key': 'k'.repeat(256) })), '400 INVALID_REQUEST');
    assert.equal(
      refused(await ask('POST', '/events/batch', { body: '{"aggregateId":"a","events":[]}' })),
      '400 INVALID_REQUEST',
    );
    const many = JSON.stringify({
      aggregateId: 'a',
      events: Array.from({ length: 1001 }, () => ({ eventType: 'T', data: {} })),
    });
    assert.match((await ask('POST', '/events/batch', { body: many })).text, /at most 1000 events, and has 1001/);
  });

  it('past the size limit are answered, declared or not, and leave the service well', async () => {
    const large = `{"aggregateId":"a","eventType":"T","data":{"x":"${'x'.repeat(3 * 1024 * 1024)}"}}`;
    assert.equal(refused(await append(large)), '413 PAYLOAD_TOO_LARGE');
    const chunked = await raw(
      `POST /events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${apiKey}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n${'x'.repeat(0x200000)}\r\n0\r\n\r\n`,
    );
    assert.match(chunked, /^HTTP\/1.1 413 .*PAYLOAD_TOO_LARGE/s);
    const expecting = await raw(
      `POST /events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${apiKey}\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n`,
    );
    assert.match(expecting, /^HTTP\/1.1 413 /);
    assert.equal((await append(EVENT)).status, 201);
  });

  it('that are refused before their body is read leave the connection open', async () => {
    const bad = `POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`;
    const answers = await raw(`${bad}${bad}GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    assert.deepEqual(
      [...answers.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status),
      ['401', '401', '200'],
    );
  });
});

describe('keys', () => {
  it('must be there once, and be valid', async () => {
    const paths = [
      '/events/a',
      '/aggregates',
      '/reducers',
      '/auth/whoami',
      '/reducers/r1/status',
      '/projections/p1/status',
    ];
    for (const path of paths)
      assert.equal(refused(await ask('GET', path, { headers: { 'X-API-Key': '' } })), '401 UNAUTHENTICATED', path);
    assert.equal(refused(await append(EVENT, { 'X-API-Key': `${apiKey}x` })), '401 UNAUTHENTICATED');
    const twice = await raw(
      `GET /auth/whoami HTTP/1.1\r\nHost: x\r\nX-API-Key: ${apiKey}\r\nx-api-key: ${apiKey}\r\nConnection: close\r\n\r\n`,
    );
    assert.match(twice, /^HTTP\/1.1 401 .*UNAUTHENTICATED/s);
    assert.equal((await ask('GET', '/auth/whoami')).body['tenantId'], 'one');
    assert.equal((await ask('GET', '/health', { headers: { 'X-API-Key': '' } })).text, '{"status":"ok"}');
  });

  it('that are revoked end at once', async () => {
    const admin = { headers: { 'X-Admin-Key': ADMIN_KEY } };
    const { keyId, apiKey: revoked } = (await ask('POST', '/admin/tenants/one/keys', admin)).body as {
      keyId: string;
      apiKey: string;
    };
    assert.equal((await ask('GET', '/auth/whoami', { headers: { 'X-API-Key': revoked } })).status, 200);
    assert.equal((await ask('DELETE', `/admin/tenants/one/keys/${keyId}`, admin)).status, 204);
    assert.equal((await ask('GET', '/auth/whoami', { headers: { 'X-API-Key': revoked } })).status, 401);
  });

  it('of another tenant see what does not exist, to the byte', async () => {
    const masked = (answer: Answer, id: string): string =>
      `${answer.status} ${answer.text.replaceAll(id, 'ID').replace(/"requestId":"[^"]*"/, '')}`;
    for (const path of ['/reducers/ID/status', '/projections/ID/status', '/projections/ID/states']) {
      const id = path.startsWith('/r') ? 'r1' : 'p1';
      const foreign = await ask('GET', path.replace('ID', id), { headers: { 'X-API-Key': otherKey } });
      const missing = await ask('GET', path.replace('ID', 'nothing'), { headers: { 'X-API-Key': otherKey } });
      assert.equal(foreign.status, 404);
      assert.equal(masked(foreign, id), masked(missing, 'nothing'));
    }
  });

  it('of the admin open the admin interface alone', async () => {
    assert.equal((await ask('GET', '/admin/tenants')).status, 401);
    const created = await ask('POST', '/admin/tenants', {
      headers: { 'X-Admin-Key': ADMIN_KEY },
      body: '{"tenantId":"three"}',
    });
    assert.equal(created.status, 201);
    const key = String(created.body['apiKey']);
    assert.equal((await ask('GET', '/auth/whoami', { headers: { 'X-API-Key': key } })).body['name'], 'three');
    assert.equal(
      refused(
        await ask('POST', '/admin/tenants', { headers: { 'X-Admin-Key': ADMIN_KEY }, body: '{"tenantId":"three"}' }),
      ),
      '409 ALREADY_EXISTS',
    );
    assert.equal((await ask('DELETE', '/admin/tenants/three', { headers: { 'X-Admin-Key': ADMIN_KEY } })).status, 204);
    assert.equal((await ask('GET', '/auth/whoami', { headers: { 'X-API-Key': key } })).status, 401);
    assert.equal((await ask('GET', '/admin/read-store', { headers: { 'X-Admin-Key': ADMIN_KEY } })).status, 503);
  });
});

describe('paths', () => {
  it('that are not there are 404, and methods that are not there 405', async () => {
    assert.equal(refused(await ask('GET', '/nowhere')), '404 NOT_FOUND');
    assert.equal(refused(await ask('GET', '/events/')), '404 NOT_FOUND');
    const put = await ask('PUT', '/events');
    assert.equal(`${refused(put)} ${put.headers.get('allow')}`, '405 METHOD_NOT_ALLOWED POST, OPTIONS');
    assert.equal((await ask('POST', '/reducers/r1/status')).headers.get('allow'), 'GET, HEAD, OPTIONS');
    assert.equal(refused(await ask('GET', '/events/%zz')), '400 INVALID_REQUEST');
    const head = await fetch(`${origin}/health`, { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, '15']);
  });

  it('refuse parameters of the wrong shape', async () => {
    for (const query of [
      'limit=0',
      'limit=10001',
      'limit=x',
      'fromVersion=-1',
      'fromVersion=1.0',
      'direction=up',
      'limit=1&limit=2',
    ]) {
      assert.equal(refused(await ask('GET', `/events/order-1?${query}`)), '400 INVALID_REQUEST', query);
    }
    assert.equal(refused(await ask('GET', '/reducers?cursor=%21')), '400 INVALID_REQUEST');
    assert.equal(refused(await ask('GET', '/aggregate-types/a%20b')), '400 INVALID_REQUEST');
    assert.equal(refused(await ask('GET', '/aggregate-types/unbound')), '404 NO_REDUCER_BOUND');
    assert.equal(
      refused(await ask('PUT', '/aggregate-types/order', { body: '{"className":1}' })),
      '400 INVALID_REQUEST',
    );
  });

  it('list by pages', async () => {
    const first = await ask('GET', '/reducers?limit=2');
    assert.deepEqual(
      (first.body['reducers'] as readonly { id: string }[]).map(({ id }) => id),
      ['r1', 'r2'],
    );
    const second = await ask('GET', `/reducers?limit=2&cursor=${String(first.body['nextCursor'])}`);
    assert.deepEqual(
      (second.body['reducers'] as readonly { id: string }[]).map(({ id }) => id),
      ['r3'],
    );
    assert.equal(second.body['nextCursor'], undefined);
  });

  it('keep the cause of a failure to the log, and tell a refusal', async () => {
    const failure = await ask('POST', '/webhooks/rotate', { headers: { 'X-Request-Id': 'mine-1' } });
    assert.equal(refused(failure), '500 INTERNAL');
    assert.doesNotMatch(failure.text, /of the house/);
    assert.equal(failure.body['requestId'], 'mine-1');
    assert.equal(refused(await ask('POST', '/projections/p1/webhook/rotate')), '400 WEBHOOK_SECRET_SHARED');
    assert.deepEqual((await ask('GET', '/health/ready')).body, { status: 'ready', checks: { readStore: 'down' } });
  });
});

describe('uploads', () => {
  const form = (fields: Readonly<Record<string, string | Blob>>, name = 'A.cs'): FormData => {
    const data = new FormData();
    for (const [field, value] of Object.entries(fields))
      if (typeof value === 'string') data.append(field, value);
      else data.append(field, value, name);
    return data;
  };
  const source = new Blob(['class A {}'], { type: 'text/plain' });

  it('of loose files are taken, with the config in both forms', async () => {
    assert.deepEqual((await ask('POST', '/reducers/upload', { body: form({ any: source }) })).body, {
      reducerId: 'r9',
      status: 'pending_compilation',
    });
    assert.deepEqual(uploads.at(-1)?.sources, [{ path: 'A.cs', text: 'class A {}' }]);
    const bare = await ask('POST', '/projections/upload', {
      body: form({ file: source, config: '{"webhook":{"url":"https://x.example/"},"isolateSecret":true}' }),
    });
    assert.deepEqual(bare.body['notifications'], {
      webhook: { enabled: true, secret: 'whsec_x', isolated: true },
      sse: false,
    });
    const inside = uploads.at(-1)?.config;
    const wrapped = await ask('POST', '/projections/upload', {
      body: form({
        file: source,
        projectionId: 'p1',
        config: '{"notifications":{"webhook":{"url":"https://x.example/","isolateSecret":true}}}',
      }),
    });
    assert.equal(wrapped.status, 202);
    assert.deepEqual(uploads.at(-1)?.config, inside);
    assert.equal(uploads.at(-1)?.projectionId, 'p1');
    assert.deepEqual(
      (await ask('POST', '/projections/upload', { body: form({ file: source, config: '{"sse":true}' }) })).body[
        'notifications'
      ],
      { webhook: { enabled: false, secret: 'whsec_x', isolated: false }, sse: true },
    );
    assert.equal(
      (await ask('POST', '/projections/upload', { body: form({ file: source }) })).body['notifications'],
      undefined,
    );
  });

  it('with a field that declares a type are read as well', async () => {
    const part = (head: string, body: string): string =>
      `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${body}\r\n`;
    const body = `${part('name="config"\r\nContent-Type: application/json', '{"sse":true}')}${part('name="f"; filename="B.cs"', 'class B {}')}--b--\r\n`;
    const answer = await ask('POST', '/projections/upload', {
      body,
      headers: { 'Content-Type': 'multipart/form-data; boundary=b' },
    });
    assert.equal(answer.status, 202);
    assert.deepEqual(uploads.at(-1), {
      sources: [{ path: 'B.cs', text: 'class B {}' }],
      config: { webhookUrl: undefined, isolateSecret: undefined, sse: true },
      projectionId: undefined,
    });
  });

  it('that are wrong are refused', async () => {
    const upload = async (data: FormData): Promise<string> =>
      refused(await ask('POST', '/projections/upload', { body: data }));
    assert.equal(await upload(form({ config: '{}' })), '400 INVALID_ARCHIVE');
    assert.equal(await upload(form({ file: source }, 'A.txt')), '400 INVALID_ARCHIVE');
    assert.equal(await upload(form({ file: new Blob(['PK\x03\x04....']) }, 'a.zip')), '400 INVALID_ARCHIVE');
    for (const config of [
      '',
      'x',
      '[]',
      '{"webhok":{}}',
      '{"webhook":{"url":1}}',
      '{"webhook":{}}',
      '{"sse":"yes"}',
      '{"notifications":{"sse":true},"sse":true}',
    ]) {
      assert.equal(await upload(form({ file: source, config })), '400 INVALID_REQUEST', config);
    }
    assert.equal(await upload(form({ file: source, confg: '{}' })), '400 INVALID_REQUEST');
    assert.equal(await upload(form({ file: new Blob([Buffer.alloc(150_000, 0x20)]) })), '413 PAYLOAD_TOO_LARGE');
    assert.equal(await upload(form({ file: new Blob([Buffer.alloc(2_000_000, 0x20)]) })), '413 PAYLOAD_TOO_LARGE');
    assert.equal(refused(await ask('POST', '/reducers/upload', { body: '{}' })), '415 UNSUPPORTED_MEDIA_TYPE');
    const cut = '--b\r\nContent-Disposition: form-data; name="f"; filename="B.cs"\r\n\r\nclass';
    assert.equal(
      refused(
        await ask('POST', '/reducers/upload', {
          body: cut,
          headers: { 'Content-Type': 'multipart/form-data; boundary=b' },
        }),
      ),
      '400 INVALID_REQUEST',
    );
  });
});

describe('connections', () => {
  it('that send their head or body too slowly are cut', async () => {
    assert.match(await raw('POST /events HTTP/1.1\r\nHost: x\r\nX-Slow'), /^HTTP\/1.1 408/);
    assert.match(
      await raw(
        `POST /events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${apiKey}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
      ),
      /^HTTP\/1.1 408|^$/,
    );
  });

  it('that are upgraded without anyone to take them are told so', async () => {
    assert.match(
      await raw('GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
      /^HTTP\/1.1 404 Not Found\r\n.*"code":"NOT_FOUND"/s,
    );
  });
});
