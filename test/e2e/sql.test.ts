// SQL of a tenant over its events and states: formats, views, parameters, its own writes, rights, and what goes with a projection.
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { TABLES } from '../../src/read-store/clickhouse/table-definitions.js';
import { isRefused, StatefoldClient } from '../../packages/client/src/index.js';
import { AS_ADMIN, API_KEY, startService, temporaryDirectory, until, type Answer } from '../support/service.js';
import { admin, Api, success, type Problem, problem } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { tally, totals } from '../support/csharp.js';
import { noJail } from '../hostile/escape-world.js';

/** Texts that the engine takes for times, with what they are. */
const TAKEN_FOR_TIMES: readonly (readonly [text: string, time: string | null])[] = [
  ['2026-03-01T12:00', '2026-03-01 12:00:00.0000000'],
  ['2026-03-01', '2026-03-01 00:00:00.0000000'],
  ['2026-03-01 12:00:00', '2026-03-01 12:00:00.0000000'],
  ['2026-03-01T23:59:59.1234567+02:00', '2026-03-01 21:59:59.1234567'],
  ['2026-03-01T00:30:00-0130', '2026-03-01 02:00:00.0000000'],
  ['1969-12-31T23:59:59.9Z', '1969-12-31 23:59:59.9000000'],
  ['9999-12-31T23:59:59.9999999', '9999-12-31 23:59:59.9999999'],
  ...[
    ...['2026-03-01T25:61:61', '2026-03-01T24:00:00Z', '2026-03-01T12:60:00Z', '2026-03-01T12:00:60Z'],
    ...['2026-03-01T12:00:00+02:60', '2026-03-01T12:00:00-24:00', 'Jan 31 2026', '2026/01/31'],
  ].map((text) => [text, null] as const),
];

test('SQL of a tenant', { skip: noJail }, async (t) => {
  const service = await startService(t, { readStore: true });
  const api = new Api(service);
  const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
  await api.readStoreAccess();
  let position = 0;
  const append = async (aggregateId: string, data: object): Promise<void> => {
    const answer = success(await api.post('/events', { aggregateId, eventType: 'Flown', data }), 201);
    position = Number(answer.headers.get('statefold-position'));
  };
  const appendRaw = async (aggregateId: string, data: string): Promise<void> => {
    const answer = await service.request('POST', '/events', {
      key: API_KEY,
      headers: { 'Content-Type': 'application/json' },
      raw: `{"aggregateId":"${aggregateId}","eventType":"Flown","data":${data}}`,
    });
    position = Number(success(answer, 201).headers.get('statefold-position'));
  };
  const sql = (query: string, more: object = {}): Promise<Answer> =>
    api.post(`/sql?waitFor=${position}&waitSeconds=30`, { query, format: 'TSV', ...more });
  const rows = async (query: string, more?: object): Promise<string> => success(await sql(query, more), 200).text;

  await t.test(
    'before the first event there are no rows; the owner of the service finds the tables as soon as it may ask',
    async () => {
      assert.equal(await rows('SELECT count() FROM events'), '0\n');
      const { url, user, password, database } = await api.readStoreAccess();
      const headers = { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password };
      for (const table of TABLES) {
        const body = `SELECT count() FROM ${table}`;
        const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body });
        assert.match(await answer.text(), /^\d+\n$/, table);
      }
    },
  );

  await t.test('each event once, as soon as its position is waited for', async () => {
    for (let n = 1; n <= 8; n++) {
      await append(`trip-${n % 3}`, {
        key: n % 2 === 0 ? 'even' : 'odd',
        n,
        origin: { code: n > 4 ? 'DTW' : 'LAS' },
        legs: [n],
      });
      assert.equal(await rows('SELECT count(), uniqExact(event_id) FROM events'), `${n}\t${n}\n`);
    }
  });

  await t.test('a view by aggregate type, whose columns need no casts', async () => {
    assert.equal(
      await rows(
        'SELECT `origin.code` AS origin, sum(n), max(legs[1]) FROM trip_events GROUP BY origin ORDER BY origin',
      ),
      'DTW\t26\t8\nLAS\t10\t4\n',
    );
    assert.match(await rows('DESCRIBE trip_events'), /^n\tNullable\(Int64\)/m);
    await append('trip-1', { n: 0.5, late: true });
    assert.equal(await rows('SELECT sum(n), countIf(late) FROM trip_events'), '36.5\t1\n', 'it follows the data');
  });

  await t.test('whoever goes away in the middle of an answer leaves nothing open', async () => {
    const open = (): number =>
      readdirSync(`/proc/${service.pid}/fd`).filter((fd) => {
        try {
          return readlinkSync(`/proc/${service.pid}/fd/${fd}`).includes('/sql/');
        } catch {
          return false;
        }
      }).length;
    for (let i = 0; i < 2; i++) {
      const gone = new AbortController();
      const answer = await fetch(`${service.url}/sql`, {
        method: 'POST',
        headers: { 'X-API-Key': API_KEY, 'Content-Type': 'application/json' },
        body: JSON.stringify({ query: "SELECT repeat('x', 1000) FROM numbers(500000)", format: 'TSV' }),
        signal: gone.signal,
      });
      await answer.body?.getReader().read();
      assert.ok(open() > 0);
      gone.abort();
      await until(() => open() === 0);
    }
  });

  await t.test('views of states, of a reducer and of a projection', async () => {
    await api.deployReducer({ 'Tally.cs': tally('trip') });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    await append('trip-1', { key: 'odd', n: 100 });
    // States follow their events, by a moment.
    await until(async () => (await rows('SELECT sum(count) FROM trip_states')) === '10\n');
    assert.equal(
      await rows('SELECT aggregate_id, count, last FROM trip_states ORDER BY aggregate_id LIMIT 1'),
      'trip-0\t2\tFlown\n',
    );
    await until(async () => (await rows('SHOW TABLES')).includes('totals_states'));
    await until(async () => (await rows("SELECT total FROM totals_states WHERE key = 'odd'")).startsWith('116'));

    success(await api.delete(`/projections/${projectionId}`), 204);
    // A statement that runs while rows are removed may be answered 503.
    await until(async () => (await sql('SELECT count() FROM projection_states')).text === '0\n');
    assert.equal(await rows('SELECT count() FROM notifications'), '0\n');
    assert.equal(await rows('SELECT count() FROM events'), '10\n');
  });

  await t.test('states have the columns that their types in C# say, also before there are rows', async () => {
    const deployed = async (members: string, values: string): Promise<void> => {
      await api.deployReducer({
        'Ledger.cs': `public enum Colour { Red = 1 }
[System.Text.Json.Serialization.JsonConverter(typeof(System.Text.Json.Serialization.JsonStringEnumConverter))] public enum Size { Small, Large }
public sealed record Owner(string Name, Owner? Parent);
public sealed record Ledger(${members});
[AggregateType("ledger")] public sealed class LedgerReducer : IReducer<Ledger> { public Ledger? Apply(Ledger? state, Event e) => new Ledger(${values}); }`,
      });
    };
    const columns = async (): Promise<string[]> =>
      (await rows('DESCRIBE ledger_states')).split('\n').map((line) => line.split('\t').slice(0, 2).join(' '));
    await deployed(
      'long Count, ulong Huge, double Share, decimal Cents, bool Open, string Text, string? Note, int? Maybe, Colour Colour, Size Size, DateTimeOffset At, DateOnly Day, Guid Id, int[] Numbers, List<string?> Names, Dictionary<string, long> ByKey, Owner Owner, object? Any',
      '3, 18446744073709551615, 2, 12345678.91m, true, "2026-03-01", null, null, Colour.Red, Size.Large, new DateTimeOffset(2026, 3, 1, 12, 0, 0, TimeSpan.FromHours(2)), new DateOnly(2026, 3, 1), new Guid("0190f3c2-7b1e-7c3a-9d55-0c1f2a3b4c5d"), [1, 2], ["a", null], new() { ["x.y"] = 7 }, new Owner("Ada", null), "seen"',
    );
    assert.deepEqual((await columns()).slice(3, -1), [
      'count Nullable(Int64)',
      'huge Nullable(UInt64)',
      'share Nullable(Float64)',
      'cents Nullable(Decimal(38, 10))',
      'open Nullable(Bool)',
      'text Nullable(String)',
      'note Nullable(String)',
      'maybe Nullable(Int64)',
      'colour Nullable(Int64)',
      'size Nullable(String)',
      "at Nullable(DateTime64(7, \\'UTC\\'))",
      'day Nullable(Date32)',
      'id Nullable(UUID)',
      'numbers Array(Int64)',
      'names Array(Nullable(String))',
      'byKey Map(String, Int64)',
      'owner.name Nullable(String)',
    ]);
    assert.equal(await rows('SELECT count() FROM ledger_states'), '0\n');
    await append('ledger-1', {});
    const all =
      "SELECT count, huge, share, cents, open, text, note, maybe, colour, size, toTimeZone(at, 'UTC'), day, id, numbers, names, byKey['x.y'], `owner.name`, any FROM ledger_states";
    const row =
      "3\t18446744073709551615\t2\t12345678.91\ttrue\t2026-03-01\t\\N\t\\N\t1\tLarge\t2026-03-01 10:00:00.0000000\t2026-03-01\t0190f3c2-7b1e-7c3a-9d55-0c1f2a3b4c5d\t[1,2]\t['a',NULL]\t7\tAda\tseen\n";
    await until(async () => (await rows('SELECT count() FROM ledger_states')) === '1\n');
    assert.equal(await rows(all), row);
    assert.equal(
      await rows('SELECT day, sum(cents) FROM ledger_states GROUP BY day HAVING sum(cents) = 12345678.91'),
      '2026-03-01\t12345678.91\n',
    );
    await deployed('string Count', '"many"');
    await until(async () => (await rows('SELECT count FROM ledger_states')) === 'many\n');
    assert.ok((await columns()).includes('count Nullable(String)'), 'it follows the code');
  });

  await t.test('formats, by the body and by the statement', async () => {
    const json = await sql('SELECT 1 AS one', { format: 'JSON' });
    assert.match(json.headers.get('content-type') ?? '', /^application\/json/);
    assert.deepEqual(json.json<{ data: unknown }>().data, [{ one: 1 }]);
    assert.equal(await rows('SELECT 1 AS one FORMAT CSVWithNames'), '"one"\n1\n');
    assert.match(await rows('SELECT n FROM trip_events FORMAT Parquet'), /^PAR1/);
    assert.equal((await rows('SELECT number FROM numbers(300000)')).split('\n').length, 300_001);
    assert.equal((await api.post('/sql', { query: 'SELECT 1', format: 'No; such' })).status, 400);
    const unknown = (await sql('SELECT 1', { format: 'Nonesuch' })).json<Problem>();
    assert.deepEqual([unknown.code, unknown['clickhouseCode']], ['SQL_REFUSED', 73]);
  });

  await t.test('a number that was rounded on its way is refused, and a format of its own gives no rows', async () => {
    const query = 'SELECT {x:UInt64} AS x';
    for (const x of [2 ** 53, -(2 ** 60)])
      problem(await api.post('/sql', { query, parameters: { x } }), 400, 'INVALID_REQUEST');
    const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    assert.deepEqual(await client.sql('SELECT toString({x:UInt64}) AS x', { parameters: { x: '9007199254740993' } }), [
      { x: '9007199254740993' },
    ]);
    await assert.rejects(client.sql('SELECT 1 AS a FORMAT CSV'), /ends with FORMAT CSV.*sqlText/);
  });

  await t.test('parameters', async () => {
    const parameters = { code: "D'T\\W", n: 3, yes: true };
    assert.equal(
      await rows("SELECT {code:String} = 'D\\'T\\\\W', {n:Int32} + 1, {yes:Bool}", { parameters }),
      '1\t4\ttrue\n',
    );
    const missing = (await sql('SELECT {absent:String}')).json<Problem>();
    assert.deepEqual([missing.code, missing['clickhouseCode']], ['SQL_REFUSED', 456]);
  });

  await t.test('a rebuild of the read store is seen', async () => {
    success(await api.post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
    await until(async () => (await rows('SELECT count(), uniqExact(event_id) FROM events')) === '11\t11\n');
  });

  await t.test('a rebuild of the read store is called off', async () => {
    const cancel = (query = ''): Promise<Answer> =>
      api.request('DELETE', `/admin/read-store/rebuild${query}`, AS_ADMIN);
    const rebuild = async (): Promise<{ state: string; url: string }> => {
      const activity = success(await api.get('/admin/processes/activity', AS_ADMIN), 200);
      const { url, readStoreRebuild } = activity.json<{ url: string; readStoreRebuild: { state: string } }>();
      return { url, ...readStoreRebuild };
    };
    await until(async () => (await rebuild()).state === 'done');
    problem(await cancel(), 409, 'NO_REBUILD');
    problem(await cancel('?url=http://nowhere'), 404, 'NOT_FOUND');
    for (const query of ['', `?url=${encodeURIComponent((await rebuild()).url)}`]) {
      success(await api.post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
      success(await cancel(query), 204);
      assert.equal((await rebuild()).state, 'cancelled');
    }
    assert.equal(await rows('SELECT count(), uniqExact(event_id) FROM events'), '11\t11\n');
    const { entries } = success(await api.get('/admin/audit?action=read-store.cancel-rebuild', AS_ADMIN), 200).json<{
      entries: { outcome: string }[];
    }>();
    assert.deepEqual(entries.map(({ outcome }) => outcome).sort(), ['done', 'done', 'refused', 'refused']);
  });

  await t.test('a key without the scope, and a wait that is too short', async () => {
    const key = success(await admin(service, 'POST', '/admin/tenants/default/keys', { scopes: ['read'] }), 201).json<{
      apiKey: string;
    }>().apiKey;
    assert.equal((await new Api(service, key).post('/sql', { query: 'SELECT 1' })).json<Problem>().code, 'FORBIDDEN');
    const early = await api.post(`/sql?waitFor=${position * 1000}&waitSeconds=0`, { query: 'SELECT 1' });
    assert.equal(early.json<Problem>().code, 'NOT_CAUGHT_UP');
  });

  await t.test('names that no column can have take nothing else away', async () => {
    await append('odd-1', { a: { '': 1 }, '.b': 2, '.': 3, '`': 4, 'x\\': 5, "'": 6, plain: 7 });
    await append('wide-1', Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`${i}`.padEnd(199, 'x'), i])));
    assert.equal(await rows("SELECT count() FROM events WHERE aggregate_type = 'odd'"), '1\n');
    assert.equal(await rows('SELECT plain FROM odd_events'), '7\n');
    assert.equal(await rows('SELECT count() FROM wide_events'), '1\n');
  });

  await t.test('names that the engine has a use for are columns', async () => {
    await append('syntax-1', { ':`Int64`': 1, 'a.:`x`': 2, '^`a`': { z: 3 }, 'a\0b': 4, '`list': [5], plain: 6 });
    assert.equal(
      await rows(
        String.raw`SELECT ${'`:\\`Int64\\``'}, ${'`a.:\\`x\\``'}, ${'`^\\`a\\`.z`'}, ${'`a\\0b`'}, ${'`\\`list`'}, plain FROM syntax_events`,
      ),
      '1\t2\t3\t4\t[5]\t6\n',
    );
  });

  await t.test('a member that is named as a column, or as the table of a view, is not taken for it', async () => {
    const data = {
      aggregate_type: 'a',
      data_raw: 'b',
      tenant: 'c',
      source: { aggregate_type: 'd' },
      'source.data': 'e',
    };
    await append('named-1', { ...data, aggregate_id: 'f', plain: 7 });
    assert.equal(
      await rows(
        'SELECT aggregate_id, `data.aggregate_id`, aggregate_type, data_raw, tenant, `source.aggregate_type`, `source.data`, plain FROM named_events',
      ),
      'named-1\tf\ta\tb\tc\td\te\t7\n',
    );
    await api.deployReducer({
      'Named.cs': `using System.Text.Json.Serialization;
public sealed record Named([property: JsonPropertyName("state_raw")] string? Raw, [property: JsonPropertyName("aggregate_type")] string Type, [property: JsonPropertyName("n")] decimal N);
[AggregateType("named")] public sealed class NamedReducer : IReducer<Named> { public Named? Apply(Named? state, Event e) => e.EventType == "Gone" ? null : new Named(null, "x", 1.5m); }`,
    });
    await until(
      async () => (await rows('SELECT count(), any(aggregate_type), any(n) FROM named_states')) === '1\tx\t1.5\n',
    );
    success(await api.post('/events', { aggregateId: 'named-1', eventType: 'Gone', data: {} }), 201);
    // A state that is gone is not counted.
    await until(async () => (await rows('SELECT count() FROM named_states')) === '0\n');
  });

  await t.test('of types whose views would have one name the older one keeps it', async () => {
    await append('clashName-1', { n: 1 });
    assert.equal(await rows('SELECT n FROM clash_name_events'), '1\n');
    await append('ClashName-1', { n: 2 });
    assert.equal(await rows('SELECT n FROM clash_name_events'), '1\n');
    assert.equal(await rows('SELECT n FROM clash_name_events_2'), '2\n');
  });

  await t.test('an event of very many members takes no column from the others', async () => {
    for (let n = 1; n <= 3; n++) await append(`usual-${n}`, { zebra: n, origin: { code: 'LAS' } });
    await append('usual-4', Object.fromEntries(Array.from({ length: 3_000 }, (_, i) => [`a${i}`, i])));
    assert.equal(await rows('SELECT sum(zebra), any(`origin.code`) FROM usual_events'), '6\tLAS\n');
    assert.ok((await rows('DESCRIBE usual_events')).split('\n').length > 500, 'others are there besides');
  });

  await t.test('texts that look like times are given back as they were, where others are beside them', async () => {
    const texts = ['2026-01-31T09:30:00+02:00', '2026-01-31', '2026-01-31 09:30:00.50', 'soon', '12', '\\'];
    for (const [n, text] of texts.entries())
      await append(`noted-${n}`, { text, 'dotted.text': text, within: { text }, list: [text, n === 3 ? 1 : text] });
    const answer = await sql(
      'SELECT text, `dotted.text` AS dotted, `within.text` AS within, list FROM noted_events ORDER BY aggregate_id',
      { format: 'JSONEachRow' },
    );
    const found = success(answer, 200)
      .text.trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string>);
    for (const [n, text] of texts.entries()) {
      const { list, ...others } = found[n] ?? {};
      assert.deepEqual(others, { text, dotted: text, within: text });
      assert.deepEqual(JSON.parse(list ?? ''), [text, n === 3 ? 1 : text]);
    }
  });

  await t.test('numbers of several types are of one that has room for them', async () => {
    await append('mixed-1', { whole: -1, all: 2 ** 53 });
    await appendRaw('mixed-2', '{"whole":18446744073709551615,"all":0.5}');
    await append('mixed-3', { all: 1 });
    assert.equal(
      await rows('SELECT min(whole), max(whole), min(all), max(all) FROM mixed_events'),
      '-1\t18446744073709551615\t0.5\t9007199254740992\n',
    );
  });

  await t.test(
    'values that a column has no room for are NULL, and types of the tenant with the names of others are their own',
    async () => {
      await api.deployReducer({
        'Edge.cs': `[System.Flags] public enum Rights : ulong { Some = 1, All = 1ul << 63 }
public sealed record Guid(string Text);
public sealed record Edge(DateOnly First, DateTime Zero, Rights Rights, Guid Guid, Int128 Wide);
[AggregateType("edge")] public sealed class EdgeReducer : IReducer<Edge> { public Edge? Apply(Edge? state, Event e) => new Edge(DateOnly.MinValue, DateTime.MinValue, Rights.All, new Guid("own"), 5); }`,
      });
      await append('edge-1', {});
      await until(async () => (await rows('SELECT count() FROM edge_states')) === '1\n');
      assert.equal(
        await rows('SELECT first, toYear(zero), rights, `guid.text`, wide FROM edge_states'),
        '\\N\t1\t9223372036854775808\town\t5\n',
      );
    },
  );

  await t.test('a value that its declared type has no room for takes no other one with it', async () => {
    const types = [
      ...'decimal long ulong Int128 UInt128 double bool string TimeSpan TimeOnly DateTime DateTimeOffset'.split(' '),
      ...'DateOnly Guid Colour Rights'.split(' '),
    ];
    const members = types.map((type, n) => `${type} V${n}, List<${type}> L${n}, Dictionary<string, ${type}?> D${n}`);
    await api.deployReducer({
      'Stored.cs': `public enum Colour { Red = 1 }
[System.Flags] public enum Rights : ulong { Some = 1 }
public sealed record Stored(${members.join(', ')});
[AggregateType("stored")] public sealed class StoredReducer : IReducer<Stored> { public Stored? Apply(Stored? state, Event e) => state; }`,
    });
    // Rows as code of another revision could have left them.
    const { url, user, password, database } = await api.readStoreAccess();
    const store = async (id: string, value: string): Promise<void> => {
      const state = types.map((_, n) => `"v${n}":${value},"l${n}":[${value}],"d${n}":{"k":${value}}`).join(',');
      const row = {
        tenant: 'default',
        aggregate_type: 'stored',
        aggregate_id: id,
        version: 1,
        state_raw: `{${state}}`,
      };
      const body = `INSERT INTO aggregate_states FORMAT JSONEachRow ${JSON.stringify(row)}`;
      const headers = { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password };
      const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body });
      assert.equal(answer.status, 200, await answer.text());
    };
    await store('fine', '2.5');
    const odd = [
      '1.5e30',
      '-1e300',
      '1e-300',
      '7e28',
      '-1',
      '18446744073709551616',
      '1e400',
      'null',
      'true',
      '{"a":1e300}',
      '[1e300]',
    ];
    const texts = [
      '',
      'x',
      '1e99',
      '9999-99-99',
      '0000-00-00T00:00:00Z',
      '2026-03-01T25:61:61',
      '0190f3c2',
      '99999999999.10:00:00',
    ];
    for (const [n, value] of [...odd, ...texts.map((text) => JSON.stringify(text))].entries())
      await store(`odd-${n}`, value);
    const all = success(await sql('SELECT * FROM stored_states', { format: 'JSONEachRow' }), 200).text;
    assert.equal(all.trimEnd().split('\n').length, 1 + odd.length + texts.length);
    assert.equal(
      await rows("SELECT v0, l0, d0 FROM stored_states WHERE aggregate_id IN ('fine', 'odd-0') ORDER BY aggregate_id"),
      "2.5\t[2.5]\t{'k':2.5}\n\\N\t[NULL]\t{'k':NULL}\n",
    );
    const times: readonly (readonly [string, string | null])[] = [
      ...TAKEN_FOR_TIMES,
      ['1969-12-31', '1969-12-31 00:00:00.0000000'],
      ['1800-01-01T00:00:00+01:00', '1799-12-31 23:00:00.0000000'],
      ['2107-01-01T00:00:00Z', '2107-01-01 00:00:00.0000000'],
      ...['2026-02-30T12:00:00Z', '2026-03-00', '12'].map((text) => [text, null] as const),
    ];
    for (const [n, [text]] of times.entries()) await store(`time-${n + 10}`, JSON.stringify(text));
    const [dateTime, offset] = [types.indexOf('DateTime'), types.indexOf('DateTimeOffset')];
    const read = await sql(
      `SELECT v${dateTime} AS local, v${offset} AS zoned FROM stored_states WHERE startsWith(aggregate_id, 'time-') ORDER BY aggregate_id`,
      { format: 'JSONEachRow' },
    );
    assert.deepEqual(
      success(read, 200)
        .text.trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
      times.map(([, time]) => ({ local: time, zoned: time })),
    );
  });

  await t.test('what no type is declared of is a time by the same rule', async () => {
    const at = (text: string): object => ({
      at: text,
      dotted: { at: text, all: [text] },
      '^at': text,
      list: [text],
      lists: [[text]],
    });
    for (const [n, [text]] of TAKEN_FOR_TIMES.entries()) await append(`moment-${n + 10}`, at(text));
    const read = async (): Promise<unknown[]> =>
      success(
        await sql(
          'SELECT at, `dotted.at` AS dotted, `dotted.all` AS all, `^at` AS odd, list, lists FROM moment_events ORDER BY aggregate_id, version',
          { format: 'JSONEachRow' },
        ),
        200,
      )
        .text.trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown);
    assert.deepEqual(
      await read(),
      TAKEN_FOR_TIMES.map(([text, time]) => ({
        ...{ at: time, dotted: time, all: [text], odd: time, list: [text], lists: [[text]] },
      })),
    );
    // One that the engine takes for none: all are as they were written.
    await append('moment-0', at('soon'));
    assert.deepEqual(
      await read(),
      ['soon', ...TAKEN_FOR_TIMES.map(([text]) => text)].map((text) => ({
        ...{ at: text, dotted: text, all: [text], odd: text, list: [text], lists: [[text]] },
      })),
    );
  });

  await t.test('a number among times under a name that the engine has a use for takes nothing with it', async () => {
    await appendRaw('timed-1', '{"^at":"2026-03-01T12:00:00.5Z","plain":1}');
    // The engine takes no column of a path that is there twice, so the view goes by what others have.
    await appendRaw('timed-2', '{"^at":1e300,"a":1,"a":2}');
    assert.equal(
      await rows('SELECT `^at`, plain FROM timed_events ORDER BY aggregate_id'),
      '2026-03-01 12:00:00.5000000\t1\n\\N\t\\N\n',
    );
  });

  await t.test('an integer past 64 bits takes no value of its row with it that the JSON column has', async () => {
    await appendRaw('long-1', '{"n":1}');
    await appendRaw('long-2', '{"n":123456789012345678901234567890,"plain":7,"^odd":8}');
    assert.equal(
      await rows('SELECT n, plain, `^odd` FROM long_events ORDER BY aggregate_id'),
      '1\t\\N\t\\N\n1.2345678901234568e29\t7\t\\N\n',
    );
    await api.deployReducer({
      'Long.cs': `public sealed record Long(decimal Most, decimal Plain, int Count, string? Text, DateTime At, List<decimal> All);
[AggregateType("long")] public sealed class LongReducer : IReducer<Long> { public Long? Apply(Long? state, Event e) => new Long(decimal.MaxValue, 1.5m, 3, "x", new DateTime(2026, 3, 1), [decimal.MinValue, 2.5m]); }`,
    });
    await until(async () => (await rows('SELECT count() FROM long_states')) === '2\n');
    assert.equal(
      await rows('SELECT most, plain, count, text, toYear(at), `all` FROM long_states LIMIT 1'),
      '\\N\t\\N\t3\tx\t\\N\t[]\n',
    );
  });

  await t.test('by the client', async () => {
    const found = await client.sql<{ origin: string; n: number }>(
      'SELECT `origin.code` AS origin, count() AS n FROM trip_events WHERE origin = {origin:String} GROUP BY origin',
      { parameters: { origin: 'DTW' }, waitFor: position },
    );
    assert.deepEqual(found, [{ origin: 'DTW', n: 4 }]);
    await assert.rejects(
      client.sql('SELECT * FROM nowhere'),
      (error) => isRefused(error, 'SQL_REFUSED') && error.problem['clickhouseCode'] === 60,
    );
  });

  await t.test('by the command line', async () => {
    const folder = temporaryDirectory(t);
    const env = { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY };
    const file = join(folder, 'report.sql');
    writeFileSync(file, 'SELECT count() AS n FROM trip_events WHERE `origin.code` = {origin:String}');
    assert.deepEqual(await statefold(env, folder, 'sql', '--tenant', '--file', file, '--parameter', 'origin=LAS'), {
      code: 0,
      out: 'n\n4\n',
      err: '',
    });
    assert.match(
      (await statefold(env, folder, 'sql', '--tenant', 'SELECT * FROM nowhere')).err,
      /Code: 60\. DB::Exception/,
    );
    const broken = await statefold(env, folder, 'sql', '--tenant', 'SELECT number FROM numbers(3000000)');
    assert.equal(broken.code, 1);
    assert.match(broken.err, /Code: 396/);
    assert.match((await statefold(env, folder, 'sql', '--tenant', 'SELECT 1', '--file', file)).err, /not both/);
  });
});
