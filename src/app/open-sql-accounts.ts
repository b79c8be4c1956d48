import { AccountKeeper } from '../sql-accounts/account-keeper.js';
import { TenantAccounts } from '../sql-accounts/tenant-accounts.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';

/** Accounts for SQL: what tenants ask of them, and what keeps the ClickHouse server in line. */
export interface OpenedSqlAccounts {
  readonly sqlAccounts: TenantAccounts;
  /** Begins to look at what differs on the server. */
  readonly start: () => void;
}

export function openSqlAccounts(
  { logger, clock, shutdown }: Ground,
  { ownership }: Storage,
  { catalog }: OpenedCatalog,
  { sqlAccounts: accounts }: OpenedReadStore,
): OpenedSqlAccounts {
  const owns = (tenantId: string): boolean => ownership.owns(tenantId);
  const keeper = new AccountKeeper({ catalog, accounts, owns, logger });
  shutdown.add('accounts for SQL', () => keeper.close());
  return {
    sqlAccounts: new TenantAccounts({ ...{ catalog, accounts, keeper }, now: () => clock.now() }),
    start: () => {
      ownership.onChange(() => keeper.look());
      keeper.look();
    },
  };
}
