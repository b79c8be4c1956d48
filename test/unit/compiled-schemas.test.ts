import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventTypeEntity } from '../../src/catalog/catalog.js';
import { EventSchemas, eventTypeId } from '../../src/event-schemas/event-schemas.js';
import { JsonSchema } from '../../src/event-schemas/json-schema.js';
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
  const schemas = new EventSchemas(catalog);
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

test('an event with very many members is parsed and checked in two rounds of the event loop', async () => {
  const catalog = new MapCatalog();
  const schemas = new EventSchemas(catalog);
  catalog.set('eventType', eventTypeId('t', 'wide'), entityOf('t', 'wide', { maxProperties: 49_999 }));
  assert.equal(await unfit(schemas, 't', 'wide', {}), undefined);
  const data = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`m${i}`, 0]));
  const events = [{ eventType: 'wide', data: Buffer.from(JSON.stringify(data)) }];
  const error = schemas.of('t').unfit([{ events, eventsAt: undefined }]);
  assert.ok(error instanceof Promise, 'it is parsed now, and checked later');
  assert.equal((await error)?.code, 'SCHEMA_VIOLATION');
});

test('patterns whose classes are many megabytes together are refused', () => {
  const schema = (patterns: number): object => ({
    properties: Object.fromEntries(Array.from({ length: patterns }, (_, i) => [`p${i}`, { pattern: letters(90) + i }])),
  });
  assert.ok(new JsonSchema(schema(5)).bytes > 2 * MIB);
  assert.throws(() => new JsonSchema(schema(10)), /too much with the patterns before it/);
});
