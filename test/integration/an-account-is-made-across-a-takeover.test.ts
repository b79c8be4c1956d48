// An account for SQL is being made when its tenant is taken over: the new owner brings it to where the catalog has it, and the
// former one, which hears of that late, leaves nothing behind. The server has users of the test, and the parser of the real engine.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { createTenant } from '../../src/catalog/tenants.js';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { ServerAccounts } from '../../src/read-store/clickhouse/server-accounts.js';
import { AccountKeeper } from '../../src/sql-accounts/account-keeper.js';
import { TenantAccounts } from '../../src/sql-accounts/tenant-accounts.js';
import { AccountServer } from '../support/account-server.js';
import { openCatalog } from '../support/ground.js';
import { temporaryDirectory, until } from '../support/service.js';
import { startEngine } from './read-store-fixture.js';

const LIMITS = { seconds: 5, rows: 1000, bytes: 1_000_000, memoryBytes: 256 * 1024 * 1024 };

interface Process {
  readonly keeper: AccountKeeper;
  readonly accounts: TenantAccounts;
}
interface World {
  readonly server: AccountServer;
  /** The catalog of the first process. */
  readonly first: FencedCatalog;
  readonly one: Process;
  readonly two: Process;
  /** From here on the second process has the tenant. */
  readonly takeOver: () => void;
}

async function openWorld(t: TestContext): Promise<World> {
  const { server, access } = await AccountServer.start(t, startEngine(t));
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  let owner = 'one';
  const processOf = (name: string, catalog: FencedCatalog): Process => {
    const accounts = new ServerAccounts({
      endpoint: () => access,
      ensureSchema: () => Promise.resolve(),
      limits: LIMITS,
      cluster: undefined,
    });
    const keeper = new AccountKeeper({
      ...{ catalog, accounts, logger: silentLogger, owns: () => owner === name },
      backOffMs: { first: 10, last: 50 },
    });
    t.after(() => keeper.close());
    return { keeper, accounts: new TenantAccounts({ catalog, accounts, keeper, now: () => Date.now() }) };
  };
  const [first, second] = [
    await openCatalog(t, log, 'one', { shared: true }),
    await openCatalog(t, log, 'two', { shared: true }),
  ];
  await createTenant(first, { tenantId: 'acme', name: 'Acme' });
  await second.caughtUp();
  return {
    ...{ server, first, one: processOf('one', first), two: processOf('two', second) },
    takeOver: () => {
      owner = 'two';
    },
  };
}

for (const fate of ['goes on', 'fails'] as const)
  test(`an account is made across a takeover, where the statement of the former owner ${fate}`, async (t) => {
    const { server, first, one, two, takeOver } = await openWorld(t);
    let [isHeld, mayGoOn] = [false, false];
    server.before = async (sql) => {
      if (isHeld || !sql.includes('HOST ANY')) return;
      isHeld = true;
      await until(() => mayGoOn);
    };
    const made = one.accounts.create('acme', { createdBy: 'key' });
    made.catch(() => undefined);
    await until(() => isHeld);
    takeOver();
    two.keeper.look();
    const [user = ''] = server.accounts;
    await until(() => server.users.get(user)?.isOpen === true);
    if (fate === 'fails') server.fault = (sql) => (sql.includes('HOST ANY') ? 'refused' : undefined);
    mayGoOn = true;
    if (fate === 'goes on') {
      const { password } = await made;
      assert.ok(server.admits(user, password, 'acme'));
      assert.equal(two.accounts.list('acme').length, 1);
      await two.accounts.remove('acme', (await made).account.accountId);
    } else {
      await assert.rejects(made);
      server.fault = () => undefined;
    }
    await until(() => server.accounts.length === 0 && server.policiesOfAccounts.length === 0);
    await until(async () => {
      await first.caughtUp();
      return first.list('sqlAccount', 'acme').length === 0;
    });
  });
