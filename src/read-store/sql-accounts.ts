/**
 * The port of accounts for SQL: users of the ClickHouse server with which a tenant's tools connect to it directly, and read that
 * tenant's rows alone. Everything may be asked for again. Where it fails, it may be done in part: an account that is being opened
 * can't be connected with until it is whole, one that is being dropped is never without its row policies.
 * @throws StatefoldError UNAVAILABLE while the server is away, SQL_NOT_ISOLATED where it makes no users
 */
export interface SqlAccounts {
  /** Where tools connect. @throws StatefoldError SQL_NOT_ISOLATED, READ_STORE_DISABLED where there are no accounts */
  access(): AccountAccess;
  /** The name of its user. */
  userOf(account: AccountOfTenant): string;
  /** Whoever knows its password reads the tenant's rows. */
  open(account: SqlAccount): Promise<void>;
  /** Nobody connects as it, and who is connected reads nothing more. */
  suspend(account: SqlAccount): Promise<void>;
  drop(account: AccountOfTenant): Promise<void>;
  /** All accounts of this service that the server has anything of. */
  list(): Promise<readonly AccountOfTenant[]>;
  /** Tenants of which the server has the user that their `POST /sql` is asked as. */
  statementUsers(): Promise<readonly string[]>;
  dropStatementUser(tenantId: string): Promise<void>;
}

export interface AccountOfTenant {
  readonly tenantId: string;
  /** 16 hex digits. */
  readonly accountId: string;
}

export interface SqlAccount extends AccountOfTenant {
  /** Hex SHA-256 of its password. */
  readonly passwordHash: string;
}

export interface AccountAccess {
  /** Of ClickHouse's HTTP interface, as the service reaches it. */
  readonly url: string;
  readonly database: string;
}

/** Where there are no accounts: `refusal` says why. Those that the catalog has from a server of before are left, until somebody deletes them. */
export function noAccounts(refusal: () => Error): SqlAccounts {
  const refuse = (): never => {
    throw refusal();
  };
  return {
    access: refuse,
    userOf: refuse,
    open: () => Promise.resolve(),
    suspend: () => Promise.resolve(),
    drop: () => Promise.resolve(),
    list: () => Promise.resolve([]),
    statementUsers: () => Promise.resolve([]),
    dropStatementUser: () => Promise.resolve(),
  };
}
