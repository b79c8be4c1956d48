import { hash, randomBytes } from 'node:crypto';
import type { Catalog, SqlAccountEntity } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { Tally } from '../core/tally.js';
import type { AccountAccess, SqlAccounts } from '../read-store/sql-accounts.js';
import type { AccountKeeper } from './account-keeper.js';

/** Accounts of a tenant. */
const MAX_ACCOUNTS = 20;
const ID_BYTES = 8;
const PASSWORD_BYTES = 24;

export interface TenantAccountsOptions {
  readonly catalog: Catalog;
  readonly accounts: Pick<SqlAccounts, 'access' | 'userOf'>;
  readonly keeper: Pick<AccountKeeper, 'bring' | 'look'>;
  readonly now: () => number;
}

/** What a tool connects with. */
export interface AccountShown extends AccountAccess {
  readonly account: SqlAccountEntity;
  /** Of the ClickHouse server. */
  readonly user: string;
}

export interface NewAccount {
  readonly name?: string | undefined;
  /** keyId of the key that asks. */
  readonly createdBy: string;
}

/**
 * The accounts with which a tenant's tools connect to the ClickHouse server. In the process that owns the tenant.
 * @throws StatefoldError SQL_NOT_ISOLATED or READ_STORE_DISABLED where there are none to be had
 */
export class TenantAccounts {
  readonly #options: TenantAccountsOptions;
  /** By tenant, how many are about to be in the catalog. */
  readonly #beingMade = new Tally();

  constructor(options: TenantAccountsOptions) {
    this.#options = options;
  }

  /** Resolves when the account can be connected with. The password is kept nowhere. @throws StatefoldError QUOTA_EXCEEDED, UNAVAILABLE: then there is no account */
  async create(tenantId: string, asked: NewAccount): Promise<AccountShown & { readonly password: string }> {
    const { accounts, catalog, keeper, now } = this.#options;
    accounts.access();
    const password = randomBytes(PASSWORD_BYTES).toString('base64url');
    const account: SqlAccountEntity = {
      tenantId,
      accountId: randomBytes(ID_BYTES).toString('hex'),
      ...(asked.name !== undefined && { name: asked.name }),
      createdAt: isoTimestamp(now()),
      createdBy: asked.createdBy,
      passwordHash: hash('sha256', password, 'hex'),
    };
    await this.#withRoom(tenantId, () => catalog.put('sqlAccount', account.accountId, 0, account));
    try {
      await keeper.bring(account);
    } catch (error) {
      // Nobody learns its password.
      await this.#giveUp(account);
      throw error;
    }
    return { ...this.#shown(account), password };
  }

  /** There are accounts to be had here. */
  get areOffered(): boolean {
    try {
      this.#options.accounts.access();
      return true;
    } catch {
      return false;
    }
  }

  /** Ascending by id. */
  list(tenantId: string): readonly AccountShown[] {
    this.#options.accounts.access();
    return this.#entries(tenantId)
      .filter(({ deletedAt }) => deletedAt === undefined)
      .map((account) => this.#shown(account));
  }

  /**
   * Resolves when the server has it no more.
   * @throws StatefoldError NOT_FOUND; UNAVAILABLE while the server is away: it is dropped when that is back, whoever asks again
   */
  async remove(tenantId: string, accountId: string): Promise<void> {
    const account = this.#options.catalog.get('sqlAccount', accountId)?.value;
    if (account?.tenantId !== tenantId)
      throw new StatefoldError('NOT_FOUND', `there is no account for SQL with the id ${accountId}`);
    await this.#giveUp(account);
    await this.#options.keeper.bring(account);
  }

  /** Of a tenant that is being deleted. @throws StatefoldError UNAVAILABLE, SQL_NOT_ISOLATED */
  async removeAll(tenantId: string): Promise<void> {
    for (const { accountId } of this.#entries(tenantId)) await this.remove(tenantId, accountId);
  }

  #entries(tenantId: string): SqlAccountEntity[] {
    return this.#options.catalog.list('sqlAccount', tenantId).map(({ value }) => value);
  }

  #shown(account: SqlAccountEntity): AccountShown {
    const { accounts } = this.#options;
    return { account, user: accounts.userOf(account), ...accounts.access() };
  }

  /** From here on its keeper drops it, and begins again where that fails. */
  async #giveUp({ accountId }: SqlAccountEntity): Promise<void> {
    const { catalog, now } = this.#options;
    await catalog.upsert('sqlAccount', accountId, (account) =>
      account === undefined || account.deletedAt !== undefined
        ? undefined
        : { ...account, deletedAt: isoTimestamp(now()) },
    );
  }

  async #withRoom(tenantId: string, put: () => Promise<void>): Promise<void> {
    const usage = this.#entries(tenantId).length + this.#beingMade.of(tenantId);
    if (usage >= MAX_ACCOUNTS)
      throw new StatefoldError(
        'QUOTA_EXCEEDED',
        `The tenant has ${usage} accounts for SQL, and may have ${MAX_ACCOUNTS}: delete what is not needed.`,
        { details: { quota: 'sqlAccounts', usage, limit: MAX_ACCOUNTS } },
      );
    await this.#beingMade.during(tenantId, put);
  }
}
