import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import type { AggregateStateRow, EventRow, NotificationRow, ReadStore } from '../../src/read-store/read-store.js';
import { jsonLines } from '../support/json-lines.js';

/** `rejections`: the rows that the store has left out so far, for the duty that one bad row never stops the others. */
export interface ReadStoreUnderTest {
  readonly store: ReadStore;
  readonly rejections: () => number;
}

export const eventRow = (
  tenant: string,
  aggregateId: string,
  version: number,
  data = '{}',
  more: Partial<EventRow> = {},
): EventRow => ({
  tenant,
  aggregate_type: 'account',
  aggregate_id: aggregateId,
  version,
  event_id: randomUUID(),
  event_type: 'changed',
  timestamp: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  correlation_id: '',
  causation_id: '',
  data: Buffer.from(data),
  metadata: null,
  log_offset: version * 10,
  ...more,
});

/** What clients may send and the JSON type of ClickHouse may not take; `taken` is what analysts see. */
export const NASTY: readonly { readonly name: string; readonly json: string; readonly taken?: string }[] = [
  { name: 'whitespace and 1.0', json: ' {\t"a" : 1.0 }\r\n', taken: '{"a":1}' },
  { name: 'duplicate keys', json: '{"a":1,"a":2}', taken: '{}' },
  { name: 'a path twice', json: '{"a.b":1,"a":{"b":2}}', taken: '{}' },
  { name: 'a literal and an object under one key', json: '{"a":1,"a":{"b":2}}' },
  {
    name: 'an integer past 64 bits',
    json: '{"a":123456789012345678901234567890,"b":"18446744073709551616\\"ü"}',
    taken: '{"a":1.2345678901234568e29,"b":"18446744073709551616\\"ü"}',
  },
  { name: 'an integer below 64 bits', json: '{"a":[-9223372036854775809]}', taken: '{"a":[-9223372036854775809]}' },
  { name: 'an integer past 64 bits and a key twice', json: '{"a":1,"a":18446744073709551616}', taken: '{}' },
  { name: 'the greatest unsigned integer', json: '{"a":18446744073709551615}', taken: '{"a":"18446744073709551615"}' },
  { name: 'a number past a double', json: '{"a":1e400}', taken: '{}' },
  { name: 'negative zero', json: '{"a":-0}' },
  { name: 'mixed arrays', json: '{"a":[1,"x",null,{"b":[1,{"c":null}]},[1,[2]],1.5]}' },
  { name: 'an empty key', json: '{"":1}', taken: '{"":1}' },
  { name: 'prototype names', json: '{"__proto__":{"x":1},"constructor":1}' },
  { name: 'escapes', json: '{"a":"\\u0000\\ud83d\\ude00\\/\\n","\\u0000":"\'`\\\\"}' },
  { name: 'bytes past ASCII', json: '{"ключ":"日本語 😀"}', taken: '{"ключ":"日本語 😀"}' },
  { name: "names of the type's own syntax", json: '{"^a":1,":b":2,"a[]":3,"a.:Int64":1,"a`b":4}' },
  { name: 'depth 64', json: `${'{"a":'.repeat(63)}{}${'}'.repeat(63)}` },
  { name: 'arrays 60 deep', json: `{"a":${'['.repeat(60)}1${']'.repeat(60)}}` },
  { name: 'depth 2,000', json: `${'{"a":'.repeat(2_000)}1${'}'.repeat(2_000)}`, taken: '{}' },
  { name: '3,000 paths', json: `{${Array.from({ length: 3_000 }, (_, i) => `"k${i}":${i}`).join()}}` },
  { name: 'a key of 70,000 characters', json: `{"${'k'.repeat(70_000)}":1}` },
  { name: 'no object', json: '[1]', taken: '{}' },
  { name: 'a long string', json: `{"a":"${'x'.repeat(900_000)}"}` },
];

/** A path twice. */
const UNREADABLE = '{"a.b":1,"a":{"b":2}}';
const WIDE_UNREADABLE = '{"a.b":18446744073709551616,"a":{"b":2}}';

/** The duties of the port. `open` gives a store whose schema is there already. */
export function readStoreContract(name: string, open: () => Promise<ReadStoreUnderTest>): void {
  describe(`read store: ${name}`, () => {
    const tenant = (): string => `t-${randomUUID()}`;
    const rows = async <T>(store: ReadStore, sql: string): Promise<T[]> => {
      const chunks: Buffer[] = [];
      for await (const chunk of await store.query(sql, 'JSONEachRow')) chunks.push(Buffer.from(chunk));
      return jsonLines(Buffer.concat(chunks).toString());
    };

    it('makes its schema again without harm, and answers a ping', async () => {
      const { store } = await open();
      const t = tenant();
      await store.insert({ table: 'events', rows: [eventRow(t, 'a', 1)] });
      await store.ensureSchema();
      assert.deepEqual(await rows(store, `SELECT count() AS n FROM events WHERE tenant = '${t}'`), [{ n: 1 }]);
      assert.equal(await store.ping(), true);
    });

    it('keeps every nasty payload byte for byte, and never stops at one (invariant 17)', async () => {
      const { store, rejections } = await open();
      const before = rejections();
      const t = tenant();
      await store.insert({
        table: 'events',
        rows: NASTY.map(({ json }, i) =>
          eventRow(t, 'a', i + 1, json, { metadata: i % 2 === 0 ? Buffer.from(json) : null }),
        ),
      });
      const read = await rows<{ version: number; raw: string; meta: string | null; data: string }>(
        store,
        `SELECT toUInt32(version) AS version, hex(data_raw) AS raw, hex(metadata_raw) AS meta, toJSONString(data) AS data FROM events FINAL WHERE tenant = '${t}' ORDER BY version`,
      );
      assert.equal(read.length, NASTY.length);
      for (const [i, { name: what, json, taken }] of NASTY.entries()) {
        assert.equal(Buffer.from(read[i]?.raw ?? '', 'hex').toString(), json, what);
        assert.equal(read[i]?.meta ?? null, i % 2 === 0 ? read[i]?.raw : null, what);
        if (taken !== undefined) assert.deepEqual(JSON.parse(read[i]?.data ?? ''), looseNumbers(taken), what);
      }
      assert.equal(rejections(), before);
    });

    it('takes what it can of each column by itself, and writes no row twice since another one is refused', async () => {
      const { store } = await open();
      const t = tenant();
      const wide = '{"a":18446744073709551616}';
      const [asFloat, nothing, plain] = ['{"a":18446744073709552000}', '{}', '{"a":1}'];
      const cases = [
        { data: plain, metadata: plain, read: [plain, plain] },
        { data: wide, metadata: UNREADABLE, read: [asFloat, nothing] },
        { data: UNREADABLE, metadata: wide, read: [nothing, asFloat] },
        { data: wide, metadata: wide, read: [asFloat, asFloat] },
        { data: wide, metadata: WIDE_UNREADABLE, read: [asFloat, nothing] },
        { data: WIDE_UNREADABLE, metadata: wide, read: [nothing, asFloat] },
        { data: WIDE_UNREADABLE, metadata: plain, read: [nothing, plain] },
        { data: plain, metadata: WIDE_UNREADABLE, read: [plain, nothing] },
        { data: WIDE_UNREADABLE, metadata: WIDE_UNREADABLE, read: [nothing, nothing] },
        { data: plain, metadata: UNREADABLE, read: [plain, nothing] },
      ];
      // What is written twice is absorbed when parts are merged.
      await rows(store, 'SYSTEM STOP MERGES events');
      try {
        await store.insert({
          table: 'events',
          rows: cases.map(({ data, metadata }, i) =>
            eventRow(t, 'a', i + 1, data, { metadata: Buffer.from(metadata) }),
          ),
        });
        assert.deepEqual(
          await rows(
            store,
            `SELECT toUInt32(version) AS version, toJSONString(data) AS data, toJSONString(metadata) AS metadata FROM events WHERE tenant = '${t}' ORDER BY version`,
          ),
          cases.map(({ read: [data, metadata] }, i) => ({ version: i + 1, data, metadata })),
        );
      } finally {
        await rows(store, 'SYSTEM START MERGES events');
      }
    });

    it('lets analysts read a path of the payload with its type', async () => {
      const { store } = await open();
      const t = tenant();
      await store.insert({
        table: 'events',
        rows: [1, 2, 3].map((n) => eventRow(t, 'a', n, `{"amount":${n}.5,"who":{"name":"n${n}"}}`)),
      });
      assert.deepEqual(
        await rows(
          store,
          `SELECT sum(data.amount::Float64) AS sum, max(data.who.name::String) AS who FROM events WHERE tenant = '${t}'`,
        ),
        [{ sum: 7.5, who: 'n3' }],
      );
    });

    it('absorbs the same rows again, and keeps the latest state of a key', async () => {
      const { store } = await open();
      const t = tenant();
      const events = [1, 2, 3].map((version) => eventRow(t, 'a', version));
      const state = (version: number): AggregateStateRow => ({
        tenant: t,
        aggregate_type: 'account',
        aggregate_id: 'a',
        version,
        state: version === 3 ? null : Buffer.from(`{"v":${version}}`),
        last_modified: version,
        log_offset: version,
      });
      const change = (sequence: number): NotificationRow => ({
        tenant: t,
        projection_id: 'p',
        class_name: 'P',
        key: 'k',
        state: Buffer.from(`{"s":${sequence}}`),
        sequence,
        last_modified: sequence,
        aggregate_id: 'a',
        aggregate_type: 'account',
        version: sequence,
        event_id: 'e',
        cause: '',
      });
      for (let again = 0; again < 2; again++) {
        await store.insert({ table: 'events', rows: events });
        for (const version of [2, 3, 1]) await store.insert({ table: 'aggregate_states', rows: [state(version)] });
        await store.insert({ table: 'notifications', rows: [change(7), change(8)] });
        for (const sequence of [8, 7]) await store.insert({ table: 'projection_states', rows: [change(sequence)] });
      }
      assert.deepEqual(
        await rows(
          store,
          `SELECT groupArray(toUInt32(version)) AS v FROM (SELECT version FROM events FINAL WHERE tenant = '${t}' ORDER BY version)`,
        ),
        [{ v: [1, 2, 3] }],
      );
      assert.deepEqual(
        await rows(store, `SELECT toUInt32(version) AS v, state_raw FROM aggregate_states FINAL WHERE tenant = '${t}'`),
        [{ v: 3, state_raw: null }],
      );
      assert.deepEqual(
        await rows(
          store,
          `SELECT toUInt32(sequence) AS s, state_raw FROM projection_states FINAL WHERE tenant = '${t}'`,
        ),
        [{ s: 8, state_raw: '{"s":8}' }],
      );
      assert.deepEqual(
        await rows(
          store,
          `SELECT toUInt32(sequence) AS s, toUnixTimestamp64Milli(last_modified)::UInt32 AS at FROM notifications FINAL WHERE tenant = '${t}' ORDER BY s`,
        ),
        [
          { s: 7, at: 7 },
          { s: 8, at: 8 },
        ],
      );
    });

    it('drops the rows of one projection, and no others', async () => {
      const { store } = await open();
      const [one, two] = [tenant(), tenant()];
      const row = (of: string, projection: string): NotificationRow => ({
        tenant: of,
        projection_id: projection,
        class_name: 'P',
        key: 'k',
        state: Buffer.from('{}'),
        sequence: 1,
        last_modified: 1,
        aggregate_id: 'a',
        aggregate_type: 'account',
        version: 1,
        event_id: 'e',
        cause: '',
      });
      for (const [of, projection] of [
        [one, 'p'],
        [one, 'q'],
        [two, 'p'],
      ] as const) {
        await store.insert({ table: 'notifications', rows: [row(of, projection)] });
        await store.insert({ table: 'projection_states', rows: [row(of, projection)] });
      }
      await store.dropProjection(one, 'p');
      for (const table of ['notifications', 'projection_states'])
        assert.deepEqual(
          await rows(
            store,
            `SELECT tenant, projection_id FROM ${table} FINAL WHERE tenant IN ('${one}', '${two}') ORDER BY tenant = '${two}'`,
          ),
          [
            { tenant: one, projection_id: 'q' },
            { tenant: two, projection_id: 'p' },
          ],
        );
    });

    it('never moves a watermark back, and forgets it with the rows of its tenant alone', async () => {
      const { store } = await open();
      const [one, two] = [tenant(), tenant()];
      assert.deepEqual(await store.watermarks(one), { events: 0, states: 0, changes: 0 });
      await store.setWatermarks([
        { tenantId: one, stream: 'events', offset: 9 },
        { tenantId: two, stream: 'changes', offset: 2 ** 45 },
      ]);
      await store.setWatermarks([{ tenantId: one, stream: 'events', offset: 7 }]);
      await store.insert({ table: 'events', rows: [eventRow(one, 'a', 1), eventRow(two, 'a', 1)] });
      assert.deepEqual(await store.watermarks(one), { events: 9, states: 0, changes: 0 });
      // A tenant that was made again under the id of a former one stands at the start.
      assert.deepEqual(await store.watermarks(one, 'f00d'), { events: 0, states: 0, changes: 0 });
      await store.setWatermarks([{ tenantId: one, incarnation: 'f00d', stream: 'events', offset: 3 }]);
      assert.deepEqual(await store.watermarks(one, 'f00d'), { events: 3, states: 0, changes: 0 });
      // Also where nothing is written yet.
      const three = tenant();
      await store.setWatermarks([{ tenantId: three, stream: 'events', offset: 0 }]);
      const known = (await store.tenants()).filter(({ tenantId }) => [one, three].includes(tenantId));
      assert.deepEqual(
        known.map(({ tenantId, incarnation }) => `${tenantId} ${incarnation ?? ''}`).sort(),
        [`${one} `, `${one} f00d`, `${three} `].sort(),
      );
      assert.deepEqual(await store.watermarks(one), { events: 9, states: 0, changes: 0 });
      await store.reset(one);
      assert.deepEqual(await store.watermarks(one), { events: 0, states: 0, changes: 0 });
      assert.deepEqual(await store.watermarks(one, 'f00d'), { events: 0, states: 0, changes: 0 });
      assert.deepEqual(await store.watermarks(two), { events: 0, states: 0, changes: 2 ** 45 });
      assert.deepEqual(await rows(store, `SELECT tenant FROM events WHERE tenant IN ('${one}', '${two}')`), [
        { tenant: two },
      ]);
      // What was deleted can be written again.
      await store.insert({ table: 'events', rows: [eventRow(one, 'a', 1)] });
      assert.equal((await rows(store, `SELECT 1 FROM events FINAL WHERE tenant = '${one}'`)).length, 1);
    });

    it('isolates the row that the engine refuses, and reports it', async () => {
      const { store, rejections } = await open();
      const t = tenant();
      await rows(store, `ALTER TABLE events ADD CONSTRAINT IF NOT EXISTS no_poison CHECK event_type != 'poison'`);
      try {
        const before = rejections();
        await store.insert({
          table: 'events',
          rows: Array.from({ length: 50 }, (_, i) =>
            eventRow(t, 'a', i + 1, '{}', { event_type: i === 17 ? 'poison' : 'fine' }),
          ),
        });
        assert.deepEqual(
          await rows(
            store,
            `SELECT count() AS n, countIf(version = 18) AS bad FROM events FINAL WHERE tenant = '${t}'`,
          ),
          [{ n: 49, bad: 0 }],
        );
        assert.equal(rejections(), before + 1);
        // When all are refused it isn't the rows' fault, and nothing may be given up.
        const all = Array.from({ length: 50 }, (_, i) => eventRow(t, 'b', i + 1, '{}', { event_type: 'poison' }));
        await assert.rejects(
          store.insert({ table: 'events', rows: all }),
          (error) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
        );
        assert.equal(rejections(), before + 1);
      } finally {
        await rows(store, 'ALTER TABLE events DROP CONSTRAINT no_poison');
      }
    });

    it("answers an analyst's mistake with ClickHouse's words", async () => {
      const { store } = await open();
      await assert.rejects(
        store.query('SELECT nope FROM events', 'JSON'),
        (error) => error instanceof StatefoldError && error.code === 'INVALID_REQUEST' && /nope/.test(error.message),
      );
    });
  });
}

/** 64-bit integers are quoted or not by a setting of the server. */
const looseNumbers = (text: string): unknown =>
  JSON.parse(text, (_, value: unknown) =>
    typeof value === 'string' && /^\d{19,}$/.test(value) ? Number(value) : value,
  );
