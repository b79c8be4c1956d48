import { randomBytes, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliCompress, createDeflate, createGzip } from 'node:zlib';
import type { Engine, StatementSummary } from './engine.js';
import { EngineError } from './engine-error.js';
import { CODE, contentTypeOf, exception, statusOf } from './http-answer.js';
import { authenticate, bodyOf, readParameters, type Credentials, type RequestParameters } from './http-request.js';
import { Pool, PoolFullError } from './pool.js';
import { ResultPipe } from './result-pipe.js';
import { quoted } from '../sql-text.js';
import { readStatement, type Statement } from './statement.js';

export interface HttpInterfaceOptions {
  readonly engine: Engine;
  readonly owner: Credentials;
  /** Statements of analysts that run at once; more wait up to `queueMs`. */
  readonly queries: number;
  /** Places kept for inserts and for statements with the setting `workload=statefold`. */
  readonly reserved: number;
  readonly queueMs: number;
  /** Bytes of an insert's rows, inflated, and of any other statement's text. */
  readonly maxInsertBytes: number;
  readonly maxQueryBytes: number;
  /** A client that takes nothing for so long is cut off. */
  readonly stallMs: number;
}

/** What of a result is held back before the status is sent: so that a short one that fails still gets the right one. */
const HELD_BACK = 64 * 1024;
/** How far into a body the rows of an INSERT must begin. */
const INSERT_HEAD = 64 * 1024;

/** ClickHouse's HTTP interface over one engine, for its owner alone. Not offered: sessions across requests, native compression. */
export class HttpInterface {
  readonly #options: HttpInterfaceOptions;
  readonly #server: Server;
  readonly #running = new Set<AbortController>();
  #queries = new Pool<string>([], 0);
  #reserved = new Pool<string>([], 0);
  #version = '';

  constructor(options: HttpInterfaceOptions) {
    this.#options = options;
    this.#server = createServer(
      { keepAliveTimeout: 10_000, headersTimeout: 10_000, requestTimeout: 300_000, maxHeaderSize: 1024 * 1024 },
      (request, response) => {
        this.#handle(request, response).catch((error: unknown) => this.#refuse(response, error));
      },
    );
    this.#server.maxConnections = 256;
  }

  /** @returns the port. @throws the listen error, e.g. EADDRINUSE. */
  async listen(port: number): Promise<number> {
    const { engine, queries, reserved } = this.#options;
    const pipes = await engine.makePipes(queries + reserved);
    this.#queries = new Pool(pipes.slice(0, queries), 64);
    this.#reserved = new Pool(pipes.slice(queries), 64);
    const none = { database: undefined, settings: new Map<string, string>(), parameters: new Map<string, string>() };
    this.#version = (await engine.run('SELECT version()', none, AbortSignal.timeout(10_000))).text.trim();
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Cancels what runs. */
  close(): void {
    this.#server.close();
    for (const controller of this.#running) controller.abort(new Error('the engine is closing'));
    this.#server.closeAllConnections();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://engine');
    response.setHeader('X-ClickHouse-Server-Display-Name', 'statefold');
    response.setHeader('X-ClickHouse-Timezone', 'UTC');
    if (url.pathname === '/ping' || url.pathname === '/replicas_status') {
      response.setHeader('Content-Type', 'text/html; charset=UTF-8').end('Ok.\n');
      return;
    }
    if (url.pathname !== '/') {
      response
        .writeHead(404, { 'Content-Type': 'text/plain; charset=UTF-8' })
        .end(`There is no handle ${url.pathname}\n\nUse / or /ping for health checks.\n`);
      return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD' && request.method !== 'POST') {
      response.writeHead(405, { Allow: 'GET, HEAD, POST' }).end();
      return;
    }
    authenticate(request, url, this.#options.owner);
    const parameters = readParameters(request, url);
    response.setHeader('X-ClickHouse-Query-Id', parameters.queryId ?? randomUUID());
    const controller = new AbortController();
    const gone = (): void => controller.abort(new Error('the client has gone'));
    response.once('close', gone);
    this.#running.add(controller);
    try {
      await this.#statement(request, response, parameters, controller.signal);
    } finally {
      response.off('close', gone);
      this.#running.delete(controller);
    }
  }

  async #statement(
    request: IncomingMessage,
    response: ServerResponse,
    parameters: RequestParameters,
    signal: AbortSignal,
  ): Promise<void> {
    const body = request.method === 'POST' ? bodyOf(request) : Readable.from([]);
    const { statement, rest, inline } = await this.#readHead(parameters.query, body);
    switch (statement.kind) {
      case 'insert':
        return this.#insert(response, parameters, statement, inline, rest, signal);
      case 'rows':
        return this.#rows(request, response, parameters, statement, signal);
      case 'other': {
        const summary = await this.#run(parameters, signal, () =>
          this.#options.engine.run(statement.body, parameters, signal, statement.changesSession),
        );
        return this.#done(response, parameters.defaultFormat, summary, summary.text);
      }
      case 'multiple':
        throw exception(CODE.syntaxError, 'Syntax error (Multi-statements are not allowed)', 'SYNTAX_ERROR');
      case 'empty':
      case 'incomplete':
        throw exception(CODE.syntaxError, 'Syntax error: Empty query', 'SYNTAX_ERROR');
    }
  }

  /** The statement, and what of the body are its rows: for an INSERT the body streams on, else it is read to its end. */
  async #readHead(
    query: string,
    body: Readable,
  ): Promise<{ statement: Statement; inline: Buffer; rest: AsyncIterator<Buffer> }> {
    // Latin1: one character a byte, so that the statement's offsets are those of the bytes.
    let text = query === '' ? '' : `${Buffer.from(query).toString('latin1')}\n`;
    const rest = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    let statement = readStatement(text, false);
    let ended = false;
    while (!ended && !(statement.kind === 'insert')) {
      const chunk = await rest.next();
      ended = chunk.done === true;
      if (chunk.done !== true) text += chunk.value.toString('latin1');
      if (text.length > this.#options.maxQueryBytes)
        throw exception(
          CODE.requestTooLarge,
          `The statement is longer than ${this.#options.maxQueryBytes} bytes`,
          'REQUEST_ENTITY_TOO_LARGE',
        );
      if (ended) statement = readStatement(text);
      else if (text.length <= INSERT_HEAD || statement.kind === 'incomplete')
        statement = readStatement(text.slice(0, 2 * INSERT_HEAD), false);
    }
    if (statement.kind === 'insert')
      return { statement: utf8(statement), inline: Buffer.from(text.slice(statement.dataAt), 'latin1'), rest };
    return { statement: utf8(statement), inline: Buffer.alloc(0), rest };
  }

  async #insert(
    response: ServerResponse,
    parameters: RequestParameters,
    statement: Statement & { kind: 'insert' },
    inline: Buffer,
    rest: AsyncIterator<Buffer>,
    signal: AbortSignal,
  ): Promise<void> {
    const { engine, maxInsertBytes } = this.#options;
    const file = join(engine.spool, `rows-${randomUUID()}`);
    let bytes = 0;
    async function* rows(): AsyncGenerator<Buffer> {
      for (let chunk: Buffer | undefined = inline; chunk !== undefined;) {
        bytes += chunk.length;
        if (bytes > maxInsertBytes)
          throw exception(
            CODE.requestTooLarge,
            `The rows are more than ${maxInsertBytes} bytes`,
            'REQUEST_ENTITY_TOO_LARGE',
          );
        yield chunk;
        const next = await rest.next();
        chunk = next.done === true ? undefined : next.value;
      }
    }
    try {
      await pipeline(rows, createWriteStream(file, { mode: 0o600, flags: 'wx' }), { signal });
      const sql = `${statement.head} FROM INFILE ${quoted(file)} COMPRESSION 'none' ${statement.settings} FORMAT ${statement.format}`;
      const summary =
        bytes === 0 ? undefined : await this.#run(parameters, signal, () => engine.run(sql, parameters, signal), true);
      this.#done(response, statement.format, { rowsRead: summary?.rowsRead ?? 0, bytesRead: bytes, text: '' }, '');
    } finally {
      await rm(file, { force: true });
    }
  }

  async #rows(
    request: IncomingMessage,
    response: ServerResponse,
    parameters: RequestParameters,
    statement: Statement & { kind: 'rows' },
    signal: AbortSignal,
  ): Promise<void> {
    const format = statement.format ?? parameters.defaultFormat;
    if (!/^\w+$/.test(format)) throw exception(73, `Unknown format ${format.slice(0, 100)}`, 'UNKNOWN_FORMAT');
    await this.#run(parameters, signal, async (path) => {
      const pipe = await ResultPipe.open(path);
      const sql = `${statement.body} INTO OUTFILE ${quoted(path)} TRUNCATE FORMAT ${format} ${statement.tail}`;
      // oxlint-disable-next-line typescript/no-misused-promises -- finally waits for what it is given
      const running = this.#options.engine.run(sql, parameters, signal).finally(() => pipe.finish());
      // Awaited when the pipe is read to its end, which comes after.
      running.catch(() => undefined);
      const head: Buffer[] = [];
      let held = 0;
      let chunk = await pipe.next();
      for (; chunk !== undefined && held <= HELD_BACK; chunk = await pipe.next()) {
        head.push(chunk);
        held += chunk.length;
      }
      if (chunk === undefined) {
        const summary = await running;
        return this.#done(
          response,
          format,
          summary,
          Buffer.concat(head),
          parameters.compressAnswer ? request : undefined,
        );
      }
      const tag = randomBytes(12).toString('base64url').slice(0, 16);
      response
        .setHeader('Content-Type', contentTypeOf(format))
        .setHeader('X-ClickHouse-Format', format)
        .setHeader('X-ClickHouse-Exception-Tag', tag);
      const writer = new AnswerWriter(response, parameters.compressAnswer ? request : undefined, this.#options.stallMs);
      for (const early of head) await writer.write(early);
      // After the client has gone the rest is read and dropped, so that the engine isn't left waiting in a write.
      for (; chunk !== undefined; chunk = await pipe.next()) await writer.write(chunk);
      try {
        await running;
        await writer.end();
      } catch (error) {
        // As a ClickHouse server ends an answer that fails halfway: the exception in a tagged block, then no proper end.
        const message = Buffer.from(`${messageOf(error)}\n`);
        await writer.write(
          Buffer.concat([
            Buffer.from(`\r\n__exception__\r\n${tag}\r\n`),
            message,
            Buffer.from(`${message.length} ${tag}\r\n__exception__\r\n`),
          ]),
        );
        await writer.cut();
      }
    });
  }

  async #run<T>(
    parameters: RequestParameters,
    signal: AbortSignal,
    work: (path: string) => Promise<T>,
    reserved = false,
  ): Promise<T> {
    const pool = reserved || parameters.settings.get('workload') === 'statefold' ? this.#reserved : this.#queries;
    try {
      return await pool.use(this.#options.queueMs, signal, work);
    } catch (error) {
      if (error instanceof PoolFullError)
        throw exception(
          CODE.tooManyQueries,
          `Too many simultaneous queries. Maximum: ${this.#options.queries}`,
          'TOO_MANY_SIMULTANEOUS_QUERIES',
        );
      throw error;
    }
  }

  #done(
    response: ServerResponse,
    format: string,
    summary: StatementSummary,
    body: Buffer | string,
    compressFor?: IncomingMessage,
  ): void {
    response.setHeader(
      'X-ClickHouse-Summary',
      JSON.stringify({ read_rows: String(summary.rowsRead), read_bytes: String(summary.bytesRead) }),
    );
    response.setHeader('X-ClickHouse-Format', format).setHeader('Content-Type', contentTypeOf(format));
    const encoder = compressFor === undefined ? undefined : encoderFor(compressFor);
    if (encoder === undefined) {
      response.end(body);
      return;
    }
    response.setHeader('Content-Encoding', encoder.name);
    encoder.stream.pipe(response);
    encoder.stream.end(body);
  }

  #refuse(response: ServerResponse, error: unknown): void {
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const code = error instanceof EngineError ? error.engineCode : CODE.unknownException;
    const status = statusOf(code);
    if (status === 401) response.setHeader('WWW-Authenticate', 'Basic realm="ClickHouse server HTTP API"');
    // What the client still sends of a refused body isn't read.
    if (status === 413 || status === 401 || status === 403) response.setHeader('Connection', 'close');
    response
      .setHeader('X-ClickHouse-Exception-Code', String(code))
      .setHeader('Content-Type', 'text/plain; charset=UTF-8');
    response.writeHead(status).end(`${messageOf(error)} (version ${this.#version})\n`);
  }
}

/** Writes an answer at the client's pace, compressed where it asked for that; what comes after the client has gone is dropped. */
class AnswerWriter {
  readonly #response: ServerResponse;
  readonly #out: NodeJS.WritableStream;
  readonly #stallMs: number;

  constructor(response: ServerResponse, compressFor: IncomingMessage | undefined, stallMs: number) {
    this.#response = response;
    this.#stallMs = stallMs;
    const encoder = compressFor === undefined ? undefined : encoderFor(compressFor);
    if (encoder !== undefined) response.setHeader('Content-Encoding', encoder.name);
    this.#out = encoder === undefined ? response : (encoder.stream.pipe(response), encoder.stream);
  }

  async write(chunk: Buffer): Promise<void> {
    if (this.#response.destroyed || this.#out.write(chunk)) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.#response.destroy(), this.#stallMs);
      const go = (): void => {
        clearTimeout(timer);
        this.#out.off('drain', go);
        this.#response.off('close', go);
        resolve();
      };
      this.#out.once('drain', go);
      this.#response.once('close', go);
    });
  }

  async end(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#response.destroyed) return resolve();
      this.#response.once('close', resolve).once('finish', resolve);
      this.#out.end();
    });
  }

  /** Lets go of the connection once what was written has left, without ending the answer. */
  async cut(): Promise<void> {
    if (this.#response.destroyed) return;
    if (this.#out === this.#response) await new Promise<void>((resolve) => this.#response.write('', () => resolve()));
    else await this.end();
    this.#response.destroy();
  }
}

function encoderFor(request: IncomingMessage): { name: string; stream: NodeJS.ReadWriteStream } | undefined {
  const accepted = request.headers['accept-encoding'] ?? '';
  if (typeof accepted !== 'string') return undefined;
  if (/\bgzip\b/.test(accepted)) return { name: 'gzip', stream: createGzip({ level: 1 }) };
  if (/\bdeflate\b/.test(accepted)) return { name: 'deflate', stream: createDeflate({ level: 1 }) };
  if (/\bbr\b/.test(accepted)) return { name: 'br', stream: createBrotliCompress({}) };
  return undefined;
}

/** Paths of the spool are nobody's business. */
const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error))
    .replace(/: \(in file\/uri [^)]*\)/g, '')
    .replace(/ INTO OUTFILE '[^']*' TRUNCATE/g, '');

const decode = (latin1: string): string => Buffer.from(latin1, 'latin1').toString('utf8');

function utf8(statement: Statement): Statement {
  switch (statement.kind) {
    case 'insert':
      return { ...statement, head: decode(statement.head), settings: decode(statement.settings) };
    case 'rows':
      return { ...statement, body: decode(statement.body), tail: decode(statement.tail) };
    case 'other':
      return { ...statement, body: decode(statement.body) };
    default:
      return statement;
  }
}
