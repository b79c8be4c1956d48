import type { Catalog, SqlAccountEntity } from '../catalog/catalog.js';
import { isClosed } from '../catalog/suspension.js';
import { backOff, type BackOff } from '../core/back-off.js';
import { hasCode } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { OneByOne } from '../core/one-by-one.js';
import { pause } from '../core/pause.js';
import type { AccountOfTenant, SqlAccounts } from '../read-store/sql-accounts.js';

export interface AccountKeeperOptions {
  readonly catalog: Pick<Catalog, 'get' | 'list' | 'count' | 'remove' | 'onChange' | 'caughtUp'>;
  readonly accounts: SqlAccounts;
  /** This process sees to the accounts of the tenant. */
  readonly owns: (tenantId: string) => boolean;
  readonly logger: Logger;
  readonly backOffMs?: BackOff;
}

/** What becomes of an account on the server. */
type Wanted = 'open' | 'suspended' | 'dropped';

const BACK_OFF_MS: BackOff = { first: 500, last: 60_000 };

/**
 * Keeps the accounts of the server as the catalog has them, of the tenants that this process owns: those that are to be there are,
 * those of suspended tenants let nobody in, and what the catalog knows nothing of is dropped, the users of deleted tenants' SQL too. An entry of the catalog is there before
 * its account and goes after it, so wherever a process ends, the next look finds what is left to do.
 */
export class AccountKeeper {
  readonly #options: AccountKeeperOptions;
  /** By accountId, how this process has left it on the server. */
  readonly #kept = new Map<string, Exclude<Wanted, 'dropped'>>();
  readonly #closing = new AbortController();
  #wake = new AbortController();
  #isLookWanted = false;
  #isLooking = false;
  /** The server is changed by one after the other. */
  readonly #inTurn = new OneByOne();

  constructor(options: AccountKeeperOptions) {
    this.#options = options;
    const { catalog } = options;
    catalog.onChange(({ kind, id, value }) => {
      const isOfTenant = value === undefined || catalog.count('sqlAccount', id) > 0;
      if (kind === 'sqlAccount' || (kind === 'tenant' && isOfTenant)) this.look();
    });
  }

  /** Something may differ. It is looked at until nothing does. */
  look(): void {
    if (this.#closing.signal.aborted) return;
    this.#isLookWanted = true;
    this.#wake.abort();
    if (!this.#isLooking) void this.#run();
  }

  /**
   * Resolves when the account is on the server as the catalog has it, or another process is to see to it.
   * @throws StatefoldError UNAVAILABLE, SQL_NOT_ISOLATED
   */
  bring(account: AccountOfTenant): Promise<void> {
    return this.#inTurn.run(() => this.#bring(account));
  }

  /** What is under way on the server is left as it is: the next process goes on with it. */
  close(): void {
    this.#closing.abort();
    this.#wake.abort();
  }

  async #run(): Promise<void> {
    this.#isLooking = true;
    for (let failures = 0; this.#isLookWanted && !this.#closing.signal.aborted;) {
      this.#isLookWanted = false;
      this.#wake = new AbortController();
      try {
        await this.#lookOnce();
        failures = 0;
      } catch (error) {
        if (this.#closing.signal.aborted || this.#mayBeLeft(error)) break;
        if (failures === 0)
          this.#options.logger.warn(
            { err: error },
            'Accounts for SQL could not be brought in line on the ClickHouse server; trying again',
          );
        this.#isLookWanted = true;
        const { signal } = this.#wake;
        await pause(backOff(failures++, this.#options.backOffMs ?? BACK_OFF_MS), { signal });
      }
    }
    this.#isLooking = false;
  }

  /** A server that lets the service make no users has none of its making: it may be used so, as long as nobody wants an account. */
  #mayBeLeft(error: unknown): boolean {
    const refuses = hasCode(error, 'SQL_NOT_ISOLATED');
    return refuses && this.#entries().length === 0 && !this.#isLookWanted;
  }

  /** All accounts, also past one that fails. @throws the first failure */
  async #lookOnce(): Promise<void> {
    const { catalog, accounts, owns } = this.#options;
    const failures: unknown[] = [];
    const there = (await this.#inTurn.run(() => accounts.list())).filter(({ tenantId }) => owns(tenantId));
    const asking = (await this.#inTurn.run(() => accounts.statementUsers())).filter((tenantId) => owns(tenantId));
    // Behind the lists: whoever made an account had its entry in the catalog, and whoever asked the tenant.
    await catalog.caughtUp();
    const ids = new Set(there.map(({ accountId }) => accountId));
    for (const accountId of [...this.#kept.keys()]) if (!ids.has(accountId)) this.#kept.delete(accountId);
    const strangers = there.filter(({ accountId }) => catalog.get('sqlAccount', accountId) === undefined);
    for (const account of [...strangers, ...this.#entries()]) {
      if (this.#closing.signal.aborted) return;
      await this.bring(account).catch((error: unknown) => failures.push(error));
    }
    for (const tenantId of asking)
      await this.#inTurn.run(() => this.#dropWithTenant(tenantId)).catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
  }

  /** One that is asked with again, by a later tenant of the id, is made again. */
  async #dropWithTenant(tenantId: string): Promise<void> {
    const { catalog, accounts, owns } = this.#options;
    if (catalog.get('tenant', tenantId) === undefined && owns(tenantId)) await accounts.dropStatementUser(tenantId);
  }

  #entries(): SqlAccountEntity[] {
    const { catalog, owns } = this.#options;
    return catalog
      .list('sqlAccount', undefined)
      .map(({ value }) => value)
      .filter(({ tenantId }) => owns(tenantId));
  }

  /** What was decided meanwhile, here or by a process that has the tenant by now, is done before it ends. */
  async #bring(account: AccountOfTenant): Promise<void> {
    const { catalog, owns } = this.#options;
    if (!owns(account.tenantId)) return void this.#kept.delete(account.accountId);
    let is: Wanted | undefined = this.#kept.get(account.accountId);
    this.#kept.delete(account.accountId);
    for (;;) {
      const entry = catalog.get('sqlAccount', account.accountId)?.value;
      const wanted = this.#wanted(entry);
      if (is === wanted) break;
      await this.#make(account, entry, wanted);
      is = wanted;
      await catalog.caughtUp();
    }
    if (is !== 'dropped') this.#kept.set(account.accountId, is);
  }

  #wanted(entry: SqlAccountEntity | undefined): Wanted {
    const { catalog } = this.#options;
    if (entry === undefined || entry.deletedAt !== undefined) return 'dropped';
    if (catalog.get('tenant', entry.tenantId) === undefined) return 'dropped';
    return isClosed(catalog, entry.tenantId) ? 'suspended' : 'open';
  }

  async #make(account: AccountOfTenant, entry: SqlAccountEntity | undefined, wanted: Wanted): Promise<void> {
    const { accounts, catalog } = this.#options;
    if (entry !== undefined && wanted === 'open') return accounts.open(entry);
    if (entry !== undefined && wanted === 'suspended') return accounts.suspend(entry);
    await accounts.drop(account);
    await catalog.remove('sqlAccount', account.accountId);
  }
}
