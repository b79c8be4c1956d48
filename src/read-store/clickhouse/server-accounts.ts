import type { ClickHouseEndpoint } from '../endpoint.js';
import type { AccountAccess, AccountOfTenant, SqlAccount, SqlAccounts } from '../sql-accounts.js';
import type { SqlLimits } from '../tenant-sql.js';
import {
  dropStatements,
  namesStatement,
  openStatements,
  settingsOfTools,
  statementUserOf,
  suspendStatements,
  type AccountTarget,
  type TenantUser,
} from './account-statements.js';
import { reached, runAsOwner } from './owner-statements.js';

export interface ServerAccountsOptions {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Makes the tables that are missing. @throws StatefoldError UNAVAILABLE */
  readonly ensureSchema: () => Promise<void>;
  /** Of each statement of an account. */
  readonly limits: SqlLimits;
  readonly cluster: string | undefined;
}

/** Ids of tenants have no `_`. */
const TENANT_ID = /^[a-z0-9-]+$/;
const NAME = /^([a-z0-9-]+)_([0-9a-f]{16})$/;

/** Accounts as users of a ClickHouse server. */
export class ServerAccounts implements SqlAccounts {
  readonly #options: ServerAccountsOptions;

  constructor(options: ServerAccountsOptions) {
    this.#options = options;
  }

  access(): AccountAccess {
    const { url, database } = reached(this.#options.endpoint);
    return { url, database };
  }

  userOf({ tenantId, accountId }: AccountOfTenant): string {
    return `${this.#prefix}${tenantId}_${accountId}`;
  }

  async open(account: SqlAccount): Promise<void> {
    const { ensureSchema, limits } = this.#options;
    await ensureSchema();
    await this.#run((target) => openStatements(target, this.#user(account), settingsOfTools(limits)));
  }

  async suspend(account: SqlAccount): Promise<void> {
    await this.#run((target) => suspendStatements(target, this.#user(account)));
  }

  async drop(account: AccountOfTenant): Promise<void> {
    await this.#run((target) => dropStatements(target, this.userOf(account)));
  }

  async list(): Promise<readonly AccountOfTenant[]> {
    const names = await this.#run(() => [namesStatement(this.#prefix)]);
    return names.split('\n').flatMap((name) => {
      const [, tenantId, accountId] = NAME.exec(name) ?? [];
      return tenantId === undefined || accountId === undefined ? [] : [{ tenantId, accountId }];
    });
  }

  async statementUsers(): Promise<readonly string[]> {
    const names = await this.#run(({ database }) => [namesStatement(statementUserOf(database, ''))]);
    return names.split('\n').filter((name) => TENANT_ID.test(name));
  }

  async dropStatementUser(tenantId: string): Promise<void> {
    await this.#run((target) => dropStatements(target, statementUserOf(target.database, tenantId)));
  }

  /** One server may hold the databases of several services. */
  get #prefix(): string {
    return `${reached(this.#options.endpoint).database}_account_`;
  }

  #user(account: SqlAccount): TenantUser {
    const { tenantId, passwordHash } = account;
    return { name: this.userOf(account), tenantId, secret: { passwordHash } };
  }

  #run(statements: (target: AccountTarget) => readonly string[]): Promise<string> {
    const endpoint = reached(this.#options.endpoint);
    const { database } = endpoint;
    return runAsOwner(endpoint, statements({ database, cluster: this.#options.cluster }));
  }
}
