import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Writable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { CliError } from './io.js';
import { unreachable, type TenantAccess } from './server.js';
import { unwritableOutput } from './writer.js';

/** Where the ClickHouse of the service is, and as whom: what `GET /admin/read-store` answers. */
export interface ReadStoreAccess {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/**
 * Sends one statement and writes the answer to `output` as it comes.
 * @throws CliError with the engine's message, also when it fails halfway through an answer
 */
export async function runSql(access: ReadStoreAccess, sql: string, format: string, output: Writable): Promise<void> {
  const { url, user, password, database } = access;
  const target = new URL(url);
  target.search = new URLSearchParams({ database, default_format: format }).toString();
  const headers = {
    'X-ClickHouse-User': user,
    'X-ClickHouse-Key': password,
    'Content-Type': 'text/plain; charset=utf-8',
  };
  const response = await post(target, headers, sql);
  if (response.statusCode !== 200)
    throw new CliError((await textOf(response)).trim() || `The read store answered ${response.statusCode}.`);
  await copyAnswer(response, output);
}

/** A statement of a tenant, over its own rows. */
export interface TenantStatement {
  readonly query: string;
  readonly format: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * Sends one statement of a tenant to `POST /sql` and writes the answer to `output` as it comes.
 * @throws CliError with ClickHouse's message where the service has one, also when it fails halfway through an answer
 */
export async function runTenantSql(
  { url, headers, refusal }: TenantAccess,
  statement: TenantStatement,
  output: Writable,
): Promise<void> {
  const response = await post(new URL(url), headers, JSON.stringify(statement));
  if (response.statusCode !== 200) throw refusal(response.statusCode ?? 0, await textOf(response));
  await copyAnswer(response, output);
}

async function copyAnswer(response: IncomingMessage, output: Writable): Promise<void> {
  const tag = response.headers['x-clickhouse-exception-tag'];
  // An answer that fails halfway ends in a block of this form; see "HTTP interface" in ClickHouse's docs.
  const marker = typeof tag === 'string' ? Buffer.from(`\r\n__exception__\r\n${tag}\r\n`) : undefined;
  await copy(response, output, marker);
}

async function post(target: URL, headers: Readonly<Record<string, string>>, body: string): Promise<IncomingMessage> {
  const request = (target.protocol === 'https:' ? httpsRequest : httpRequest)(target, { method: 'POST', headers });
  request.end(body);
  try {
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return response;
  } catch (error) {
    throw unreachable(target.origin, error);
  }
}

/** Listens rather than iterates: when the connection breaks, what came before it is still handed over. */
function copy(response: IncomingMessage, output: Writable, marker: Buffer | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let held: Buffer = Buffer.alloc(0);
    let failure: Buffer | undefined;
    const resume = (): void => void response.resume();
    const settle = (error?: Error): void => {
      output.off('drain', resume);
      output.off('error', stopped);
      if (failure !== undefined) reject(new CliError(messageOf(failure)));
      else if (error !== undefined) reject(new CliError(`The read store broke off its answer: ${error.message}.`));
      else output.write(held, () => resolve());
    };
    // The reader of the pipe has enough (`| head`): that is an end like another.
    const stopped = (error: NodeJS.ErrnoException): void => {
      response.destroy();
      if (error.code === 'EPIPE') resolve();
      else reject(unwritableOutput(error));
    };
    output.on('drain', resume).on('error', stopped);
    const take = (chunk: Buffer): void => {
      if (failure !== undefined) {
        failure = Buffer.concat([failure, chunk]);
        return;
      }
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const at = marker === undefined ? -1 : held.indexOf(marker);
      const upTo = at >= 0 ? at : Math.max(0, held.length - (marker?.length ?? 1) + 1);
      if (at >= 0) failure = held.subarray(at + (marker?.length ?? 0));
      if (upTo > 0 && !output.write(held.subarray(0, upTo))) response.pause();
      held = held.subarray(upTo);
    };
    response.on('data', take);
    response.once('end', () => settle());
    response.once('error', (error) => {
      // While a slow reader is waited for, the end of the answer is in memory, and is not told any more.
      for (let rest: unknown; (rest = response.read()) !== null;) take(rest as Buffer);
      settle(error);
    });
  });
}

/** The engine's message, without the line that closes the block. */
const messageOf = (block: Buffer): string =>
  block
    .toString()
    .replace(/\r?\n?\d+ \S+\r\n__exception__\r\n$/, '')
    .trim();
