import type { CallOptions, Requests } from './requests.js';
import type { NewSqlAccount, SqlAccount } from './wire.js';

type Options = Omit<CallOptions, 'idempotencyKey'>;

const PAGE = 100;

/** Accounts of the tenant on the ClickHouse server. Its key needs the scope `sql`. */
export class SqlAccounts {
  readonly #client: Requests;

  constructor(client: Requests) {
    this.#client = client;
  }

  /**
   * The answer has the password, which is shown only then. It is sent once: where no answer came, look before you repeat it.
   * @throws RefusedError SQL_NOT_ISOLATED where there are none to be had, QUOTA_EXCEEDED; ClientError
   */
  create(account: { readonly name?: string | undefined } = {}, options: Options = {}): Promise<NewSqlAccount> {
    return this.#client.request('createSqlAccount', { ...options, body: account });
  }

  /** All of them, ascending by id, page by page as they are asked for. @throws ClientError */
  async *list(options: Options = {}): AsyncGenerator<SqlAccount, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#client.request('listSqlAccounts', { ...options, query: { limit: PAGE, cursor } });
      yield* page.accounts;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** From the answer on the server refuses it. @throws RefusedError NOT_FOUND; ClientError */
  async delete(accountId: string, options: Options = {}): Promise<void> {
    await this.#client.request('deleteSqlAccount', { ...options, path: { id: accountId } });
  }
}
