// Accounts for SQL on a ClickHouse server: made, listed, deleted and kept to what the catalog has, whatever fails in between. The server
// has users and policies of the test, and the tables and the parser of the real engine.
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { startEngine } from '../integration/read-store-fixture.js';
import { AccountServer } from '../support/account-server.js';
import { admin, Api, newTenant, problem, success } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { API_KEY, startService, temporaryDirectory, until, type Answer, type Service } from '../support/service.js';

interface Made {
  readonly accountId: string;
  readonly name?: string;
  readonly user: string;
  readonly database: string;
  readonly url: string;
  readonly password: string;
}
interface World {
  readonly server: AccountServer;
  readonly url: string;
  readonly dataDirectory: string;
  /** A service on the same data. */
  readonly start: () => Promise<Service>;
}

async function openWorld(t: TestContext): Promise<World> {
  const { server, access } = await AccountServer.start(t, startEngine(t));
  const dataDirectory = temporaryDirectory(t);
  const env = {
    CLICKHOUSE_URL: access.url,
    CLICKHOUSE_USER: access.user,
    CLICKHOUSE_PASSWORD: access.password,
    CLICKHOUSE_DATABASE: access.database,
  };
  return {
    server,
    url: access.url,
    dataDirectory,
    start: () => startService(t, { readStore: true, dataDirectory, env }),
  };
}

const make = async (api: Api, name?: string): Promise<Made> =>
  success(await api.post('/sql/accounts', { name }), 201).json<Made>();
const listed = async (api: Api): Promise<readonly Partial<Made>[]> =>
  (await api.read<{ readonly accounts: readonly Partial<Made>[] }>('/sql/accounts')).accounts;
/** A tenant of its own, asked with its key. */
const tenant = async (service: Service, tenantId: string): Promise<Api> =>
  new Api(service, await newTenant(service, { tenantId }));

test('accounts for SQL on a ClickHouse server', async (t) => {
  const { server, url, dataDirectory, start } = await openWorld(t);
  let service = await start();
  let api = new Api(service);
  let grafana: Made;

  await t.test('one is made whole before its password is told, once', async () => {
    grafana = await make(api, 'Grafana');
    assert.match(grafana.accountId, /^[0-9a-f]{16}$/);
    assert.deepEqual(
      [grafana.name, grafana.user, grafana.database, grafana.url],
      ['Grafana', `statefold_account_default_${grafana.accountId}`, 'statefold', url],
    );
    assert.ok(server.admits(grafana.user, grafana.password, 'default'));
    const { password: _password, ...shown } = grafana;
    assert.deepEqual(await listed(api), [shown]);
    const order = server.statements.filter((sql) => sql.includes(grafana.user)).map((sql) => sql.split(' ')[0]);
    assert.deepEqual(order, ['CREATE', ...Array.from({ length: 8 }, () => 'CREATE'), 'GRANT', 'ALTER']);
    const opened = server.statements.find((sql) => sql.includes('HOST ANY') && sql.includes(grafana.user)) ?? '';
    assert.match(opened, /max_execution_time = 30 MIN 1 MAX 30,.*max_result_rows = 1000000 CONST,.*readonly = 2 CONST/);
    assert.ok(!server.statements.join('\n').includes(grafana.password));
  });

  await t.test('the audit log has who made it, and not its password', async () => {
    const { entries } = await api.read<{ readonly entries: readonly Record<string, unknown>[] }>(
      '/audit?action=sql-account',
    );
    assert.deepEqual(
      entries.map(({ action, object, details }) => ({ action, object, details })),
      [
        {
          action: 'sql-account.create',
          object: { accountId: grafana.accountId },
          details: { name: 'Grafana' },
        },
      ],
    );
  });

  await t.test('another tenant does not find it, and has accounts of its own', async () => {
    const other = await tenant(service, 'other');
    problem(await other.delete(`/sql/accounts/${grafana.accountId}`), 404, 'NOT_FOUND');
    assert.deepEqual(await listed(other), []);
    const own = await make(other);
    assert.ok(server.admits(own.user, own.password, 'other'));
    assert.equal((await listed(api)).length, 1);
    assert.ok(server.admits(grafana.user, grafana.password, 'default'));
  });

  await t.test('one that fails halfway is not there, wherever it fails, and nothing of it is left', async () => {
    const had = server.policiesOfAccounts.length;
    for (const halfway of [/^CREATE USER/, /RESTRICTIVE/, /^GRANT/, /^ALTER USER/]) {
      server.fault = (sql) => (halfway.test(sql) ? 'refused' : undefined);
      problem(await api.post('/sql/accounts', {}), 503, 'UNAVAILABLE');
      assert.equal((await listed(api)).length, 1);
      server.fault = () => undefined;
      await until(() => server.accounts.length === 2 && server.policiesOfAccounts.length === had);
    }
  });

  await t.test('the command line and the client make, list and delete', async () => {
    const env = { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY };
    const made = await statefold(env, dataDirectory, 'sql-accounts', 'create', '--name', 'Metabase', '--json');
    const { accountId, user, password } = JSON.parse(made.out) as Made;
    assert.ok(server.admits(user, password, 'default'));
    assert.match(
      (await statefold(env, dataDirectory, 'sql-accounts', 'list')).out,
      new RegExp(`${accountId}  Metabase`),
    );
    const unconfirmed = await statefold(env, dataDirectory, 'sql-accounts', 'delete', accountId);
    assert.equal(unconfirmed.code, 1);
    const deleted = await statefold(env, dataDirectory, 'sql-accounts', 'delete', accountId, '--yes');
    assert.equal(deleted.out, `Account ${accountId} is deleted.\n`);
    assert.ok(!server.users.has(user));

    const { sqlAccounts } = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    const own = await sqlAccounts.create({ name: 'a notebook' });
    const ids: string[] = [];
    for await (const account of sqlAccounts.list()) ids.push(account.accountId);
    assert.ok(ids.includes(own.accountId));
    await sqlAccounts.delete(own.accountId);
    problem(await api.delete(`/sql/accounts/${own.accountId}`), 404, 'NOT_FOUND');
  });

  await t.test('a suspended tenant’s lets nobody in until that is taken back', async () => {
    const suspend = (suspended: boolean): Promise<Answer> =>
      admin(service, 'PATCH', '/admin/tenants/default', { suspended });
    // The server is away at first.
    let refused = 0;
    server.fault = (sql) => (sql.includes('HOST NONE') && refused++ < 2 ? 'refused' : undefined);
    success(await suspend(true), 200);
    await until(() => server.users.get(grafana.user)?.isOpen === false);
    await until(() => server.users.get(grafana.user)?.reads.length === 0);
    success(await suspend(false), 200);
    await until(() => server.admits(grafana.user, grafana.password, 'default'));
    assert.ok(refused >= 2);
  });

  await t.test(
    'one that is deleted while the server is away is no longer listed, and dropped when it is back',
    async () => {
      const gone = await make(api);
      server.fault = (sql) => (sql.startsWith('DROP') ? 'refused' : undefined);
      problem(await api.delete(`/sql/accounts/${gone.accountId}`), 503, 'UNAVAILABLE');
      assert.deepEqual(
        (await listed(api)).map(({ accountId }) => accountId),
        [grafana.accountId],
      );
      server.fault = () => undefined;
      await until(() => !server.users.has(gone.user));
      await until(async () => (await api.delete(`/sql/accounts/${gone.accountId}`)).status === 404);
    },
  );

  await t.test('a service that is killed in the middle goes on where it was', async () => {
    const deleted = await make(api, 'deleted');
    let hanging = 0;
    server.fault = (sql) => (sql.startsWith('DROP ROW POLICY') ? (hanging++, 'hangs') : undefined);
    const lost = service.request('DELETE', `/sql/accounts/${deleted.accountId}`).catch(() => undefined);
    await until(() => hanging === 1);
    await service.kill();
    await lost;
    assert.ok(!server.users.has(deleted.user), 'the user goes first');
    assert.ok(server.policiesOfAccounts.some((policy) => policy.startsWith(deleted.user)));
    // Of a service that made an account, and lost its data.
    server.fault = () => undefined;
    server.users.set('statefold_account_default_00000000000000aa', { passwordHash: '', isOpen: true, reads: [] });
    server.users.set('statefold_backup', { passwordHash: '', isOpen: true, reads: [] });
    // One that a former server had.
    server.users.delete(grafana.user);
    service = await start();
    api = new Api(service);
    await until(() => !server.policiesOfAccounts.some((policy) => policy.startsWith(deleted.user)));
    await until(() => server.admits(grafana.user, grafana.password, 'default'));
    await until(() => !server.users.has('statefold_account_default_00000000000000aa'));
    assert.ok(server.users.has('statefold_backup'), 'users of others are left');

    server.fault = (sql) => (sql.includes('HOST ANY') ? (hanging++, 'hangs') : undefined);
    hanging = 0;
    const making = service.post('/sql/accounts', { name: 'half' }).catch(() => undefined);
    await until(() => hanging === 1);
    await service.kill();
    await making;
    server.fault = () => undefined;
    service = await start();
    api = new Api(service);
    await until(async () => (await listed(api)).length === 2);
    const half = (await listed(api)).find(({ name }) => name === 'half');
    success(await api.delete(`/sql/accounts/${half?.accountId ?? ''}`), 204);
    await until(() => server.admits(grafana.user, grafana.password, 'default'));
  });

  await t.test('the 21st is refused, also of many at once', async () => {
    const answers = await Promise.all(Array.from({ length: 22 }, () => api.post('/sql/accounts', {})));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [
      ...Array.from({ length: 19 }, () => 201),
      507,
      507,
      507,
    ]);
    const refused = answers.find(({ status }) => status === 507)?.json<Record<string, unknown>>();
    assert.deepEqual([refused?.['quota'], refused?.['usage'], refused?.['limit']], ['sqlAccounts', 20, 20]);
    const { accountId = '' } = (await listed(api))[0] ?? {};
    success(await api.delete(`/sql/accounts/${accountId}`), 204);
    success(await api.post('/sql/accounts', {}), 201);
  });

  await t.test('those of a deleted tenant go before its rows, and before another tenant of its id', async () => {
    const other = '/admin/tenants/other';
    server.fault = (sql) => (sql.startsWith('DROP') ? 'refused' : undefined);
    const answer = await admin(service, 'DELETE', other);
    problem(answer, 503, 'UNAVAILABLE');
    assert.equal((await admin(service, 'GET', other)).status, 200);
    server.fault = () => undefined;
    success(await admin(service, 'DELETE', other), 204);
    assert.ok(!server.accounts.some((name) => name.includes('_other_')));
    assert.deepEqual(await listed(await tenant(service, 'other')), []);
  });

  await t.test('the user that a tenant asks as goes with the tenant, whatever is away meanwhile', async () => {
    const askedAs = async (tenantId: string): Promise<string> => {
      await (await tenant(service, tenantId)).post('/sql', { query: 'SELECT 1' });
      const user = `statefold_tenant_${tenantId}`;
      assert.ok(server.users.has(user));
      return user;
    };
    const isGone = (user: string): boolean =>
      !server.users.has(user) && ![...server.policies.keys()].some((policy) => policy.startsWith(`${user}_`));
    const kept = await askedAs('kept');
    const gone = await askedAs('gone');
    success(await admin(service, 'DELETE', '/admin/tenants/gone'), 204);
    await until(() => isGone(gone));
    // A later tenant of the id asks as one that is made again.
    assert.equal(await askedAs('gone'), gone);

    const late = await askedAs('late');
    let refused = 0;
    server.fault = (sql) => (sql.includes(late) && sql.startsWith('DROP') ? (refused++, 'refused') : undefined);
    success(await admin(service, 'DELETE', '/admin/tenants/late'), 204);
    await until(() => refused > 0);
    await service.kill();
    server.fault = () => undefined;
    assert.ok(server.users.has(late));
    service = await start();
    await until(() => isGone(late));
    assert.ok(server.users.has(kept) && server.users.has(gone), 'those of tenants that there are stay');
  });
});

test('the embedded engine, and a service without a read store, have no accounts and say so', async (t) => {
  for (const [readStore, code, says] of [
    [true, 'SQL_NOT_ISOLATED', /CLICKHOUSE_URL/],
    [false, 'READ_STORE_DISABLED', /READ_STORE/],
  ] as const) {
    const api = new Api(await startService(t, { readStore }));
    for (const answer of [await api.post('/sql/accounts', {}), await api.get('/sql/accounts')]) {
      assert.match(problem(answer, 501, code).detail ?? '', says);
    }
    assert.equal((await api.delete('/sql/accounts/0123456789abcdef')).status, 404);
  }
});

test('the console makes accounts for SQL where the service has them', { skip: needsChromium }, async (t) => {
  const { server, start } = await openWorld(t);
  const service = await start();
  const api = new Api(service);
  const browser = await openChromium(t);
  const page = await opened(t, browser, service);
  await page.getByRole('navigation').getByRole('link', { name: 'SQL accounts' }).click();
  await page.getByRole('heading', { name: 'There are no accounts for SQL' }).waitFor();
  await page.getByRole('button', { name: 'New account' }).click();
  await page.getByLabel('What it is for').fill('Grafana');
  await page.keyboard.press('Enter');
  const shown = page.getByRole('dialog', { name: 'The password of the account' });
  const password = (await shown.locator('pre').innerText()).trim();
  const [account] = await listed(api);
  assert.equal(account?.name, 'Grafana');
  assert.ok(server.admits(account.user ?? '', password, 'default'));
  await assertAccessible(page);
  await page.getByRole('button', { name: 'I have kept it' }).click();
  await page.getByRole('list', { name: 'Accounts' }).getByText('Grafana').waitFor();
  assert.ok(!(await page.content()).includes(password));
  await page.setViewportSize({ width: 380, height: 800 });
  await assertAccessible(page);
  assert.equal(
    await page.evaluate("document.querySelector('#main').scrollWidth - document.querySelector('#main').clientWidth"),
    0,
  );
  await page.getByRole('button', { name: 'Delete Grafana' }).click();
  await page.getByRole('button', { name: 'Delete it' }).click();
  await page.getByRole('heading', { name: 'There are no accounts for SQL' }).waitFor();
  assert.deepEqual(await listed(api), []);

  const without = await startService(t, { readStore: true });
  const other = await opened(t, browser, without);
  await other.getByRole('link', { name: 'SQL', exact: true }).waitFor();
  assert.equal(await other.getByRole('link', { name: 'SQL accounts' }).count(), 0);
  await other.goto(`${without.url}/console/sql-accounts`);
  await other.getByRole('heading', { name: 'The service does not have this' }).waitFor();
});
