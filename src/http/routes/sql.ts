import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { placeOfPosition } from '../../feed/feed-item.js';
import type { KnownState } from '../../deployments/described-states.js';
import type { DeclaredStates } from '../../read-store/declared-columns.js';
import { SqlRefusedError, type SqlAnswer } from '../../read-store/tenant-sql.js';
import { drained } from '../answer.js';
import { json } from '../bodies.js';
import { untilClientLeaves } from '../client-leaves.js';
import { WAIT_FOR } from '../position-waits.js';
import { route } from './dependencies.js';

const MAX_QUERY = 256 * 1024;
const MAX_PARAMETER = 64 * 1024;
/** What was read of a longer one is another number. */
const exactNumber = z
  .number()
  .refine(
    (value) => !Number.isInteger(value) || Number.isSafeInteger(value),
    'is past 2^53, where numbers are rounded: send it as a string',
  );
const DEFAULT_FORMAT = 'JSON';
const USUAL_WAIT_SECONDS = 5;
/** For rows of a former tenant of that id to be removed. */
const FORMER_MS = 10_000;
/** A client that takes nothing for so long is cut off. */
const STALL_MS = 60_000;

const SqlQuery = z.strictObject({
  query: z.string().min(1).max(MAX_QUERY).describe('One statement of ClickHouse’s SQL.'),
  format: z
    .string()
    .regex(
      /^[A-Za-z][A-Za-z0-9]{0,63}$/,
      'must be the name of a format of ClickHouse, e.g. JSON, CSVWithNames, Parquet',
    )
    .optional()
    .describe(
      `Of the answer, unless the statement ends with FORMAT: a format of ClickHouse, ${DEFAULT_FORMAT} unless it is given.`,
    ),
  parameters: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be named by letters, digits and _'),
      z.union([z.string().max(MAX_PARAMETER), exactNumber, z.boolean()]),
    )
    .optional()
    .describe('Values of the placeholders {name:Type} of the statement.'),
});

const querySql = route({
  method: 'POST',
  path: '/sql',
  operationId: 'querySql',
  tag: 'SQL',
  summary: 'Ask the tenant’s events and states by SQL: the answer comes as ClickHouse gives it',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'sql',
  lasting: true,
  query: WAIT_FOR,
  strictQuery: true,
  body: json(SqlQuery, {
    query: 'SELECT event_type, count() AS events FROM events GROUP BY event_type ORDER BY event_type',
    format: 'JSONEachRow',
  }),
  answers: { 200: { media: 'application/octet-stream' } },
  errors: ['NOT_FOUND', 'READ_STORE_DISABLED', 'SQL_REFUSED', 'SQL_NOT_ISOLATED', 'NOT_CAUGHT_UP', 'RATE_LIMITED'],
  serve: async ({ sql, tenants, deployments }, call) => {
    const { query, format = DEFAULT_FORMAT, parameters = {} } = await call.body();
    const { waitFor, waitSeconds = USUAL_WAIT_SECONDS } = call.query();
    const release = sql.quota.take(call.tenantId);
    try {
      // The sink follows a tenant that is open.
      await tenants.open(call.tenantId);
      await sql.withoutFormer(call.tenantId, FORMER_MS);
      if (waitFor !== undefined && waitFor > 0) await caughtUp(sql.flush, call.tenantId, waitFor, waitSeconds);
      const statement = {
        query,
        format,
        parameters: new Map(Object.entries(parameters).map(([name, value]) => [name, String(value)])),
        states: (await deployments.knownStates(call.tenantId)).map(declared),
      };
      await untilClientLeaves(call.response, async ({ signal }) =>
        send(call.response, call.requestId, await sql.tenants.query(call.tenantId, statement, signal)),
      );
    } catch (error) {
      throw error instanceof SqlRefusedError ? refused(error) : error;
    } finally {
      release();
    }
  },
});

const declared = ({ aggregateType, className, schema }: KnownState): DeclaredStates =>
  aggregateType === undefined
    ? { table: 'projection_states', owner: className, schema }
    : { table: 'aggregate_states', owner: aggregateType, schema };

async function caughtUp(
  flush: (tenantId: string, offset: number, deadlineMs: number) => Promise<void>,
  tenantId: string,
  waitFor: number,
  seconds: number,
): Promise<void> {
  try {
    await flush(tenantId, placeOfPosition(waitFor) + 1, seconds * 1000);
  } catch (error) {
    throw new StatefoldError(
      'NOT_CAUGHT_UP',
      `the read store has not come to position ${waitFor} within ${seconds} s; send the request again, or wait longer with waitSeconds`,
      { cause: error },
    );
  }
}

/** A refusal after the answer has begun comes as ClickHouse's own block, and breaks the connection: the answer has no proper end. */
async function send(
  response: ServerResponse,
  requestId: string,
  { contentType, format, chunks }: SqlAnswer,
): Promise<void> {
  const tag = randomBytes(12).toString('base64url').slice(0, 16);
  try {
    for await (const chunk of chunks) {
      if (!response.headersSent)
        response.writeHead(200, {
          'Content-Type': contentType,
          'Cache-Control': 'no-store',
          'X-ClickHouse-Format': format,
          'X-ClickHouse-Exception-Tag': tag,
          'X-Request-Id': requestId,
        });
      if (response.destroyed) return;
      if (!response.write(chunk)) await drainedInTime(response);
    }
  } catch (error) {
    if (!response.headersSent) throw error;
    const message = Buffer.from(`${error instanceof SqlRefusedError ? error.message : 'The answer broke off'}\n`);
    const block = Buffer.concat([
      Buffer.from(`\r\n__exception__\r\n${tag}\r\n`),
      message,
      Buffer.from(`${message.length} ${tag}\r\n__exception__\r\n`),
    ]);
    response.write(block, () => response.destroy());
    return;
  }
  if (!response.headersSent)
    response.writeHead(200, { 'Content-Type': contentType, 'X-ClickHouse-Format': format, 'X-Request-Id': requestId });
  response.end();
}

async function drainedInTime(response: ServerResponse): Promise<void> {
  const stalled = setTimeout(() => response.destroy(), STALL_MS);
  try {
    await drained(response);
  } finally {
    clearTimeout(stalled);
  }
}

/** ClickHouse's own words, and its code as a member of the problem. */
const refused = (error: SqlRefusedError): StatefoldError =>
  new StatefoldError('SQL_REFUSED', error.message, { cause: error, details: { clickhouseCode: error.engineCode } });

export const SQL = [querySql];
