import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry';
import { Kafka, logLevel } from 'kafkajs';
import { LogArtefactStore } from '../../src/catalog/artefacts.js';
import { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { quotasOf } from '../../src/catalog/tenant-quotas.js';
import { createTenant } from '../../src/catalog/tenants.js';
import { silentLogger } from '../../src/core/logger.js';
import type { CommitValue, Fence } from '../../src/core/records.js';
import { Admission } from '../../src/http/admission.js';
import { readSettings } from '../../src/config/settings.js';
import { Refusals } from '../../src/http/refusals.js';
import { createRouter } from '../../src/http/router.js';
import type { RouteDependencies } from '../../src/http/routes/dependencies.js';
import { SCHEMA_REGISTRY } from '../../src/http/routes/schema-registry.js';
import { SchemaRegistry as BuiltInRegistry } from '../../src/http/schema-registry.js';
import { loadCodecs, UnknownSchemaError } from '../../src/log/codec/codec.js';
import { registerSchemas, SchemaRegistryError } from '../../src/log/confluent/registry.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { BUILT_IN_SCHEMA_IDS, readSchemas, type SchemaIds } from '../../src/log/codec/schemas.js';
import { openCatalog } from '../support/ground.js';
import { freshPrefix, kafkaForTests, needsKafkaTools } from '../support/kafka.js';
import { ADMIN_KEY as SERVICE_ADMIN_KEY, API_KEY, ROOT, startService, temporaryDirectory } from '../support/service.js';

const AVRO = join(ROOT, 'schemas', 'avro');
const schemas = readSchemas(AVRO);
const ADMIN_KEY = 'an-admin-key-of-the-test';
const V1 = 'application/vnd.schemaregistry.v1+json';
const fence: Fence = { epoch: 1, owner: 'w1', recordId: 'w1:a', expectedOffset: 0, previous: '' };
const commit: CommitValue = {
  commandId: 'c',
  keyed: false,
  requestHash: Buffer.alloc(0),
  aggregateId: 'order-1',
  aggregateType: 'order',
  baseVersion: 0,
  timestamp: 1_700_000_000_000,
  correlationId: null,
  causationId: null,
  metadata: null,
  events: [{ eventId: Buffer.alloc(16, 7), eventType: 'Paid', data: Buffer.from('{"n":9007199254740993,"ü":1.0}') }],
};

async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface BuiltIn {
  /** With its path. */
  readonly url: string;
  /** Of the tenants `one` and `two`. */
  readonly keys: readonly [string, string];
  readonly ask: (
    method: string,
    path: string,
    options?: { body?: unknown; headers?: Record<string, string> },
  ) => Promise<{ status: number; headers: Headers; body: unknown }>;
}

/** The routes over a real catalog with two tenants. */
async function builtIn(
  t: TestContext,
  {
    ids = BUILT_IN_SCHEMA_IDS,
    topicPrefix = 'statefold',
    rateLimitBurst = 0,
  }: { ids?: SchemaIds; topicPrefix?: string; rateLimitBurst?: number } = {},
): Promise<BuiltIn> {
  const log = new LmdbLog({ path: temporaryDirectory(t) });
  const catalog = await openCatalog(t, log, 'registry-test');
  t.after(() => log.close());
  const keys = [
    (await createTenant(catalog, { tenantId: 'one' })).apiKey,
    (await createTenant(catalog, { tenantId: 'two', partitions: 2 })).apiKey,
  ] as const;
  // One that is past its burst has one request more in a quarter of an hour.
  const limits = { ...readSettings({}), rateLimitPerSecond: rateLimitBurst > 0 ? 0.001 : 0, rateLimitBurst };
  const admission = new Admission({ catalog, quotaOf: quotasOf(catalog, limits), limits });
  const authenticate = (request: IncomingMessage) => admission.admitKnown(request, 'read');
  const settings = {
    maxBodyBytes: 64 * 1024,
    maxJsonDepth: 32,
    maxUploadBytes: 0,
    maxInflatedBytes: 0,
    maxArchiveEntries: 0,
  };
  const schemaRegistry = new BuiltInRegistry({
    schemas,
    ids,
    topicPrefix,
    catalog,
    adminKey: ADMIN_KEY,
    authenticate,
    limits: settings,
  });
  const app = createRouter({
    rooms: [SCHEMA_REGISTRY],
    dependencies: { schemaRegistry } as RouteDependencies,
    authenticate: () => assert.fail('the registry asks for the key itself'),
    requireAdmin: () => assert.fail('the registry asks for the admin key itself'),
    settings,
    refusals: new Refusals(silentLogger),
  });
  const url = `${await listen(t, app)}/schema-registry`;
  const ask: BuiltIn['ask'] = async (method, path, { body, headers } = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'x-api-key': keys[0], ...(body === undefined ? {} : { 'content-type': V1 }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : (JSON.parse(text) as unknown),
    };
  };
  return { url, keys, ask };
}

const basic = (user: string, password: string): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});
const client = (url: string, password: string, username = 'any'): SchemaRegistry =>
  new SchemaRegistry({ host: url, auth: { username, password }, retry: { retries: 0 } });

describe('the built-in registry', () => {
  it("answers as Confluent's does", async (t) => {
    const { ask } = await builtIn(t);
    const version = { subject: 'statefold.one.events-value', version: 1, id: 1, schema: schemas.events.text };
    const second = { ...version, version: 2, id: 5, schema: schemas.events2.text };
    const third = { ...version, version: 3, id: 7, schema: schemas.events3.text };
    const fourth = { ...version, version: 4, id: 8, schema: schemas.events4.text };
    const answers: readonly [path: string, status: number, body: unknown][] = [
      [
        '/subjects',
        200,
        [
          'dev.statefold.CatalogRecord',
          'dev.statefold.ChangesRecord',
          'dev.statefold.EventsRecord',
          'dev.statefold.OrderRecord',
          'statefold.catalog-value',
          'statefold.one.changes-value',
          'statefold.one.events-value',
        ],
      ],
      [
        '/subjects?subjectPrefix=dev.',
        200,
        [
          'dev.statefold.CatalogRecord',
          'dev.statefold.ChangesRecord',
          'dev.statefold.EventsRecord',
          'dev.statefold.OrderRecord',
        ],
      ],
      ['/subjects/statefold.one.events-value/versions', 200, [1, 2, 3, 4]],
      ['/subjects/statefold.one.changes-value/versions', 200, [1, 2]],
      ['/subjects/statefold.one.events-value/versions/1', 200, version],
      ['/subjects/statefold.one.events-value/versions/2', 200, second],
      ['/subjects/statefold.one.events-value/versions/3', 200, third],
      ['/subjects/statefold.one.events-value/versions/latest', 200, fourth],
      ['/subjects/statefold.one.events-value/versions/-1', 200, fourth],
      ['/schemas/ids/5/schema', 200, schemas.events2.schema],
      [
        '/schemas/ids/5/versions',
        200,
        [
          { subject: 'dev.statefold.EventsRecord', version: 2 },
          { subject: 'statefold.one.events-value', version: 2 },
        ],
      ],
      [
        '/schemas/ids/1/versions',
        200,
        [
          { subject: 'dev.statefold.EventsRecord', version: 1 },
          { subject: 'statefold.one.events-value', version: 1 },
        ],
      ],
      ['/subjects/statefold.one.changes-value/versions/latest/schema', 200, schemas.changes2.schema],
      ['/schemas/ids/1?fetchMaxId=false&subject=statefold.two.events-value', 200, { schema: schemas.events.text }],
      ['/schemas/ids/3/schema', 200, schemas.catalog.schema],
      [
        '/schemas/ids/2/versions',
        200,
        [
          { subject: 'dev.statefold.ChangesRecord', version: 1 },
          { subject: 'statefold.one.changes-value', version: 1 },
        ],
      ],
      ['/schemas/ids/3/subjects', 200, ['dev.statefold.CatalogRecord', 'statefold.catalog-value']],
      ['/schemas/ids/4/schema', 200, schemas.order.schema],
      ['/schemas/types', 200, ['AVRO']],
      ['/config', 200, { compatibilityLevel: 'BACKWARD' }],
      ['/config/dev.statefold.EventsRecord', 200, { compatibilityLevel: 'BACKWARD' }],
      ['/mode', 200, { mode: 'READONLY' }],
      ['/subjects/orders-value/versions', 404, { error_code: 40401, message: "Subject 'orders-value' not found." }],
      [
        '/subjects/statefold.one.order-value/versions',
        404,
        { error_code: 40401, message: "Subject 'statefold.one.order-value' not found." },
      ],
      ['/subjects/statefold.one.events-value/versions/5', 404, { error_code: 40402, message: 'Version 5 not found.' }],
      ['/subjects/statefold.one.changes-value/versions/3', 404, { error_code: 40402, message: 'Version 3 not found.' }],
      ['/schemas/ids/9', 404, { error_code: 40403, message: 'Schema 9 not found' }],
      ['/nothing', 404, { error_code: 404, message: 'HTTP 404 Not Found' }],
    ];
    for (const [path, status, body] of answers) {
      const answer = await ask('GET', path);
      assert.deepEqual([answer.status, answer.body], [status, body], path);
      assert.equal(answer.headers.get('content-type'), V1, path);
    }
    assert.equal(
      ((await ask('GET', '/subjects/statefold.one.events-value/versions/x')).body as { error_code: number }).error_code,
      42202,
    );
    const wrong = await ask('PATCH', '/subjects');
    assert.deepEqual(
      [wrong.status, (wrong.body as { error_code: number }).error_code, wrong.headers.get('allow')],
      [405, 405, 'GET, HEAD, OPTIONS'],
    );
  });

  it('finds a schema however it is spelt, and takes no other one', async (t) => {
    const { ask } = await builtIn(t);
    // As a Java client prints what it parsed: members in another order, names in full.
    const { fields, doc, name, namespace, type } = schemas.changes.schema as Record<string, unknown>;
    const spelt = JSON.stringify({ type, name: `${String(namespace)}.${String(name)}`, doc, fields }).replace(
      '"type":"int"',
      '"type":{"type":"int"}',
    );
    const subject = '/subjects/statefold.one.changes-value';
    assert.deepEqual((await ask('POST', `${subject}?normalize=false&deleted=true`, { body: { schema: spelt } })).body, {
      subject: 'statefold.one.changes-value',
      version: 1,
      id: 2,
      schema: schemas.changes.text,
    });
    assert.deepEqual((await ask('POST', `${subject}/versions`, { body: { schema: spelt, schemaType: 'AVRO' } })).body, {
      id: 2,
    });
    const more = JSON.stringify({
      ...schemas.changes.schema,
      fields: [...(fields as object[]), { name: 'more', type: 'int', default: 0 }],
    });
    const refusals: readonly [path: string, body: unknown, status: number, code: number][] = [
      [subject, { schema: more }, 404, 40403],
      [subject, { schema: schemas.events.text }, 404, 40403],
      [subject, { schema: spelt, schemaType: 'PROTOBUF' }, 404, 40403],
      ['/subjects/orders-value', { schema: spelt }, 404, 40401],
      [`${subject}/versions`, { schema: more }, 422, 42205],
      ['/subjects/orders-value/versions', { schema: spelt }, 422, 42205],
      [subject, { schema: '{"type":' }, 422, 42201],
      [subject, { schema: `${'['.repeat(1000)}${']'.repeat(1000)}` }, 422, 42201],
      [subject, {}, 422, 42201],
      [subject, '{', 400, 400],
      [subject, { schema: 'x'.repeat(100_000) }, 413, 413],
    ];
    for (const [path, body, status, code] of refusals) {
      const answer = await ask('POST', path, { body });
      assert.deepEqual(
        [answer.status, (answer.body as { error_code: number }).error_code],
        [status, code],
        `${path} ${JSON.stringify(body).slice(0, 100)}`,
      );
    }
    assert.equal(
      (await ask('POST', subject, { body: { schema: spelt }, headers: { 'content-type': 'text/plain' } })).status,
      415,
    );
    for (const path of ['/config', '/config/statefold.one.events-value', '/mode'])
      assert.equal(((await ask('PUT', path, { body: {} })).body as { error_code: number }).error_code, 42205, path);
    assert.equal((await ask('DELETE', subject)).status, 422);
  });

  it('16: shows a tenant the topics of no other, and asks for a key', async (t) => {
    const {
      url,
      ask,
      keys: [one],
    } = await builtIn(t, { topicPrefix: 'prod' });
    const {
      keys: [elsewhere],
    } = await builtIn(t);
    const foreign = await ask('GET', '/subjects/prod.two.events-value/versions/latest');
    const missing = await ask('GET', '/subjects/prod.six.events-value/versions/latest');
    assert.equal(foreign.status, 404);
    assert.deepEqual(JSON.stringify(foreign.body).replace('two', 'six'), JSON.stringify(missing.body));
    assert.equal((await ask('GET', '/subjects/prod.one.events-value/versions/latest')).status, 200);
    assert.equal((await ask('GET', '/subjects/statefold.one.events-value/versions/latest')).status, 404);
    const subjects = async (headers: Record<string, string>): Promise<unknown> => {
      const answer = await fetch(`${url}/subjects`, { headers });
      return answer.status === 200
        ? ((await answer.json()) as string[]).filter((subject) => subject.endsWith('.events-value'))
        : [answer.status, answer.headers.get('www-authenticate')];
    };
    const refused = [401, 'Basic realm="statefold"'];
    assert.deepEqual(await subjects({ 'x-api-key': one }), ['prod.one.events-value']);
    assert.deepEqual(await subjects(basic('anyone', one)), ['prod.one.events-value']);
    assert.deepEqual(await subjects(basic('', one)), ['prod.one.events-value']);
    assert.deepEqual(await subjects(basic('admin', ADMIN_KEY)), ['prod.one.events-value', 'prod.two.events-value']);
    assert.deepEqual(await subjects({ 'x-admin-key': ADMIN_KEY }), ['prod.one.events-value', 'prod.two.events-value']);
    for (const headers of [
      {},
      basic('anyone', ADMIN_KEY),
      basic('admin', one),
      basic(one, ''),
      basic('anyone', elsewhere),
      { authorization: 'Basic ???' },
      { authorization: `Bearer ${one}` },
    ])
      assert.deepEqual(await subjects(headers), refused, JSON.stringify(headers));
  });

  it('13: counts for the rate of its tenant, of no other and not of the admin', async (t) => {
    const { ask, keys } = await builtIn(t, { rateLimitBurst: 3 });
    for (const path of ['/subjects', '/schemas/ids/1', '/config']) assert.equal((await ask('GET', path)).status, 200);
    const refused = await ask('GET', '/subjects');
    assert.deepEqual(
      [refused.status, refused.headers.get('content-type'), (refused.body as { error_code: number }).error_code],
      [429, V1, 429],
    );
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    assert.equal((await ask('POST', '/subjects/x/versions', { body: { schema: '"int"' } })).status, 429);
    assert.equal((await ask('GET', '/subjects', { headers: { 'x-api-key': keys[1] } })).status, 200);
    const asAdmin = { headers: { 'x-admin-key': ADMIN_KEY } };
    for (let i = 0; i < 5; i++) assert.equal((await ask('GET', '/subjects', asAdmin)).status, 200);
  });

  it('serves a client of the field: look-ups, registration of what is known, decoding', async (t) => {
    const ids = {
      events: 41,
      changes: 42,
      catalog: 43,
      order: 44,
      events2: 45,
      changes2: 46,
      events3: 47,
      events4: 48,
    };
    const { url, keys } = await builtIn(t, { ids });
    const registry = client(url, keys[0]);
    assert.equal(await registry.getLatestSchemaId('statefold.one.events-value'), 48);
    assert.equal(
      await registry.getRegistryIdBySchema('statefold.one.events-value', {
        type: SchemaType.AVRO,
        schema: schemas.events.text,
      }),
      41,
    );
    assert.equal(
      await registry.getRegistryIdBySchema('dev.statefold.CatalogRecord', {
        type: SchemaType.AVRO,
        schema: schemas.catalog.text,
      }),
      43,
    );
    assert.deepEqual(
      await registry.register(
        { type: SchemaType.AVRO, schema: schemas.changes.text },
        { subject: 'statefold.one.changes-value' },
      ),
      { id: 42 },
    );
    const value = loadCodecs(AVRO, ids).events.encode(fence, { kind: 'Commit', value: commit });
    assert.equal(dataOf(await registry.decode(value)), '{"n":9007199254740993,"ü":1.0}');
    const own = loadCodecs(AVRO, ids).events.encode(fence, {
      kind: 'Commit',
      value: { ...commit, events: commit.events.map((event) => ({ ...event, correlationId: 'its own' })) },
    });
    assert.equal(own.readUInt32BE(1), 45);
    assert.equal(dataOf(await registry.decode(own)), '{"n":9007199254740993,"ü":1.0}');
    await assert.rejects(
      registry.register(
        { type: SchemaType.AVRO, schema: '{"type":"record","namespace":"x","name":"X","fields":[]}' },
        { subject: 'x-value' },
      ),
      /read-only mode/,
    );
  });
});

/** The JSON text of the first event of a decoded commit. */
function dataOf(record: unknown): string | undefined {
  const { body } = record as { body: { 'dev.statefold.Commit'?: { events: { data: string }[] } } };
  return body['dev.statefold.Commit']?.events[0]?.data;
}

/** A small registry of another make: gives its own ids, and does what a test asks of it. */
class OtherRegistry {
  readonly ids = new Map<string, number>();
  readonly asked: string[] = [];
  auth: string | undefined;
  /** Answers all with it, as long as it is set. */
  answer: { status: number; error_code: number; message: string } | undefined;
  /** Requests that are left without any answer. */
  silent = false;

  readonly listener: RequestListener = (request, response) => {
    void this.#serve(request).then((answer) => {
      if (answer !== undefined) response.writeHead(answer[0], { 'content-type': V1 }).end(JSON.stringify(answer[1]));
    });
  };

  async #serve(request: IncomingMessage): Promise<[number, object] | undefined> {
    this.asked.push(`${request.method} ${request.url}`);
    let text = '';
    for await (const chunk of request) text += String(chunk);
    if (this.silent) return undefined;
    if (this.answer !== undefined) return [this.answer.status, this.answer];
    if (
      this.auth !== undefined &&
      request.headers.authorization !== basic(...(this.auth.split(':') as [string, string]))['authorization']
    )
      return [401, { error_code: 401, message: 'Unauthorized' }];
    const [, subject = '', versions] = /^\/subjects\/([^/]+)(\/versions)?$/.exec(request.url ?? '') ?? [];
    if (request.method !== 'POST')
      return request.method === 'PUT'
        ? [200, { compatibility: 'BACKWARD' }]
        : [404, { error_code: 40408, message: 'Subject does not have subject-level compatibility configured' }];
    const key = `${subject} ${(JSON.parse(text) as { schema: string }).schema}`;
    if (versions === undefined && !this.ids.has(key))
      return [404, { error_code: 40401, message: `Subject '${subject}' not found.` }];
    if (!this.ids.has(key)) this.ids.set(key, 100_001 + this.ids.size);
    return [200, { id: this.ids.get(key) ?? 0 }];
  }
}

describe('a registry of the cluster', () => {
  it('gives the ids: those of before, or of what is registered now', async (t) => {
    const other = new OtherRegistry();
    const url = await listen(t, other.listener);
    const ids = await registerSchemas({ url, schemas });
    assert.deepEqual(ids, {
      events: 100_001,
      changes: 100_002,
      catalog: 100_003,
      order: 100_004,
      events2: 100_005,
      changes2: 100_006,
      events3: 100_007,
      events4: 100_008,
    });
    assert.deepEqual(
      [...other.ids.keys()].map((key) => key.split(' ')[0]),
      [
        'dev.statefold.EventsRecord',
        'dev.statefold.ChangesRecord',
        'dev.statefold.CatalogRecord',
        'dev.statefold.OrderRecord',
        'dev.statefold.EventsRecord',
        'dev.statefold.ChangesRecord',
        'dev.statefold.EventsRecord',
        'dev.statefold.EventsRecord',
      ],
    );
    other.asked.length = 0;
    assert.deepEqual(await registerSchemas({ url: `${url}/`, schemas }), ids);
    // What is there is only looked up: a user who may read is enough.
    assert.deepEqual(other.asked, [
      'POST /subjects/dev.statefold.EventsRecord',
      'POST /subjects/dev.statefold.ChangesRecord',
      'POST /subjects/dev.statefold.CatalogRecord',
      'POST /subjects/dev.statefold.OrderRecord',
      'POST /subjects/dev.statefold.EventsRecord',
      'POST /subjects/dev.statefold.ChangesRecord',
      'POST /subjects/dev.statefold.EventsRecord',
      'POST /subjects/dev.statefold.EventsRecord',
    ]);
    const value = loadCodecs(AVRO, ids).events.encode(fence, { kind: 'Claim', value: { rules: 1 } });
    assert.equal(value.readUInt32BE(1), 100_001);
  });

  it('goes on where a start ended that had registered some, and used none of them', async (t) => {
    for (let registered = 1; registered < 8; registered++) {
      const other = new OtherRegistry();
      const url = await listen(t, (request, response) => {
        if (other.ids.size === registered)
          other.answer ??= { status: 403, error_code: 403, message: 'No more of them' };
        other.listener(request, response);
      });
      await assert.rejects(registerSchemas({ url, schemas }), SchemaRegistryError);
      assert.equal(other.ids.size, registered);
      const whole = await listen(t, other.listener);
      other.answer = undefined;
      const ids = await registerSchemas({ url: whole, schemas });
      assert.deepEqual(
        Object.values(ids).sort((one, two) => one - two),
        Array.from({ length: 8 }, (_, i) => 100_001 + i),
        'none is registered twice',
      );
      assert.deepEqual(await registerSchemas({ url: whole, schemas }), ids);
    }
  });

  it('may be the built-in one of another service', async (t) => {
    const ids = {
      events: 41,
      changes: 42,
      catalog: 43,
      order: 44,
      events2: 45,
      changes2: 46,
      events3: 47,
      events4: 48,
    };
    const { url, keys } = await builtIn(t, { ids });
    assert.deepEqual(await registerSchemas({ url, username: 'any', password: keys[0], schemas }), ids);
  });

  it('is given the credentials of its URL or of the settings, and says which it refuses', async (t) => {
    const other = new OtherRegistry();
    other.auth = 'ada:p@ss';
    const url = await listen(t, other.listener);
    const ids = await registerSchemas({ url: url.replace('//', '//ada:p%40ss@'), schemas });
    assert.deepEqual(await registerSchemas({ url, username: 'ada', password: 'p@ss', schemas }), ids);
    const refused = registerSchemas({ url: url.replace('//', '//ada:wrong@'), schemas });
    await assert.rejects(
      refused,
      (error) =>
        error instanceof SchemaRegistryError &&
        /refuses the credentials \(Unauthorized\): set SCHEMA_REGISTRY_USERNAME/.test(error.message) &&
        !error.message.includes('wrong'),
    );
  });

  it('that refuses ends the start at once, one that is away or silent at the deadline, each with a reason', async (t) => {
    const other = new OtherRegistry();
    const url = await listen(t, other.listener);
    const failure = async (deadlineMs = 600_000, at = url): Promise<string> => {
      const error: unknown = await registerSchemas({ url: at, schemas, deadlineMs }).catch((thrown: unknown) => thrown);
      assert.ok(error instanceof SchemaRegistryError, String(error));
      return error.message;
    };
    other.answer = {
      status: 409,
      error_code: 409,
      message: 'Schema being registered is incompatible with an earlier schema',
    };
    assert.match(await failure(), /holds another schema under dev\.statefold\.EventsRecord .*incompatible/);
    other.answer = {
      status: 422,
      error_code: 42205,
      message: 'Subject dev.statefold.EventsRecord is in read-only mode',
    };
    assert.match(await failure(), /refuses the schema of dev\.statefold\.EventsRecord \(.*read-only mode\)/);
    other.answer = { status: 404, error_code: 404, message: 'HTTP 404 Not Found' };
    assert.match(await failure(), /There is no schema registry at http:.*correct SCHEMA_REGISTRY_URL/);
    other.answer = { status: 500, error_code: 50001, message: 'Error in the backend datastore' };
    assert.match(await failure(300), /gives no ids: Error in the backend datastore\. Start it/);
    other.silent = true;
    assert.match(await failure(300), /gives no ids: it does not answer\. Start it/);
    assert.match(await failure(300, 'http://127.0.0.1:1'), /gives no ids: .*ECONNREFUSED/);
  });

  it('that comes up within the deadline is waited for', async (t) => {
    const other = new OtherRegistry();
    other.answer = { status: 503, error_code: 50302, message: 'not ready' };
    const url = await listen(t, (request, response) => {
      if (other.asked.length === 2) other.answer = undefined;
      other.listener(request, response);
    });
    assert.equal((await registerSchemas({ url, schemas })).events, 100_001);
  });

  it('whose ids are others than those in the log stops the fold before anything is void', async (t) => {
    const log = new LmdbLog({ path: temporaryDirectory(t) });
    t.after(() => log.close());
    const artefacts = await LogArtefactStore.open({ log });
    const open = (ids: SchemaIds): Promise<FencedCatalog> =>
      FencedCatalog.open({ log, codec: loadCodecs(AVRO, ids).catalog, artefacts, owner: 'o', logger: silentLogger });
    const before = {
      events: 11,
      changes: 12,
      catalog: 13,
      order: 14,
      events2: 15,
      changes2: 16,
      events3: 17,
      events4: 18,
    };
    const first = await open(before);
    await createTenant(first, { tenantId: 'one' });
    await first.close();
    await assert.rejects(
      open(BUILT_IN_SCHEMA_IDS),
      (error) => error instanceof UnknownSchemaError && /schema id 13, this process knows 3/.test(error.message),
    );
    const again = await open(before);
    assert.equal(again.list('tenant', undefined).length, 1);
    await again.close();
  });
});

describe('a service on Kafka', { skip: needsKafkaTools }, () => {
  /** What Kafka's console consumer reads of the events of all tenants under the prefix. */
  async function consoleConsumer(topicPrefix: string): Promise<Buffer[]> {
    const kafka = await kafkaForTests();
    const admin = new Kafka({
      clientId: 'registry-test',
      brokers: [...kafka.brokers],
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    const topics = (await admin.listTopics()).filter(
      (topic) => topic.startsWith(`${topicPrefix}.`) && topic.endsWith('.events'),
    );
    const ends = await Promise.all(
      topics.map(async (topic) => Number((await admin.fetchTopicOffsets(topic))[0]?.high)),
    );
    await admin.disconnect();
    const printed = await kafka.tool('kafka-console-consumer', [
      '--include',
      `${topicPrefix}\\..*\\.events`,
      '--from-beginning',
      '--max-messages',
      String(ends.reduce((sum, end) => sum + end, 0)),
      '--timeout-ms',
      '60000',
      '--formatter-property',
      'value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer',
    ]);
    return printed.trimEnd().split('\n').map(unprinted);
  }
  const commitsOf = async (
    values: readonly Buffer[],
    registry: SchemaRegistry,
  ): Promise<{ aggregateId: string; data: string | undefined }[]> => {
    const records = (await Promise.all(values.map((value) => registry.decode(value)))) as {
      body: { 'dev.statefold.Commit'?: { aggregateId: string } };
    }[];
    return records.flatMap((record) =>
      record.body['dev.statefold.Commit'] === undefined
        ? []
        : [{ aggregateId: record.body['dev.statefold.Commit'].aggregateId, data: dataOf(record) }],
    );
  };
  const DATA = '{"n":9007199254740993,"ü":1.0}';
  const event = (aggregateId: string): string => `{"aggregateId":"${aggregateId}","eventType":"Paid","data":${DATA}}`;
  const JSON_BODY = { 'content-type': 'application/json' };

  it('is read by a plain console consumer and a registry client, the topics of every tenant', async (t) => {
    const { brokers } = await kafkaForTests();
    const topicPrefix = freshPrefix();
    const env = { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: topicPrefix };
    const service = await startService(t, { env });
    const { apiKey } = (
      await service.post(
        '/admin/tenants',
        { tenantId: 'two', name: 'Two' },
        { headers: { 'x-admin-key': SERVICE_ADMIN_KEY } },
      )
    ).json<{ apiKey: string }>();
    for (const [key, id] of [
      [API_KEY, 'order-1'],
      [apiKey, 'order-2'],
    ] as const)
      assert.equal((await service.request('POST', '/events', { key, raw: event(id), headers: JSON_BODY })).status, 201);
    const values = await consoleConsumer(topicPrefix);
    const commits = await commitsOf(values, client(`${service.url}/schema-registry`, API_KEY));
    assert.deepEqual(
      commits.sort((a, b) => (a.aggregateId < b.aggregateId ? -1 : 1)),
      [
        { aggregateId: 'order-1', data: DATA },
        { aggregateId: 'order-2', data: DATA },
      ],
    );
    assert.equal(
      await client(`${service.url}/schema-registry`, apiKey).getLatestSchemaId(`${topicPrefix}.two.events-value`),
      BUILT_IN_SCHEMA_IDS.events4,
    );
    await service.stop();

    // Its log is of the built-in ids: another registry is refused before anything is written.
    const url = await listen(t, new OtherRegistry().listener);
    await assert.rejects(
      startService(t, { dataDirectory: service.dataDirectory, env: { ...env, SCHEMA_REGISTRY_URL: url } }),
      /schema id 3, this process knows 100003: .*SCHEMA_REGISTRY_URL/,
    );
  });

  it("writes with the ids of the cluster's registry, and answers for them", async (t) => {
    const { brokers } = await kafkaForTests();
    const topicPrefix = freshPrefix();
    const url = await listen(t, new OtherRegistry().listener);
    const service = await startService(t, {
      env: { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: topicPrefix, SCHEMA_REGISTRY_URL: url },
    });
    assert.equal((await service.request('POST', '/events', { raw: event('order-1'), headers: JSON_BODY })).status, 201);
    const values = await consoleConsumer(topicPrefix);
    for (const value of values) assert.equal(value.readUInt32BE(1), 100_001);
    assert.deepEqual(await commitsOf(values, client(`${service.url}/schema-registry`, API_KEY)), [
      { aggregateId: 'order-1', data: DATA },
    ]);
    await service.stop();
  });
});

/** The bytes of what Kafka's `Bytes` prints: all that is not printable ASCII as `\xNN`. */
const unprinted = (text: string): Buffer =>
  Buffer.from(
    text.replace(/\\x([0-9A-F]{2})/g, (_all, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  );
