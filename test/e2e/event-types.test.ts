// Types of events: what there is of each, and schemas that every form of append is held to.
import assert from 'node:assert/strict';
import test from 'node:test';
import { admin, Api, newTenant, problem, success } from '../support/api.js';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { bulk } from '../support/bulk.js';
import { API_KEY, startService, temporaryDirectory, type Answer } from '../support/service.js';

interface EventType {
  readonly eventType: string;
  readonly aggregateTypes: readonly string[];
  readonly events: number;
  readonly firstSeen?: string;
  readonly lastSeen?: string;
  readonly schemaVersion?: number;
  readonly schema?: unknown;
}
interface Check {
  readonly schemaVersion?: number;
  readonly checked: number;
  readonly unfit: number;
  readonly examples: readonly {
    readonly eventId: string;
    readonly aggregateId: string;
    readonly version: number;
    readonly errors: readonly { readonly pointer: string; readonly message: string }[];
  }[];
  readonly complete: boolean;
  readonly ignored: readonly { readonly pointer: string; readonly message: string }[];
}
type Errors = readonly { readonly pointer: string; readonly message: string }[];

const PAID = {
  type: 'object',
  required: ['amount'],
  properties: { amount: { type: 'number', exclusiveMinimum: 0 }, currency: { enum: ['EUR', 'USD'] } },
  additionalProperties: false,
};

const listed = async (api: Api): Promise<readonly EventType[]> =>
  (await api.read<{ eventTypes: EventType[] }>('/event-types')).eventTypes;
const put = async (api: Api, type: string, schema: unknown, query = ''): Promise<Check> =>
  success(await api.put(`/event-types/${encodeURIComponent(type)}${query}`, { schema }), 200).json<Check>();
const violated = (answer: Answer): string[] =>
  (problem(answer, 422, 'SCHEMA_VIOLATION')['errors'] as Errors).map(({ pointer }) => pointer);

test('types of events', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);

  await t.test('are counted as they come', async () => {
    assert.deepEqual(await listed(api), []);
    const first = await api.append('order-1', 'Placed', { total: 1 });
    await api.append('order-2', 'Placed', { total: 2 });
    await api.append('cart_1', 'Placed', {});
    success(
      await api.post('/events/batch', {
        aggregateId: 'order-1',
        events: [
          { eventType: 'Paid', data: { amount: 5 } },
          { eventType: 'Paid', data: { amount: '5' } },
          { eventType: 'a/b c', data: {} },
        ],
      }),
      201,
    );
    const types = await listed(api);
    assert.deepEqual(
      types.map(({ eventType, events, aggregateTypes }) => [eventType, events, aggregateTypes]),
      [
        ['Paid', 2, ['order']],
        ['Placed', 3, ['order', 'cart']],
        ['a/b c', 1, ['order']],
      ],
    );
    assert.equal(types[1]?.firstSeen, first.timestamp);
    assert.deepEqual(await api.read('/event-types/a%2Fb%20c'), types[2]);
    problem(await api.get('/event-types/None'), 404, 'NOT_FOUND');
    const page = await api.read<{ eventTypes: EventType[]; nextCursor: string }>('/event-types?limit=2');
    assert.deepEqual(page.eventTypes, types.slice(0, 2));
    assert.deepEqual(await api.read(`/event-types?limit=2&cursor=${page.nextCursor}`), { eventTypes: types.slice(2) });
  });

  await t.test('a check says what a schema would find, and changes nothing', async () => {
    const check = await put(api, 'Paid', PAID, '?check=true');
    assert.equal(check.schemaVersion, undefined);
    assert.deepEqual([check.checked, check.unfit, check.complete], [2, 1, true]);
    assert.deepEqual(
      check.examples.map(({ aggregateId, version, errors }) => [aggregateId, version, errors]),
      [['order-1', 3, [{ pointer: '/data/amount', message: 'must be a number' }]]],
    );
    assert.equal((await api.read<EventType>('/event-types/Paid')).schemaVersion, undefined);
    await api.append('order-9', 'Paid', { amount: 'anything' });
    problem(await api.put('/event-types/Paid?chek=true', { schema: PAID }), 400, 'INVALID_REQUEST');
  });

  await t.test('a schema that is none, or reaches out, is refused with its place', async () => {
    const refused = async (schema: unknown): Promise<string[]> =>
      (problem(await api.put('/event-types/Paid', { schema }), 400, 'INVALID_REQUEST')['errors'] as Errors).map(
        ({ pointer }) => pointer,
      );
    assert.deepEqual(await refused({ properties: { a: { type: 'text' } } }), ['/schema/properties/a/type']);
    assert.deepEqual(await refused({ $ref: 'https://example.com/paid.json' }), ['/schema/$ref']);
    assert.deepEqual(await refused({ pattern: '(a)\\1' }), ['/schema/pattern']);
    assert.deepEqual(await refused('text'), ['/schema']);
    assert.deepEqual(await refused({ description: 'x'.repeat(70_000) }), ['/schema']);
    problem(await api.put('/event-types/Paid', {}), 400, 'INVALID_REQUEST');
  });

  await t.test('from the answer on every form of append is held to it', async () => {
    const repeated = { aggregateId: 'order-8', eventType: 'Paid', data: { amount: 'before' } };
    const before = await api.post('/events', repeated, { headers: { 'idempotency-key': 'before' } });
    success(before, 201);
    const set = await put(api, 'Paid', { ...PAID, requird: ['currency'] });
    assert.deepEqual([set.schemaVersion, set.checked, set.unfit], [1, 4, 3]);
    assert.deepEqual(set.ignored, [
      {
        pointer: '/schema/requird',
        message: 'is not a known keyword of JSON Schema 2020-12; did you mean "required"?',
      },
    ]);
    const many = Object.fromEntries(Array.from({ length: 4_000 }, (_, i) => [`k${i}`, 1]));
    const told = await api.put('/event-types/Paid?check=true', { schema: many });
    assert.ok(told.text.length < 8_192);
    assert.deepEqual(success(told, 200).json<Check>().ignored.at(20), {
      pointer: '',
      message: 'has at least 3980 more faults, which are not told',
    });
    const again = await put(api, 'Paid', PAID);
    assert.equal(again.schemaVersion, 2);
    assert.equal((await put(api, 'Paid', PAID)).schemaVersion, 2);
    assert.deepEqual((await api.read<EventType>('/event-types/Paid')).schema, PAID);

    const single = await api.post('/events', { aggregateId: 'order-3', eventType: 'Paid', data: { amount: -1, a: 1 } });
    assert.deepEqual(violated(single), ['/data/amount', '/data/a']);
    assert.match(problem(single, 422, 'SCHEMA_VIOLATION').detail, /'Paid' does not fit .*version 2.*\/data\/amount/);
    const batch = await api.post('/events/batch', {
      aggregateId: 'order-3',
      events: [
        { eventType: 'Placed', data: {} },
        { eventType: 'Paid', data: {} },
      ],
    });
    assert.deepEqual(violated(batch), ['/events/1/data/amount']);
    problem(await api.get('/events/order-3'), 404, 'NOT_FOUND');
    const lines = await bulk(service.url, api.key ?? '', [
      { aggregateId: 'order-3', eventType: 'Paid', data: { amount: 7 } },
      { aggregateId: 'order-3', eventType: 'Paid', data: { amount: 7, currency: 'DM' } },
      { aggregateId: 'order-3', eventType: 'Other', data: { amount: 'free' } },
    ]);
    assert.deepEqual(
      lines.map(({ status, ...line }) => [status, line['code'], line['pointer']]),
      [
        [201, undefined, undefined],
        [422, 'SCHEMA_VIOLATION', '/data/currency'],
        [201, undefined, undefined],
      ],
    );
    const transaction = {
      appends: [
        { aggregateId: 'order-11', events: [{ eventType: 'Placed', data: {} }] },
        {
          aggregateId: 'order-12',
          events: [
            { eventType: 'Placed', data: {} },
            { eventType: 'Paid', data: { amount: 0 } },
          ],
        },
      ],
    };
    const placed = (await listed(api)).find(({ eventType }) => eventType === 'Placed')?.events ?? 0;
    assert.deepEqual(violated(await api.post('/events/transaction', transaction)), ['/appends/1/events/1/data/amount']);
    problem(await api.get('/events/order-11'), 404, 'NOT_FOUND');
    (transaction.appends[1]?.events[1] as { data: { amount: number } }).data.amount = 1;
    success(await api.post('/events/transaction', transaction), 201);
    assert.equal((await listed(api)).find(({ eventType }) => eventType === 'Placed')?.events, placed + 2);
    // What was stored before is answered as before, also where its key comes again.
    const after = await api.post('/events', repeated, { headers: { 'idempotency-key': 'before' } });
    assert.equal(after.text, before.text);
    // A conflict is told first: the data is made of what the client has not seen.
    problem(await api.post('/events', { ...repeated, expectedVersion: 7 }, { headers: {} }), 409, 'VERSION_CONFLICT');
  });

  await t.test('schemas and numbers outlive a kill', async () => {
    const before = await listed(api);
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    assert.deepEqual(await listed(api), before);
    assert.deepEqual(violated(await api.post('/events', { aggregateId: 'order-3', eventType: 'Paid', data: {} })), [
      '/data/amount',
    ]);
  });

  await t.test(
    'one whose answer a kill cut off holds, or is not there: what is told is what appends are held to',
    async () => {
      for (let round = 0; round < 4; round++) {
        const type = `Cut${round}`;
        const cut = api.put(`/event-types/${type}`, { schema: false }).catch(() => undefined);
        // Sooner or later in the writing of it.
        for (let turn = 0; turn < 4 * round; turn++) await new Promise((resolve) => setImmediate(resolve));
        await service.kill();
        const answered = (await cut)?.status === 200;
        service = await startService(t, { dataDirectory });
        api = new Api(service);
        const there = (await listed(api)).some(({ eventType }) => eventType === type);
        assert.ok(there || !answered, 'what was answered is there');
        const answer = await api.post('/events', { aggregateId: `cut-${round}`, eventType: type, data: {} });
        if (there) assert.deepEqual(violated(answer), ['/data']);
        else success(answer, 201);
        assert.equal((await put(api, type, false)).unfit, there ? 0 : 1);
        success(await api.delete(`/event-types/${type}`), 204);
      }
    },
  );

  await t.test('a type without events has a schema, and an end of it', async () => {
    assert.deepEqual((await put(api, 'Later', false)).checked, 0);
    assert.deepEqual(await api.read('/event-types/Later'), {
      ...{ eventType: 'Later', aggregateTypes: [], events: 0, schemaVersion: 1, schema: false },
      schemaChangedAt: (await api.read<{ schemaChangedAt: string }>('/event-types/Later')).schemaChangedAt,
    });
    assert.deepEqual(violated(await api.post('/events', { aggregateId: 'l-1', eventType: 'Later', data: {} })), [
      '/data',
    ]);
    assert.equal((await api.delete('/event-types/Later')).status, 204);
    problem(await api.delete('/event-types/Later'), 404, 'NOT_FOUND');
    await api.append('l-1', 'Later', {});
    assert.equal((await api.delete('/event-types/Paid')).status, 204);
    await api.append('order-3', 'Paid', { amount: 'free' });
    assert.equal((await api.read<EventType>('/event-types/Paid')).schema, undefined);
  });

  await t.test('the client has them', async () => {
    const { eventTypes } = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    const names: string[] = [];
    for await (const { eventType } of eventTypes.list()) names.push(eventType);
    assert.deepEqual(
      names,
      (await listed(api)).map(({ eventType }) => eventType),
    );
    assert.equal((await eventTypes.check('Later', { required: ['x'] })).schemaVersion, undefined);
    const { unfit, schemaVersion } = await eventTypes.set('Later', { required: ['x'] });
    assert.deepEqual([unfit, schemaVersion], [1, 1]);
    assert.deepEqual((await eventTypes.get('Later')).schema, { required: ['x'] });
    await eventTypes.end('Later');
    await eventTypes.end('Later');
    assert.equal((await eventTypes.get('Later')).schema, undefined);
  });

  await t.test('who may only read or append sets none', async () => {
    const { keyId, apiKey } = success(
      await admin(service, 'POST', '/admin/tenants/default/keys', { scopes: ['read', 'append'] }),
      201,
    ).json<{ keyId: string; apiKey: string }>();
    const other = new Api(service, apiKey);
    problem(await other.put('/event-types/Paid', { schema: PAID }), 403, 'FORBIDDEN');
    problem(await other.delete('/event-types/Paid'), 403, 'FORBIDDEN');
    assert.ok((await listed(other)).length > 0, keyId);
  });

  await t.test('a tenant of several partitions, and its deletion', async () => {
    const wide = new Api(service, await newTenant(service, { tenantId: 'wide', name: 'Wide', partitions: 4 }));
    for (let i = 0; i < 12; i++) await wide.append(`order-${i}`, 'Paid', { amount: i });
    assert.deepEqual(
      (await listed(wide)).map(({ eventType, events }) => [eventType, events]),
      [['Paid', 12]],
    );
    const set = await put(wide, 'Paid', PAID);
    assert.deepEqual([set.checked, set.unfit, set.complete], [12, 1, true]);
    for (let i = 0; i < 12; i++)
      violated(await wide.post('/events', { aggregateId: `order-${i}`, eventType: 'Paid', data: {} }));
    assert.equal((await admin(service, 'DELETE', '/admin/tenants/wide')).status, 204);
    const next = new Api(service, await newTenant(service, { tenantId: 'wide', name: 'Wide' }));
    assert.deepEqual(await listed(next), []);
    await next.append('order-1', 'Paid', {});
  });
});
