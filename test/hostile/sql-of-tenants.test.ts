// SQL of a tenant that is after other tenants' rows, files, the network, the engine, and more than its share. First through the real
// service, then with everything that ClickHouse itself would refuse taken away: what is left is the jail, and it must hold alone.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { launchOfEngine } from '../../src/jail/launch.js';
import type { QueryOutcome, QueryRequest } from '../../src/read-store/embedded/query-process.js';
import { newTenant } from '../support/api.js';
import {
  API_KEY,
  programOf,
  ROOT,
  startService,
  temporaryDirectory,
  until,
  type Answer,
  type Service,
} from '../support/service.js';
import { noJail } from './escape-world.js';

const MINE = 'CANARY-OF-MINE';
const THEIRS = 'CANARY-OF-THEIRS';
const SECONDS = 5;
const FILE_BYTES = 1024 * 1024;

const READONLY = 164;
const SYNTAX = 62;
/** What each comes to: ClickHouse's code, or `rows` where it is answered, with nothing of anyone else in it. */
const STATEMENTS: Readonly<Record<string, number | 'rows' | 'refused'>> = {
  // Other tenants' rows, by what is theirs.
  "SELECT * FROM events WHERE tenant = 'theirs'": 'rows',
  'SELECT * FROM events WHERE tenant != currentUser() OR 1': 'rows',
  'SELECT * FROM statefold.events': 'rows',
  "SELECT * FROM merge('.*', '.*') LIMIT 100": 'refused',
  "SELECT * FROM merge('statefold', 'events')": 'rows',
  "SELECT * FROM mergeTreeIndex('statefold', 'events')": 'rows',
  "SELECT * FROM mergeTreeParts('statefold', 'events')": 'refused',
  "SELECT * FROM loop('statefold', 'events') LIMIT 20": READONLY,
  'SELECT * FROM view(SELECT * FROM events)': 'rows',
  "SELECT * FROM remote('127.0.0.1', 'statefold.events')": READONLY,
  "SELECT * FROM remoteSecure('127.0.0.1', 'statefold.events')": READONLY,
  "SELECT * FROM cluster('default', 'statefold', 'events')": 'refused',
  "SELECT * FROM clusterAllReplicas('default', 'statefold', 'events')": 'refused',
  'SELECT * FROM statefold_sql.events': 'refused',
  "SELECT dictGet('statefold.events', 'data', 1)": 'refused',
  "SELECT * FROM dictionary('statefold.events')": 'refused',
  "SELECT joinGet('statefold.events', 'data', 1)": 'refused',
  // Files.
  "SELECT * FROM file('/etc/passwd', 'LineAsString')": READONLY,
  "SELECT file('/etc/passwd')": 'refused',
  "SELECT file('../../../../../../etc/passwd')": 'refused',
  "SELECT * FROM fileCluster('default', '/etc/passwd', 'LineAsString')": 'refused',
  "SELECT 1 INTO OUTFILE '/tmp/statefold-hostile'": SYNTAX,
  "SELECT 1 INTO OUTFILE '/tmp/statefold-hostile' TRUNCATE FORMAT CSV --": SYNTAX,
  "SELECT 1 INTO OUTFILE '/tmp/statefold-hostile' FORMAT CSV /*": SYNTAX,
  "INSERT INTO FUNCTION file('/tmp/statefold-hostile', 'CSV', 'x String') SELECT 'x'": READONLY,
  "INSERT INTO events FROM INFILE '/etc/passwd' FORMAT LineAsString": 'refused',
  "BACKUP TABLE statefold.events TO File('/tmp/statefold-hostile')": 'refused',
  "RESTORE TABLE statefold.events FROM File('/tmp/statefold-hostile')": 'refused',
  // The network.
  "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')": READONLY,
  "SELECT * FROM s3('http://127.0.0.1:1/bucket/key', 'LineAsString')": READONLY,
  "SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'LineAsString')": 'refused',
  "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')": READONLY,
  "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')": READONLY,
  "SELECT * FROM mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd', 'x String')": 'refused',
  "SELECT * FROM redis('127.0.0.1:1', 'key', 'key String')": 'refused',
  "SELECT * FROM sqlite('/tmp/x.db', 'x')": 'refused',
  "SELECT * FROM azureBlobStorage('http://127.0.0.1:1', 'c', 'x', 'n', 'a2V5')": 'refused',
  // Programs and code.
  "SELECT * FROM executable('id', 'TSV', 'x String')": 'refused',
  'CREATE FUNCTION escape AS (x) -> file(x)': READONLY,
  "SELECT * FROM input('x String')": 'refused',
  'SELECT addressToSymbol(1)': 'refused',
  "SELECT demangle('_ZN')": 'refused',
  // Changes.
  "INSERT INTO events (tenant) VALUES ('x')": READONLY,
  'INSERT INTO events SELECT * FROM events': READONLY,
  'ALTER TABLE events DELETE WHERE 1': READONLY,
  'DELETE FROM events WHERE 1': READONLY,
  'UPDATE events SET event_type = 1 WHERE 1': 'refused',
  'TRUNCATE TABLE events': READONLY,
  'DROP TABLE events': READONLY,
  'DROP DATABASE statefold': READONLY,
  'RENAME TABLE events TO x': READONLY,
  'OPTIMIZE TABLE events FINAL': READONLY,
  'DETACH TABLE events': READONLY,
  'DETACH DATABASE system': READONLY,
  "ATTACH TABLE x FROM '/etc' (x String) ENGINE = File(LineAsString)": READONLY,
  "CREATE TABLE x (x String) ENGINE = File(LineAsString, '/etc/passwd')": READONLY,
  'CREATE TEMPORARY TABLE x (x String)': READONLY,
  "CREATE DATABASE x ENGINE = Filesystem('/etc')": READONLY,
  'CREATE VIEW x AS SELECT 1': READONLY,
  "CREATE DICTIONARY x (x String) PRIMARY KEY x SOURCE(FILE(PATH '/etc/passwd' FORMAT 'LineAsString')) LAYOUT(FLAT()) LIFETIME(1)":
    READONLY,
  "CREATE NAMED COLLECTION x AS url = 'http://127.0.0.1:1/'": 'refused',
  'CREATE USER x': 'refused',
  'GRANT ALL ON *.* TO default': 'refused',
  'EXECUTE AS default SELECT 1': 'refused',
  // Settings and limits.
  'SET readonly = 0': READONLY,
  'SET max_execution_time = 0': READONLY,
  'SELECT 1 SETTINGS readonly = 0': READONLY,
  'SELECT 1 SETTINGS max_result_rows = 0': READONLY,
  // Settings of a subquery are taken, and lift no limit of the statement.
  'SELECT count() FROM (SELECT number FROM numbers(1e15) WHERE NOT ignore(sipHash64(number)) SETTINGS max_execution_time = 0)': 159,
  'SELECT * FROM (SELECT length(groupArray(number)) FROM numbers(1e11) SETTINGS max_memory_usage = 0)': 241,
  'SELECT * FROM (SELECT * FROM numbers(1e9) SETTINGS max_result_rows = 0, readonly = 0)': 396,
  'SELECT 1 FORMAT CSV SETTINGS max_execution_time = 0': READONLY,
  'SET readonly = DEFAULT; DROP TABLE events': SYNTAX,
  'SELECT 1; DROP TABLE events': SYNTAX,
  'SELECT 1; -- x\nDROP TABLE events': SYNTAX,
  '/* ; */ SELECT 1; /* ; */ DROP TABLE events /* ; */': SYNTAX,
  'SELECT $$;$$; DROP TABLE events': SYNTAX,
  // The engine.
  'SYSTEM SHUTDOWN': READONLY,
  'SYSTEM KILL': READONLY,
  'SYSTEM RELOAD CONFIG': 'refused',
  // Of its own engine, which ends with it.
  'SYSTEM START MERGES': 'rows',
  'SYSTEM FLUSH LOGS': READONLY,
  'KILL QUERY WHERE 1 SYNC': 'rows',
  'SELECT * FROM system.processes': 'rows',
  'SELECT * FROM system.parts': 'rows',
  'SELECT * FROM system.tables': 'rows',
  'SELECT * FROM system.users': 'refused',
  'SELECT * FROM system.settings': 'rows',
  'SELECT * FROM system.query_log': 'refused',
  'SELECT * FROM system.disks': 'rows',
  'SELECT * FROM system.remote_data_paths': 'rows',
  'SELECT * FROM system.server_settings': 'rows',
  'SHOW CREATE TABLE events': 'rows',
  "SELECT getSetting('readonly')": 'rows',
  // More than its share.
  'SELECT count() FROM numbers(1e15) WHERE NOT ignore(sipHash64(number))': 159,
  'SELECT length(groupArray(number)) FROM numbers(1e11)': 241,
  'SELECT sleepEachRow(3) FROM numbers(1e6)': 160,
  'SELECT * FROM numbers(1e9)': 396,
  'SELECT range(1e9)': 'refused',
  "SELECT repeat('x', 1e12)": 'refused',
  'WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t': 'refused',
  'SELECT arrayMap(x -> arrayMap(y -> arrayMap(z -> sipHash64(z), range(10000)), range(10000)), range(10000))':
    'refused',
  [`SELECT ${'('.repeat(5000)}1${')'.repeat(5000)}`]: 'refused',
};

/** Through the service, as a tenant asks; the answer may be broken off, with ClickHouse's words in it. */
async function ask(
  service: Service,
  key: string,
  query: string,
  more: object = {},
): Promise<{ status: number; text: string }> {
  const response = await fetch(`${service.url}/sql`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ query, format: 'JSONEachRow', ...more }),
  });
  let text = '';
  try {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk as Uint8Array).toString('latin1');
  } catch {
    text += '\nbroken off';
  }
  return { status: response.status, text };
}

const codeOf = ({ text }: { text: string }): number | undefined => {
  const code = /Code: (\d+)\./.exec(text)?.[1];
  return code === undefined ? undefined : Number(code);
};

const append = (service: Service, key: string, canary: string): Promise<Answer> =>
  service.request('POST', '/events', { key, body: { aggregateId: 'trip-1', eventType: 'Landed', data: { canary } } });

test('SQL of a tenant reaches its own rows, and nothing else', { skip: noJail }, async (t) => {
  const service = await startService(t, {
    readStore: true,
    env: {
      SQL_MAX_SECONDS: String(SECONDS),
      SQL_MEMORY_BYTES: String(384 * 1024 * 1024),
      SQL_STATEMENTS_PER_TENANT: '1',
    },
  });
  const theirs = await newTenant(service, { tenantId: 'theirs' });
  const positions = new Map<string, string>();
  for (const [key, canary] of [
    [API_KEY, MINE],
    [theirs, THEIRS],
  ] as const) {
    const answer = await append(service, key, canary);
    assert.equal(answer.status, 201, answer.text);
    positions.set(key, answer.headers.get('statefold-position') ?? '');
  }
  const read = async (key: string): Promise<string> => {
    const answer = await service.request('POST', `/sql?waitFor=${positions.get(key) ?? ''}&waitSeconds=30`, {
      key,
      body: { query: 'SELECT data.canary FROM events', format: 'TSV' },
    });
    assert.equal(answer.status, 200, answer.text);
    return answer.text.trim();
  };
  // Its engine may still be starting.
  await until(async () => (await ask(service, API_KEY, 'SELECT 1')).status === 200);
  assert.equal(await read(API_KEY), MINE);
  assert.equal(await read(theirs), THEIRS);

  for (const [query, verdict] of Object.entries(STATEMENTS))
    await t.test(query.slice(0, 100), async () => {
      const answer = await ask(service, API_KEY, query);
      assert.ok(!answer.text.includes(THEIRS), answer.text);
      assert.ok(!answer.text.includes('root:'), answer.text);
      if (verdict === 'rows') assert.equal(answer.status, 200, answer.text);
      else {
        const code = codeOf(answer);
        assert.ok(code !== undefined, `${answer.status} ${answer.text.slice(0, 500)}`);
        if (verdict !== 'refused') assert.equal(code, verdict, answer.text.slice(-500));
        if (!answer.text.endsWith('broken off')) assert.equal(answer.status, 400);
      }
    });
  assert.ok(!existsSync('/tmp/statefold-hostile'));

  await t.test('what is put in by parameters is a value', async () => {
    const inject = `x' OR tenant = 'theirs'; DROP TABLE events --`;
    const answer = await ask(
      service,
      API_KEY,
      'SELECT {value:String} AS value, count() AS n FROM events WHERE tenant = {value:String}',
      {
        parameters: { value: inject },
      },
    );
    assert.deepEqual(JSON.parse(answer.text), { value: inject, n: 0 });
    const named = await ask(service, API_KEY, 'SELECT 1', { parameters: { 'x = 1, readonly': '0' } });
    assert.equal(named.status, 400);
    const table = await ask(service, API_KEY, 'SELECT * FROM {name:Identifier}', {
      parameters: { name: 'system.one`; DROP TABLE events' },
    });
    assert.equal(table.status, 400, table.text);
  });

  await t.test('the copy of another tenant can be read by no name', async () => {
    const store = join(service.dataDirectory, 'clickhouse', 'engine', 'store');
    const parts = readdirSync(store, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('data.bin'));
    assert.ok(parts.length > 2, 'there are copies');
    let own = 0;
    for (const part of parts) {
      const path = join(store, part);
      const answer = await ask(service, API_KEY, `SELECT length(file('${path}')) AS bytes`);
      if (answer.status === 200) own++;
      else assert.match(answer.text, /Permission denied/);
    }
    assert.ok(own < parts.length / 2, `${own} of ${parts.length} could be read`);
    for (const file of ['admin-key', 'master-key', join('clickhouse', 'password')]) {
      const path = join(service.dataDirectory, file);
      const answer = await ask(service, API_KEY, `SELECT file('${path}')`);
      assert.equal(answer.status, 400, `${file}: ${answer.text}`);
    }
  });

  await t.test('one statement at a time is what this tenant may, and others go on', async () => {
    const long = ask(service, API_KEY, 'SELECT sleep(3)');
    let ended = false;
    void long.finally(() => (ended = true));
    let refused: Answer | undefined;
    while (!ended && refused?.status !== 429)
      refused = await service.request('POST', '/sql', { body: { query: 'SELECT 1' } });
    assert.equal(refused?.status, 429, 'the second was refused while the first ran');
    assert.equal(await read(theirs), THEIRS);
    assert.equal((await long).status, 200);
  });

  await t.test('a client that goes away ends its statement', async () => {
    const controller = new AbortController();
    const folder = join(service.dataDirectory, 'clickhouse', 'sql');
    const gone = fetch(`${service.url}/sql`, {
      method: 'POST',
      headers: { 'x-api-key': API_KEY, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'SELECT count() FROM numbers(1e15) WHERE NOT ignore(sipHash64(number))' }),
      signal: controller.signal,
    });
    gone.catch(() => undefined);
    await until(() => readdirSync(folder).length > 0);
    controller.abort();
    await assert.rejects(gone);
    await until(() => readdirSync(folder).length === 0);
    assert.equal(await read(API_KEY), MINE);
  });

  await t.test('the service has taken no harm', async () => {
    const answer = await append(service, API_KEY, 'CANARY-AFTER');
    positions.set(API_KEY, answer.headers.get('statefold-position') ?? '');
    assert.deepEqual((await read(API_KEY)).split('\n').sort(), ['CANARY-AFTER', MINE]);
    assert.equal(await read(theirs), THEIRS);
  });
});

test('the jail of SQL holds alone', { skip: noJail }, async (t) => {
  const outside = temporaryDirectory(t);
  const secret = join(outside, 'secret');
  writeFileSync(secret, THEIRS);
  const server = createServer();
  let connections = 0;
  server.on('connection', (socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const worker = programOf(join(ROOT, 'dist', 'src', 'read-store', 'embedded', 'query-process.js'));
  let runs = 0;

  /** As the service runs it, but nothing confines the statement within the engine. */
  function run(statement: string): QueryOutcome | undefined {
    const folder = join(outside, `run-${runs++}`);
    mkdirSync(folder);
    const request: QueryRequest = {
      directory: join(folder, 'engine'),
      memoryBytes: 512 * 1024 * 1024,
      database: 'statefold',
      prepare: [],
      views: [],
      confine: ['SET http_max_tries = 1, http_connection_timeout = 2, connections_with_failover_max_tries = 1'],
      statement,
    };
    writeFileSync(join(folder, 'request.json'), JSON.stringify(request));
    const { command, args, env } = launchOfEngine(
      { dotnet: 'dotnet', searchPath: process.env['PATH'] ?? '', assembliesDir: join(ROOT, 'dist', 'dotnet') },
      {
        folder,
        fileBytes: FILE_BYTES,
        readable: [
          join(worker, '..'),
          join(ROOT, 'node_modules', 'chdb'),
          join(ROOT, 'node_modules', '@chdb'),
          join(ROOT, 'package.json'),
        ],
        dataBytes: 1024 * 1024 * 1024,
        addressBytes: 17 * 1024 * 1024 * 1024,
        threads: 512,
      },
      process.execPath,
      [worker],
    );
    const { stdout, stderr } = spawnSync(command, [...args], {
      env: { ...env },
      timeout: 60_000,
      killSignal: 'SIGKILL',
      encoding: 'utf8',
    });
    const line = stdout.split('\n').find((one) => one.startsWith('{"ok":'));
    if (line === undefined) t.diagnostic(stderr.slice(0, 500));
    return line === undefined ? undefined : (JSON.parse(line) as QueryOutcome);
  }

  assert.deepEqual(run('SELECT sum(number) FROM numbers(10)'), { ok: true });
  const own = join(outside, `run-${runs}`, 'own');
  assert.deepEqual(run(`SELECT 1 INTO OUTFILE '${own}'`), { ok: true });
  assert.equal(readFileSync(own, 'utf8').trim(), '1', 'its own folder is its own');

  // It may say that all went well: what counts is what is there.
  const large = join(outside, `run-${runs}`, 'large');
  run(`SELECT repeat('x', 1000000) FROM numbers(10) INTO OUTFILE '${large}'`);
  assert.ok(statSync(large).size <= FILE_BYTES, `${statSync(large).size} bytes`);

  const ATTEMPTS: Readonly<Record<string, string>> = {
    'a file by the table function': `SELECT throwIf(count() = 0) FROM file('${secret}', 'LineAsString')`,
    'a file by the function': `SELECT file('${secret}')`,
    'a file by a table': `CREATE TABLE x (x String) ENGINE = File(LineAsString, '${secret}'); SELECT * FROM x`,
    'writing a file': `SELECT 1 INTO OUTFILE '${join(outside, 'written')}'`,
    'writing by an insert': `INSERT INTO FUNCTION file('${join(outside, 'written')}', 'CSV', 'x String') SELECT 'x'`,
    'the network by url': `SELECT * FROM url('http://127.0.0.1:${port}/', 'LineAsString')`,
    'the network by remote': `SELECT * FROM remote('127.0.0.1:${port}', 'system.one')`,
    'the network by mysql': `SELECT * FROM mysql('127.0.0.1:${port}', 'a', 'b', 'c', 'd')`,
    'a program': `SELECT * FROM executable('../../../../../bin/id', 'TSV', 'x String')`,
  };
  for (const [what, statement] of Object.entries(ATTEMPTS))
    await t.test(what, () => {
      const outcome = run(statement);
      assert.ok(outcome?.ok !== true, JSON.stringify(outcome));
      assert.ok(!JSON.stringify(outcome ?? '').includes(THEIRS));
    });
  assert.equal(connections, 0, 'nobody has come');
  assert.ok(!existsSync(join(outside, 'written')));
});
