// SQL of tenants where the read store is a ClickHouse server: who asks, what the account may do, and answers that fail halfway. The
// server here is one that speaks its protocol; with CLICKHOUSE_URL a real one holds tenants apart below.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import {
  dropStatements,
  fixedSettings,
  namesStatement,
  openStatements,
  settingsOfTools,
  suspendStatements,
} from '../../src/read-store/clickhouse/account-statements.js';
import { ServerAccounts } from '../../src/read-store/clickhouse/server-accounts.js';
import { ServerSql } from '../../src/read-store/clickhouse/server-sql.js';
import { SqlRefusedError, type SqlAnswer } from '../../src/read-store/tenant-sql.js';
import { silentLogger } from '../../src/core/logger.js';
import { ROOT } from '../support/service.js';
import { readyEngine } from './read-store-fixture.js';

const LIMITS = { seconds: 5, rows: 1000, bytes: 1_000_000, memoryBytes: 256 * 1024 * 1024 };
const never = new AbortController().signal;
const statement = (query: string, parameters: Record<string, string> = {}) => ({
  query,
  format: 'TSV',
  parameters: new Map(Object.entries(parameters)),
  states: [],
});

interface Asked {
  readonly user: string;
  readonly password: string;
  readonly sql: string;
  readonly url: URL;
}

/** Notes what is asked; answers statements of accounts by itself. */
async function fakeServer(
  t: TestContext,
  answer: (asked: Asked, response: ServerResponse) => void,
  isTenant = (): boolean => true,
): Promise<{ asked: Asked[]; sql: ServerSql }> {
  const asked: Asked[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    let sql = '';
    request.on('data', (chunk: Buffer) => (sql += chunk.toString()));
    request.on('end', () => {
      const one = {
        user: String(request.headers['x-clickhouse-user']),
        password: String(request.headers['x-clickhouse-key']),
        sql,
        url: new URL(request.url ?? '/', 'http://server'),
      };
      asked.push(one);
      answer(one, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const endpoint = { url, user: 'owner', password: 'owners', database: 'statefold' };
  return {
    asked,
    sql: new ServerSql({
      endpoint: () => endpoint,
      ensureSchema: () => Promise.resolve(),
      limits: LIMITS,
      secret: 'a secret',
      isTenant: () => Promise.resolve(isTenant()),
    }),
  };
}

async function textOf({ chunks }: SqlAnswer): Promise<string> {
  let text = '';
  for await (const chunk of chunks) text += chunk.toString();
  return text;
}

test('a tenant asks as a user of its own, who has policies before it may read', async (t) => {
  const { asked, sql } = await fakeServer(t, ({ user }, response) => response.end(user === 'owner' ? '' : '1\n'));
  assert.equal(await textOf(await sql.query('acme', statement('SELECT {a:String}', { a: 'b' }), never)), '1\n');
  const made = asked.filter(({ user }) => user === 'owner').map((one) => one.sql);
  const mine = asked.at(-1);
  const user = { name: 'statefold_tenant_acme', tenantId: 'acme', secret: { password: mine?.password ?? '' } };
  assert.deepEqual(made, openStatements({ database: 'statefold' }, user, fixedSettings(LIMITS)));
  const [policy, grant, opened] = [/CREATE ROW POLICY/, /^GRANT/, /HOST ANY/].map((what) =>
    made.findIndex((one) => what.test(one)),
  );
  assert.ok((policy ?? 0) < (grant ?? 0) && (grant ?? 0) < (opened ?? 0), made.join('\n'));
  assert.match(made.at(-1) ?? '', /readonly = 1 CONST/);
  assert.equal(mine?.user, 'statefold_tenant_acme');
  assert.equal(mine?.sql, 'SELECT {a:String}');
  assert.equal(mine?.url.searchParams.get('param_a'), 'b');
  assert.equal(mine?.url.searchParams.get('database'), 'statefold');

  await textOf(await sql.query('acme', statement('SELECT 2'), never));
  assert.equal(asked.length, made.length + 2, 'the account is made once');
  await textOf(await sql.query('other', statement('SELECT 3'), never));
  assert.notEqual(asked.at(-1)?.password, mine?.password);
});

test('a user that was dropped is made again', async (t) => {
  let isDropped = false;
  const { asked, sql } = await fakeServer(t, ({ user, sql: text }, response) => {
    if (user === 'owner' && text.startsWith('CREATE USER')) isDropped = false;
    if (user !== 'owner' && isDropped) response.writeHead(403, { 'X-ClickHouse-Exception-Code': '516' });
    response.end(user === 'owner' ? '' : '1\n');
  });
  assert.equal(await textOf(await sql.query('acme', statement('SELECT 1'), never)), '1\n');
  isDropped = true;
  assert.equal(await textOf(await sql.query('acme', statement('SELECT 2'), never)), '1\n');
  assert.equal(asked.filter((one) => one.sql === 'SELECT 2').length, 2);
});

test('a tenant that is deleted while it asks leaves no user, and a later one of its id is asked for anew', async (t) => {
  const users = new Set<string>();
  let isThere = false;
  const { asked, sql } = await fakeServer(
    t,
    ({ user, sql: text }, response) => {
      const named = /^(CREATE|DROP) USER IF (?:NOT )?EXISTS `(\w+)`/.exec(text);
      if (named?.[1] === 'CREATE') users.add(named[2] ?? '');
      else if (named?.[1] === 'DROP') users.delete(named[2] ?? '');
      response.end(user === 'owner' ? '' : '1\n');
    },
    () => isThere,
  );
  await assert.rejects(
    sql.query('acme', statement('SELECT 1'), never),
    (error) => error instanceof StatefoldError && error.code === 'NOT_FOUND',
  );
  assert.deepEqual([...users], []);
  assert.deepEqual(
    asked.slice(-dropStatements({ database: 'statefold' }, 'statefold_tenant_acme').length).map((one) => one.sql),
    dropStatements({ database: 'statefold' }, 'statefold_tenant_acme'),
  );
  isThere = true;
  assert.equal(await textOf(await sql.query('acme', statement('SELECT 1'), never)), '1\n');
  assert.deepEqual([...users], ['statefold_tenant_acme']);
});

test('a server that makes no users is refused with the reason, and asked again', async (t) => {
  let refuse = true;
  const { sql } = await fakeServer(t, (_, response) => {
    if (refuse) response.writeHead(403, { 'X-ClickHouse-Exception-Code': '497' });
    response.end(refuse ? 'Code: 497. DB::Exception: owner: Not enough privileges. (ACCESS_DENIED)' : '1\n');
  });
  await assert.rejects(
    sql.query('acme', statement('SELECT 1'), never),
    (error) =>
      error instanceof StatefoldError &&
      error.code === 'SQL_NOT_ISOLATED' &&
      /CREATE USER.*Not enough privileges/s.test(error.message),
  );
  refuse = false;
  assert.equal(await textOf(await sql.query('acme', statement('SELECT 1'), never)), '1\n');
});

test('a statement that fails, before its answer and in it, has the words and the code of the server', async (t) => {
  const failure = 'Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)';
  const { sql } = await fakeServer(t, ({ user, sql: text }, response) => {
    if (user === 'owner') return void response.end();
    if (text === 'early') {
      response.writeHead(404, { 'X-ClickHouse-Exception-Code': '60' });
      return void response.end('Code: 60. DB::Exception: Unknown table x. (UNKNOWN_TABLE) (version 26.7.2.1)\n');
    }
    response.writeHead(200, { 'X-ClickHouse-Exception-Tag': 'abc', 'Content-Type': 'text/plain' });
    response.write('1\n2\n');
    response.write('\r\n__exce');
    response.write(`ption__\r\nabc\r\n${failure}\n${failure.length + 1} abc\r\n__exception__\r\n`, () =>
      response.destroy(),
    );
  });
  await assert.rejects(
    sql.query('acme', statement('early'), never),
    (error) =>
      error instanceof SqlRefusedError && error.engineCode === 60 && /^Code: 60.*UNKNOWN_TABLE\)$/.test(error.message),
  );
  const answer = await sql.query('acme', statement('late'), never);
  const got: string[] = [];
  await assert.rejects(
    async () => {
      for await (const chunk of answer.chunks) got.push(chunk.toString());
    },
    (error) => error instanceof SqlRefusedError && error.engineCode === 241 && error.message === failure,
  );
  assert.equal(got.join(''), '1\n2\n');
});

test('every statement about users is one that the engine parses, and every setting one that it has', async (t) => {
  const engine = await readyEngine(t);
  const endpoint = engine.endpoint();
  assert.ok(endpoint !== undefined);
  const run = async (sql: string): Promise<void> => {
    const headers = { 'X-ClickHouse-User': endpoint.user, 'X-ClickHouse-Key': endpoint.password };
    const answer = await fetch(endpoint.url, { method: 'POST', body: sql, headers });
    assert.equal(answer.status, 200, `${sql}: ${await answer.text()}`);
  };
  const name = "it's `a` user";
  for (const cluster of [undefined, 'all servers'])
    for (const secret of [{ password: "it's" }, { passwordHash: 'ab'.repeat(32) }])
      for (const sql of [
        ...openStatements({ database: 'a `b`', cluster }, { name, tenantId: 'acme', secret }, settingsOfTools(LIMITS)),
        ...suspendStatements({ database: 'a `b`', cluster }, { name, tenantId: 'acme', secret }),
        ...dropStatements({ database: 'a `b`', cluster }, name),
      ]) {
        assert.equal(sql.includes('ON CLUSTER `all servers`'), cluster !== undefined, sql);
        await run(`EXPLAIN AST ${sql}`);
      }
  await run(`EXPLAIN AST ${namesStatement(name)}`);
  const settings = Object.entries({ ...fixedSettings(LIMITS), ...settingsOfTools(LIMITS) });
  await run(`SELECT 1 SETTINGS ${settings.map(([setting, [value]]) => `${setting} = '${value}'`).join(', ')}`);
});

const url = process.env['CLICKHOUSE_URL'];

test('a real server holds tenants apart', { skip: url === undefined && 'needs CLICKHOUSE_URL' }, async (t) => {
  const database = `statefold_test_${randomBytes(4).toString('hex')}`;
  const user = process.env['CLICKHOUSE_USER'] ?? 'default';
  const password = process.env['CLICKHOUSE_PASSWORD'] ?? '';
  const endpoint = () => ({ url: url ?? '', user, password, database });
  const store = new ClickHouseReadStore({
    endpoint,
    schemaDirectory: join(ROOT, 'schemas', 'clickhouse'),
    logger: silentLogger,
  });
  const run = (sql: string) =>
    fetch(url ?? '', {
      method: 'POST',
      body: sql,
      headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
    });
  await store.ensureSchema();
  const accounts = new ServerAccounts({
    ...{ endpoint, limits: LIMITS, cluster: undefined },
    ensureSchema: () => store.ensureSchema(),
  });
  const account = {
    tenantId: 'mine',
    accountId: randomBytes(8).toString('hex'),
    passwordHash: createHash('sha256').update('of the tool').digest('hex'),
  };
  t.after(async () => {
    await accounts.drop(account);
    for (const tenant of ['mine', 'theirs']) await run(`DROP USER IF EXISTS \`${database}_tenant_${tenant}\``);
    await run(`DROP DATABASE ${database}`);
    await store.close();
  });
  for (const tenant of ['mine', 'theirs'])
    await run(
      `INSERT INTO ${database}.events (tenant, aggregate_id, data_raw) VALUES ('${tenant}', 'a', '{"canary":"${tenant}"}')`,
    );
  const sql = new ServerSql({
    endpoint,
    ensureSchema: () => store.ensureSchema(),
    limits: LIMITS,
    secret: 'a secret',
    isTenant: () => Promise.resolve(true),
  });
  const ask = async (query: string): Promise<string> => textOf(await sql.query('mine', statement(query), never));
  assert.equal(await ask('SELECT DISTINCT tenant FROM events'), 'mine\n');
  assert.equal(await ask("SELECT count() FROM events WHERE tenant = 'theirs'"), '0\n');
  for (const query of [
    `SELECT * FROM merge('${database}', 'watermarks')`,
    `SELECT * FROM ${database}.watermarks`,
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    `SELECT * FROM remote('127.0.0.1', '${database}.events')`,
    "INSERT INTO events (tenant) VALUES ('mine')",
    'DROP TABLE events',
    'SET readonly = DEFAULT',
    'SELECT 1 SETTINGS max_execution_time = 0',
    'SELECT * FROM numbers(100000)',
    'SYSTEM SHUTDOWN',
  ])
    await assert.rejects(ask(query), SqlRefusedError, query);

  const asTool = (query: string): Promise<Response> =>
    fetch(url ?? '', {
      method: 'POST',
      body: query,
      headers: { 'X-ClickHouse-User': accounts.userOf(account), 'X-ClickHouse-Key': 'of the tool' },
    });
  await accounts.open(account);
  await accounts.open(account);
  assert.deepEqual(await accounts.list(), [{ tenantId: 'mine', accountId: account.accountId }]);
  const rows = await asTool('SELECT DISTINCT tenant FROM events SETTINGS max_execution_time = 2');
  assert.equal(await rows.text(), 'mine\n');
  for (const query of [
    `SELECT * FROM ${database}.watermarks`,
    'SELECT 1 SETTINGS max_execution_time = 0',
    'SELECT 1 SETTINGS max_execution_time = 6',
    'SELECT 1 SETTINGS max_memory_usage = 0',
    "INSERT INTO events (tenant) VALUES ('mine')",
    'SELECT * FROM numbers(100000)',
  ])
    assert.equal((await asTool(query)).ok, false, query);
  await accounts.suspend(account);
  assert.equal((await asTool('SELECT 1')).ok, false);
  await accounts.drop(account);
  await accounts.drop(account);
  assert.deepEqual(await accounts.list(), []);
});
