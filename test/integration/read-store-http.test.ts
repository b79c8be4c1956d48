import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createClient } from '@clickhouse/client';
import type { ClickHouseEndpoint } from '../../src/read-store/endpoint.js';
import { readyEngine, suiteCleanUp, until } from './read-store-fixture.js';

describe("the embedded engine's HTTP interface", () => {
  const cleanUp = suiteCleanUp();
  let endpoint: ClickHouseEndpoint;

  before(async () => {
    const engine = await readyEngine(cleanUp);
    const ready = engine.endpoint();
    assert.ok(ready !== undefined);
    endpoint = ready;
  });

  const ask = (
    body: string | Buffer | undefined,
    parameters: Record<string, string> = {},
    init: RequestInit = {},
  ): Promise<Response> =>
    fetch(`${endpoint.url}/?${new URLSearchParams(parameters).toString()}`, {
      method: 'POST',
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
      ...init,
      headers: {
        'X-ClickHouse-User': endpoint.user,
        'X-ClickHouse-Key': endpoint.password,
        ...(init.headers as Record<string, string> | undefined),
      },
    });
  const text = async (body: string, parameters: Record<string, string> = {}): Promise<string> => {
    const answer = await ask(body, parameters);
    const content = await answer.text();
    assert.equal(answer.status, 200, content);
    return content;
  };

  it('answers its owner alone, by header, Basic or parameters', async () => {
    const { url, user, password } = endpoint;
    const basic = (credentials: string): RequestInit => ({
      headers: { Authorization: `Basic ${Buffer.from(credentials).toString('base64')}` },
    });
    assert.equal((await fetch(`${url}/?query=SELECT+1`, basic(`${user}:${password}`))).status, 200);
    assert.equal((await fetch(`${url}/?query=SELECT+1&user=${user}&password=${password}`)).status, 200);
    for (const [request, status, code] of [
      [fetch(`${url}/?query=SELECT+1`), 401, '194'],
      [fetch(`${url}/?query=SELECT+1`, basic(`${user}:wrong`)), 403, '516'],
      [fetch(`${url}/?query=SELECT+1`, basic(`other:${password}`)), 403, '516'],
      [fetch(`${url}/?query=SELECT+1&user=${user}&password=`), 403, '516'],
    ] as const) {
      const answer = await request;
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get('x-clickhouse-exception-code'), code);
      assert.match(await answer.text(), new RegExp(`^Code: ${code}\\. DB::Exception: .*\\([A-Z_]+\\)`));
    }
    assert.equal(await (await fetch(`${url}/ping`)).text(), 'Ok.\n');
    assert.equal((await fetch(`${url}/other`)).status, 404);
    assert.equal((await ask(undefined, {}, { method: 'DELETE' })).status, 405);
  });

  it('takes statements, settings, formats and parameters as a server does', async () => {
    assert.equal(await text('SELECT number FROM numbers(2)'), '0\n1\n');
    assert.equal(await text('SELECT 1 AS a', { default_format: 'JSONEachRow' }), '{"a":1}\n');
    assert.equal(await text('SELECT 1 AS a FORMAT CSVWithNames', { default_format: 'JSON' }), '"a"\n1\n');
    assert.equal(
      await text("SELECT {n:Int32} + 1, {s:String}, getSetting('max_threads')", {
        param_n: '5',
        param_s: "it's",
        max_threads: '1',
      }),
      "6\tit\\'s\t1\n",
    );
    assert.equal(
      await text("SELECT getSetting('max_threads') > 0, currentDatabase()", { database: 'system' }),
      '1\tsystem\n',
    );
    for (const sql of [
      'SHOW DATABASES',
      'DESCRIBE TABLE system.one',
      'EXPLAIN SELECT 1',
      'EXISTS TABLE system.one',
      'WITH 1 AS x SELECT x',
      '(SELECT 1)',
      'SHOW TABLES FROM system',
    ])
      assert.notEqual(await text(sql), '', sql);
    assert.equal(await text('SELECT 1 WHERE 0'), '');
    const answer = await ask('SELECT 1 AS a', { query_id: 'mine', default_format: 'JSON' });
    assert.equal(answer.headers.get('x-clickhouse-query-id'), 'mine');
    assert.equal(answer.headers.get('x-clickhouse-format'), 'JSON');
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=UTF-8');
    assert.match(answer.headers.get('x-clickhouse-summary') ?? '', /"read_rows":"1"/);
    assert.equal(((await answer.json()) as { rows: number }).rows, 1);
  });

  it('answers errors with the status and the code that a server gives', async () => {
    for (const [sql, status, code] of [
      ['SELEC 1', 400, '62'],
      ['SELECT nope', 404, '47'],
      ['SELECT * FROM nope', 404, '60'],
      ['SELECT 1; SELECT 2', 400, '62'],
      ['', 400, '62'],
      ['SELECT 1 FORMAT Nope', 404, '73'],
      ['SELECT {x:Int32}', 400, '456'],
    ] as const) {
      const answer = await ask(sql);
      assert.deepEqual([answer.status, answer.headers.get('x-clickhouse-exception-code')], [status, code], sql);
      assert.match(await answer.text(), new RegExp(`^Code: ${code}\\. DB::Exception: `));
    }
    assert.equal((await ask('SELECT 1', { nope: '1' })).headers.get('x-clickhouse-exception-code'), '115');
    assert.equal((await ask('SELECT 1', { compress: '1' })).status, 501);
    assert.equal((await ask(`SELECT '${'x'.repeat(1024 * 1024)}'`)).status, 413);
    const readonly = await fetch(
      `${endpoint.url}/?query=CREATE+TABLE+x+(a+Int8)+ENGINE=Memory&user=${endpoint.user}&password=${endpoint.password}`,
    );
    assert.equal(readonly.headers.get('x-clickhouse-exception-code'), '164');
  });

  it('takes rows in any format, in the statement or after it, zipped or not', async () => {
    await text('CREATE TABLE rows_in (a UInt32, b String) ENGINE = MergeTree ORDER BY a');
    await text('{"a":1,"b":"ü"}\n', { query: 'INSERT INTO rows_in FORMAT JSONEachRow' });
    await text("INSERT INTO rows_in (a, b) VALUES (2, 'FORMAT'), (3, ';')");
    await text('INSERT INTO rows_in SETTINGS max_threads = 1 FORMAT TSV\n4\tx\n');
    assert.equal(
      (
        await ask(
          gzipSync('5,"zip"\n'),
          { query: 'INSERT INTO rows_in FORMAT CSV' },
          { headers: { 'Content-Encoding': 'gzip' } },
        )
      ).status,
      200,
    );
    const native = Buffer.from(await (await ask("SELECT 6::UInt32 AS a, 'native' AS b FORMAT Native")).arrayBuffer());
    assert.equal((await ask(native, { query: 'INSERT INTO rows_in FORMAT Native' })).status, 200);
    await text("INSERT INTO rows_in SELECT 7, 'select'");
    assert.equal(
      await text('SELECT a, b FROM rows_in ORDER BY a FORMAT CSV'),
      '1,"ü"\n2,"FORMAT"\n3,";"\n4,"x"\n5,"zip"\n6,"native"\n7,"select"\n',
    );
    const bad = await ask('{"a":"x"}', { query: 'INSERT INTO rows_in FORMAT JSONEachRow' });
    assert.equal(bad.status, 400);
    assert.doesNotMatch(await bad.text(), /spool|rows-/);
  });

  it('streams what is larger than memory would like, and zips it when asked', async () => {
    const answer = await ask('SELECT number FROM numbers(5000000) FORMAT CSVWithNames');
    let bytes = 0;
    let head = '';
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      if (bytes === 0) head = Buffer.from(chunk).toString('latin1', 0, 9);
      bytes += chunk.length;
    }
    assert.equal(head, '"number"\n');
    assert.equal(bytes, 9 + 38_888_890);
    const small = await ask(
      "SELECT repeat('x', 1000)",
      { enable_http_compression: '1' },
      { headers: { 'Accept-Encoding': 'gzip' } },
    );
    assert.equal(small.headers.get('content-encoding'), 'gzip');
    assert.equal((await small.text()).length, 1_001);
    // A document format in one piece, though it leaves the engine in many.
    const document = (await (await ask('SELECT number FROM numbers(200000) FORMAT JSON')).json()) as {
      rows: number;
      data: unknown[];
    };
    assert.deepEqual([document.rows, document.data.length], [200_000, 200_000]);
  });

  it('breaks off an answer that fails halfway, with the exception', async () => {
    const client = createClient({ url: endpoint.url, username: endpoint.user, password: endpoint.password });
    try {
      const result = await client.query({
        query: 'SELECT throwIf(number = 3000000) FROM numbers(10000000)',
        format: 'JSONEachRow',
      });
      await assert.rejects(async () => {
        for await (const _ of result.stream());
      }, /non-zero|aborted|terminated|exception/i);
    } finally {
      await client.close();
    }
  });

  it('cancels the statement of a client that has gone, and lets inserts pass analysts by', async () => {
    await text('CREATE TABLE busy (a UInt32) ENGINE = MergeTree ORDER BY a');
    const running = async (): Promise<number> =>
      Number(
        await text(
          "SELECT count() FROM system.processes WHERE query LIKE '%sipHash64(number)%' AND query NOT LIKE '%processes%'",
          { workload: 'statefold' },
        ),
      );
    const controller = new AbortController();
    const heavy = Array.from({ length: 6 }, () =>
      ask('SELECT max(sipHash64(number)) FROM numbers(100000000000)', {}, { signal: controller.signal }).then(
        () => 'answered',
        () => 'gone',
      ),
    );
    await until('four of six run', async () => (await running()) === 4);
    assert.equal(await text('INSERT INTO busy FORMAT TSV\n1\n'), '');
    controller.abort();
    assert.deepEqual(await Promise.all(heavy), Array(6).fill('gone'));
    await until('none runs', async () => (await running()) === 0);
    assert.equal(await text('SELECT count() FROM busy'), '1\n');
  });
});
