import { StatefoldError } from '../../core/errors.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import { SqlRefusedError } from '../tenant-sql.js';

const NO_ACCESS = 497;
const ACCESS_STORAGE_READONLY = 495;
const NO_STORAGE = 514;
const DEADLINE_MS = 30_000;

/** The endpoint as it is now. @throws StatefoldError UNAVAILABLE */
export function reached(endpoint: () => ClickHouseEndpoint | undefined): ClickHouseEndpoint {
  const now = endpoint();
  if (now === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is away');
  return now;
}

/** Posts a statement as a user. @throws StatefoldError UNAVAILABLE where there is no answer */
export async function post(
  target: URL,
  { user, password }: Pick<ClickHouseEndpoint, 'user' | 'password'>,
  sql: string,
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch(target, {
      method: 'POST',
      body: sql,
      headers: {
        'X-ClickHouse-User': user,
        'X-ClickHouse-Key': password,
        'Content-Type': 'text/plain; charset=utf-8',
      },
      signal,
    });
  } catch (error) {
    throw new StatefoldError('UNAVAILABLE', 'The read store gave no answer', { cause: error });
  }
}

/**
 * Runs statements about users one after the other, as the service's own user, and gives the answer of the last one.
 * @throws StatefoldError SQL_NOT_ISOLATED where that user may not, UNAVAILABLE where one fails otherwise: those behind it are not run
 */
export async function runAsOwner(endpoint: ClickHouseEndpoint, statements: readonly string[]): Promise<string> {
  let text = '';
  for (const sql of statements) {
    const response = await post(new URL(endpoint.url), endpoint, sql, AbortSignal.timeout(DEADLINE_MS));
    text = await textOf(response);
    if (!response.ok) throw failureOf(endpoint, refusedBy(response, text));
  }
  return text;
}

async function textOf(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw new StatefoldError('UNAVAILABLE', 'The read store broke off its answer', { cause: error });
  }
}

function failureOf({ user }: ClickHouseEndpoint, { engineCode, message }: SqlRefusedError): StatefoldError {
  if ([NO_ACCESS, ACCESS_STORAGE_READONLY, NO_STORAGE].includes(engineCode))
    return new StatefoldError(
      'SQL_NOT_ISOLATED',
      `SQL of tenants needs users and row policies on the ClickHouse server, which its user ${user} may not make: grant it CREATE USER, ALTER USER, DROP USER, SHOW USERS, CREATE ROW POLICY, DROP ROW POLICY, SHOW ROW POLICIES and the tables WITH GRANT OPTION. ClickHouse says: ${message.slice(0, 300)}`,
    );
  return new StatefoldError(
    'UNAVAILABLE',
    `The read store could not see to the user of the tenant: ${message.slice(0, 500)}`,
  );
}

/** What the server says of a statement that it refuses. */
export function refusedBy(response: Response, text: string): SqlRefusedError {
  const code = Number(response.headers.get('x-clickhouse-exception-code') ?? /Code: (\d+)\./.exec(text)?.[1] ?? 0);
  return new SqlRefusedError(code, text.replace(/ \(version [^)]*\)\s*$/, '').trim());
}
