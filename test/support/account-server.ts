import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { TABLES } from '../../src/read-store/clickhouse/table-definitions.js';
import type { EmbeddedEngine } from '../../src/read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../../src/read-store/endpoint.js';

/** A user as the server has it. */
interface User {
  passwordHash: string;
  isOpen: boolean;
  /** Tables that it may read. */
  reads: readonly string[];
}

const USER =
  /^(?:CREATE|ALTER) USER (?:IF NOT EXISTS )?`(\w[\w-]*)` IDENTIFIED WITH sha256_(hash|password) BY '([^']*)' HOST (NONE|ANY)/;
const CLOSED = /^ALTER USER `([^`]*)` HOST NONE$/;
const POLICY =
  /^CREATE ROW POLICY OR REPLACE `([^`]*)` ON `[^`]*`\.(\w+) FOR SELECT USING tenant = '([^']*)' AS (PERMISSIVE|RESTRICTIVE) TO `([^`]*)`$/;
const GRANT = /^GRANT (.*) TO `([^`]*)` WITH REPLACE OPTION$/;
const REVOKE = /^REVOKE ALL ON \*\.\* FROM `([^`]*)`$/;
const DROP_USER = /^DROP USER IF EXISTS `([^`]*)`$/;
const DROP_POLICY = /^DROP ROW POLICY IF EXISTS `([^`]*)` ON `[^`]*`\.(\w+)$/;
const LIST = /startsWith\(name, '([^']*)'\)/;
const ABOUT_USERS =
  /^(?:CREATE USER|ALTER USER|CREATE ROW POLICY|GRANT|REVOKE|DROP USER|DROP ROW POLICY)\b|system\.users/;

/**
 * A ClickHouse server with users and row policies: statements about them change what it keeps of users, after the real engine has parsed
 * them; all others are the real engine's, which has no users. It holds at any moment that nobody who may read a table is without its policies.
 */
export class AccountServer {
  readonly users = new Map<string, User>();
  /** `<policy> <table>`, with the user that it is for. */
  readonly policies = new Map<string, { readonly user: string; readonly tenantId: string; readonly kind: string }>();
  /** About users, in their order. */
  readonly statements: string[] = [];
  /** What becomes of a statement: it is not run, and answered with a failure, or not at all. */
  fault: (sql: string) => 'refused' | 'hangs' | undefined = () => undefined;
  /** A statement is run when this resolves. */
  before: (sql: string) => Promise<void> = () => Promise.resolve();
  readonly #engine: ClickHouseEndpoint;
  readonly #failures: unknown[] = [];

  private constructor(engine: ClickHouseEndpoint) {
    this.#engine = engine;
  }

  /** `access`: as the service is to reach it. */
  static async start(
    t: Pick<TestContext, 'after'>,
    engine: Pick<EmbeddedEngine, 'ready' | 'endpoint'>,
  ): Promise<{ readonly server: AccountServer; readonly access: ClickHouseEndpoint }> {
    await engine.ready(60_000);
    const endpoint = engine.endpoint();
    assert.ok(endpoint !== undefined);
    const server = new AccountServer(endpoint);
    const http = createServer((request, response) => void server.#serve(request, response));
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    t.after(() => {
      http.closeAllConnections();
      http.close();
      assert.deepEqual(server.#failures, []);
    });
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    return { server, access: { ...endpoint, url } };
  }

  /** Users and policies of accounts, and of no tenant's own SQL. */
  get accounts(): readonly string[] {
    return [...this.users.keys()].filter((name) => name.includes('_account_'));
  }

  get policiesOfAccounts(): readonly string[] {
    return [...this.policies.keys()].filter((name) => name.includes('_account_'));
  }

  /** Whether a tool gets in, and reads the rows of this tenant alone. */
  admits(name: string, password: string, tenantId: string): boolean {
    const user = this.users.get(name);
    if (user?.isOpen !== true || user.passwordHash !== sha256(password)) return false;
    const policies = [...this.policies.values()].filter((policy) => policy.user === name);
    assert.deepEqual([...new Set(policies.map((policy) => policy.tenantId))], [tenantId]);
    return user.reads.length === 4;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await buffer(request);
      const sql = body.toString('utf8');
      if (ABOUT_USERS.test(sql)) await this.#aboutUsers(sql, response);
      else await this.#forward(request, body, response);
    } catch (error) {
      // A client that has gone, or an engine that the test has stopped.
      if (error instanceof assert.AssertionError) this.#failures.push(error);
      response.destroy();
    }
  }

  async #aboutUsers(sql: string, response: ServerResponse): Promise<void> {
    await this.#parsed(sql);
    await this.before(sql);
    const fault = this.fault(sql);
    if (fault === 'hangs') return;
    if (fault === 'refused') {
      response.writeHead(500, { 'X-ClickHouse-Exception-Code': '999' });
      return void response.end('Code: 999. DB::Exception: Coordination error. (KEEPER_EXCEPTION)');
    }
    this.statements.push(sql);
    const answer = this.#run(sql);
    this.#assertHeldApart(sql);
    response.end(answer);
  }

  async #parsed(sql: string): Promise<void> {
    const answer = await fetch(this.#engine.url, {
      method: 'POST',
      body: `EXPLAIN AST ${sql.replace(/ FORMAT TSV$/, '')}`,
      headers: { 'X-ClickHouse-User': this.#engine.user, 'X-ClickHouse-Key': this.#engine.password },
    });
    const told = await answer.text();
    // An engine that is being stopped says nothing, or that its folder is gone; what it can't parse it explains.
    if (!answer.ok && (told.trim() === '' || told.startsWith('ENOENT'))) throw new Error('the engine has stopped');
    assert.equal(answer.status, 200, `${sql}: ${told}`);
  }

  #run(sql: string): string {
    const [, name = ''] =
      USER.exec(sql) ?? CLOSED.exec(sql) ?? REVOKE.exec(sql) ?? DROP_USER.exec(sql) ?? DROP_POLICY.exec(sql) ?? [];
    const [, , kind, secret = '', host] = USER.exec(sql) ?? [];
    if (kind !== undefined) {
      const passwordHash = kind === 'hash' ? secret : sha256(secret);
      if (sql.startsWith('ALTER')) Object.assign(this.#user(name), { passwordHash, isOpen: host === 'ANY' });
      else if (!this.users.has(name)) this.users.set(name, { passwordHash, isOpen: false, reads: [] });
    } else if (CLOSED.test(sql)) this.#user(name).isOpen = false;
    else if (REVOKE.test(sql)) this.#user(name).reads = [];
    else if (DROP_USER.test(sql)) this.users.delete(name);
    else if (DROP_POLICY.test(sql)) this.policies.delete(`${name} ${DROP_POLICY.exec(sql)?.[2] ?? ''}`);
    else if (POLICY.test(sql)) {
      const [, policy = '', table = '', tenantId = '', made = '', user = ''] = POLICY.exec(sql) ?? [];
      this.#user(user);
      this.policies.set(`${policy} ${table}`, { user, tenantId, kind: made });
    } else if (GRANT.test(sql)) {
      const [, rights = '', user = ''] = GRANT.exec(sql) ?? [];
      this.#user(user).reads = rights
        .split(', ')
        .map((right) => /^SELECT ON `[^`]*`\.(\w+)$/.exec(right)?.[1] ?? right);
    } else return this.#listed(sql);
    return '';
  }

  #listed(sql: string): string {
    const [, prefix] = LIST.exec(sql) ?? [];
    assert.ok(prefix !== undefined, sql);
    const policies = [...this.policies.keys()].map((key) => key.replace(/_(permissive|restrictive) \w+$/, ''));
    return [...new Set([...this.users.keys(), ...policies])]
      .filter((name) => name.startsWith(prefix))
      .map((name) => `${name.slice(prefix.length)}\n`)
      .join('');
  }

  #user(name: string): User {
    const user = this.users.get(name);
    assert.ok(user !== undefined, `there is no user ${name}`);
    return user;
  }

  #assertHeldApart(sql: string): void {
    for (const [name, { reads }] of this.users)
      for (const table of reads) {
        assert.ok((TABLES as readonly string[]).includes(table) && table !== 'watermarks', `${name} reads ${table}`);
        for (const kind of ['permissive', 'restrictive']) {
          const policy = this.policies.get(`${name}_${kind} ${table}`);
          assert.equal(policy?.kind, kind.toUpperCase(), `${name} on ${table} behind ${sql}`);
          assert.equal(policy.user, name);
        }
      }
  }

  async #forward(request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers;
    const answer = await fetch(`${this.#engine.url}${request.url ?? '/'}`, {
      method: request.method ?? 'GET',
      headers: Object.entries(headers).flatMap(([name, value]): [string, string][] =>
        name === 'transfer-encoding' ? [] : [[name, String(value)]],
      ),
      ...(body.length > 0 && { body: new Uint8Array(body) }),
    });
    const content = Buffer.from(await answer.arrayBuffer());
    const told = [...answer.headers].filter(
      ([name]) => !/^(content-(encoding|length)|transfer-encoding|connection|keep-alive)$/.test(name),
    );
    response.writeHead(answer.status, Object.fromEntries(told)).end(content);
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
