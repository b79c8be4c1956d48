import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/core/clock.js';
import type { EventTypeEntity } from '../../src/catalog/catalog.js';
import { EventSchemas, eventTypeId } from '../../src/event-schemas/event-schemas.js';
import { CheckThread } from '../../src/event-schemas/large-events.js';
import { EventTypeService } from '../../src/event-schemas/event-type-service.js';
import { JsonSchema } from '../../src/event-schemas/json-schema.js';
import { until } from '../support/service.js';
import { MapCatalog } from '../support/notifier-world.js';

const MIB = 1024 * 1024;
const letters = (count: number): string => '\\p{L}'.repeat(count);

const entityOf = (tenantId: string, eventType: string, schema: object): EventTypeEntity => ({
  ...{ tenantId, eventType, schemaVersion: 1, changedAt: '2026-01-01T00:00:00.000Z' },
  schema: JSON.stringify(schema),
});

async function unfit(schemas: EventSchemas, tenantId: string, eventType: string, data: object): Promise<unknown> {
  const events = [{ eventType, data: Buffer.from(JSON.stringify(data)) }];
  const error = await schemas.of(tenantId).unfit([{ events, eventsAt: undefined }]);
  return error?.code;
}

test('of compiled schemas those that were needed last are kept, as far as the bytes of a tenant go', async () => {
  const catalog = new MapCatalog();
  const schemas = new EventSchemas(catalog, new CheckThread());
  const set = (tenantId: string, eventType: string, schema: object): void =>
    catalog.set('eventType', eventTypeId(tenantId, eventType), entityOf(tenantId, eventType, schema));
  const types = Array.from({ length: 60 }, (_, i) => `t${i}`);
  for (const type of types) set('large', type, { properties: { name: { pattern: `^${letters(80)}${type}$` } } });
  set('small', 'a', { required: ['n'] });
  assert.equal(await unfit(schemas, 'small', 'a', {}), 'SCHEMA_VIOLATION');
  const small = schemas.bytes;
  for (let round = 0; round < 2; round++)
    for (const type of types) {
      assert.equal(await unfit(schemas, 'large', type, { name: 'x' }), 'SCHEMA_VIOLATION');
      assert.equal(await unfit(schemas, 'large', type, { name: `${'ä'.repeat(80)}${type}` }), undefined);
    }
  assert.ok(schemas.bytes > 15 * MIB && schemas.bytes < 16 * MIB + small, `${schemas.bytes} bytes`);
  for (const type of types) set('large', type, {});
  assert.equal(schemas.bytes, small, 'what was replaced is gone');
  catalog.set('eventType', eventTypeId('small', 'a'), undefined);
  assert.equal(schemas.bytes, 0);
});

test('large events are checked by a thread of their own, and what comes behind them waits for it', async (t) => {
  const catalog = new MapCatalog();
  const thread = new CheckThread();
  t.after(() => thread.close());
  const schemas = new EventSchemas(catalog, thread);
  catalog.set('eventType', eventTypeId('t', 'wide'), entityOf('t', 'wide', { maxProperties: 49_999 }));
  const ask = (data: object) =>
    schemas
      .of('t')
      .unfit([{ events: [{ eventType: 'wide', data: Buffer.from(JSON.stringify(data)) }], eventsAt: undefined }]);
  assert.equal(ask({}), undefined, 'what is small is known at once');
  const members = (count: number): object => Object.fromEntries(Array.from({ length: count }, (_, i) => [`m${i}`, 0]));
  const order: string[] = [];
  const noted = async (name: string, answer: ReturnType<typeof ask>): Promise<string | undefined> => {
    const error = await answer;
    order.push(name);
    return error?.code;
  };
  const large = ask(members(50_000));
  assert.ok(large instanceof Promise);
  const small = ask({});
  assert.ok(small instanceof Promise, 'it does not overtake');
  // Nor where the tenant's last schema is gone meanwhile.
  catalog.set('eventType', eventTypeId('t', 'wide'), undefined);
  assert.ok(ask({}) instanceof Promise);
  catalog.set('eventType', eventTypeId('t', 'wide'), entityOf('t', 'wide', { maxProperties: 49_999 }));
  assert.deepEqual(
    await Promise.all([noted('large', large), noted('small', small), noted('fits', ask(members(49_999)))]),
    ['SCHEMA_VIOLATION', undefined, undefined],
  );
  assert.deepEqual(order, ['large', 'small', 'fits']);
  await until(() => ask({}) === undefined);
});

test('large checks that wait when the service ends are refused, and say so', async () => {
  const thread = new CheckThread();
  const data = Buffer.from(JSON.stringify({ list: Array(100_000).fill(0) }));
  const asked = Array.from({ length: 3 }, () => thread.check('t', '{}', data, '/data'));
  const refused = Promise.allSettled(asked);
  await thread.close();
  const outcomes = await refused;
  // The first may have been done.
  for (const outcome of outcomes.slice(1))
    assert.match(outcome.status === 'rejected' ? String(outcome.reason) : 'done', /the service is ending/);
  await assert.rejects(thread.check('t', '{}', data, '/data'), /the service is ending/);
});

test('a schema that a thread of checks can not use is told as such, and the thread goes on', async (t) => {
  const thread = new CheckThread();
  t.after(() => thread.close());
  await assert.rejects(
    thread.check('t', '{"type":"nothing"}', Buffer.from('{}'), '/data'),
    /is not one that can be used/,
  );
  assert.deepEqual(await thread.check('t', '{"type":"object"}', Buffer.from('{}'), '/data'), { kind: 'fits' });
  const costly = JSON.stringify({ properties: { list: { items: { allOf: Array(500).fill({ minimum: 0 }) } } } });
  const data = Buffer.from(JSON.stringify({ list: Array(1000).fill(1) }));
  assert.deepEqual(await thread.check('t', costly, data, '/data'), { kind: 'too_costly' });
});

test('tenants take turns at the thread of checks, however much one of them asks for', async (t) => {
  const thread = new CheckThread();
  t.after(() => thread.close());
  const order: string[] = [];
  const asked = ['loud', 'loud', 'loud', 'calm', 'third', 'calm'].map(async (tenantId) => {
    await thread.check(tenantId, '{}', Buffer.from('{}'), '/data');
    order.push(tenantId);
  });
  await Promise.all(asked);
  assert.deepEqual(order, ['loud', 'calm', 'third', 'loud', 'calm', 'loud']);
});

test('a check that takes too long is ended and told as such, and those of others go on', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const thread = new CheckThread();
  t.after(() => thread.close());
  // Of some hundred milliseconds.
  const slow = Buffer.from(JSON.stringify(Array(1_200_000).fill({})));
  const [loud, calm] = [thread.check('loud', '{}', slow, '/data'), thread.check('calm', '{}', slow, '/data')];
  const refused = assert.rejects(loud, { code: 'UNAVAILABLE', message: /took longer than it may/ });
  const deadline = 5_000 + (5_000 * slow.length) / MIB;
  t.mock.timers.tick(deadline - 1);
  // It waited for the other one for too long.
  await assert.rejects(calm, { code: 'RATE_LIMITED', message: /at other tenants' work/ });
  const next = thread.check('calm', '{}', Buffer.from('{}'), '/data');
  t.mock.timers.tick(1);
  await refused;
  assert.deepEqual(await next, { kind: 'fits' });
});

test('data that takes more memory than a thread of checks has is too costly, and the next is checked by another', async (t) => {
  const thread = new CheckThread({ maxOldGenerationSizeMb: 10, maxYoungGenerationSizeMb: 2 });
  t.after(() => thread.close());
  const data = Buffer.from(JSON.stringify({ list: Array(400_000).fill({ n: 0.5 }) }));
  const [large, small] = await Promise.all([
    thread.check('t', '{}', data, '/data'),
    thread.check('t', '{"required":["n"]}', Buffer.from('{}'), '/data'),
  ]);
  assert.deepEqual(large, { kind: 'too_costly' });
  assert.deepEqual(small, { kind: 'unfit', violations: [{ pointer: '/data/n', message: 'is required' }] });
});

test('patterns whose classes are many megabytes together are refused', () => {
  const schema = (patterns: number): object => ({
    properties: Object.fromEntries(Array.from({ length: patterns }, (_, i) => [`p${i}`, { pattern: letters(90) + i }])),
  });
  assert.ok(new JsonSchema(schema(5)).bytes > 2 * MIB);
  assert.throws(() => new JsonSchema(schema(10)), /too much with the patterns before it/);
});

test('a schema that is one too many names the quota, what there is, and what may be', async () => {
  const catalog = new MapCatalog();
  for (let i = 0; i < 500; i++)
    catalog.set('eventType', eventTypeId('acme', `t${i}`), entityOf('acme', `t${i}`, { required: ['n'] }));
  const none = (): Promise<never> => Promise.reject(new Error('not asked'));
  const types = new EventTypeService({
    ...{ catalog, tenants: { inspection: none, aggregateSource: none }, ownersKnow: none, large: new CheckThread() },
    ...{ deadlineMs: 1000, clock: systemClock },
  });
  await assert.rejects(types.put('acme', 'more', {}), {
    code: 'QUOTA_EXCEEDED',
    details: { quota: 'eventSchemas', usage: 500, limit: 500 },
  });
});
