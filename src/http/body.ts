import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../core/errors.js';

/** The client went away before its body was whole, or its turn had come: there is nobody to answer. */
export class RequestAbortedError extends Error {
  override readonly name = 'RequestAbortedError';
}

/** What the boundaries and headers of the parts of a form, and its fields, may add to the files. */
export const MAX_FORM_BYTES = 256 * 1024;

const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?$/i;

const NDJSON_TYPE = /^application\/x-ndjson\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?$/i;

/** @throws StatefoldError UNSUPPORTED_MEDIA_TYPE unless the body is declared to be plain JSON in UTF-8 */
export function requireJson(request: IncomingMessage): void {
  const type = request.headers['content-type'];
  if (type !== 'application/json' && (type === undefined || !JSON_TYPE.test(type))) {
    throw new StatefoldError(
      'UNSUPPORTED_MEDIA_TYPE',
      'A JSON body needs the header Content-Type: application/json (in UTF-8).',
    );
  }
  requirePlain(request);
}

/** @throws StatefoldError UNSUPPORTED_MEDIA_TYPE unless the body is declared to be lines of JSON in UTF-8 */
export function requireNdjson(request: IncomingMessage): void {
  if (!NDJSON_TYPE.test(request.headers['content-type'] ?? ''))
    throw new StatefoldError(
      'UNSUPPORTED_MEDIA_TYPE',
      'A body of lines needs the header Content-Type: application/x-ndjson (in UTF-8).',
    );
  requirePlain(request);
}

function requirePlain(request: IncomingMessage): void {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new StatefoldError(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Encoding ${encoding} is not supported: send the body as it is.`,
    );
  }
}

export const tooLarge = (limit: number): StatefoldError =>
  new StatefoldError('PAYLOAD_TOO_LARGE', `The body is larger than the limit of ${limit} bytes.`);

/** The length that the request declares; NaN when it comes in chunks. */
export const declaredLength = (request: IncomingMessage): number =>
  Number(request.headers['content-length'] ?? Number.NaN);

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** Not by `Buffer.concat`: of short bodies it makes slices of a page of 8 KiB that it shares with whatever else is short. */
function joined(chunks: readonly Buffer[], length: number): Buffer {
  const whole = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const chunk of chunks) at += chunk.copy(whole, at);
  return whole;
}

/** From so many chunks on, and while these are shorter than that in the mean, they are copied together as they come. */
const MANY_CHUNKS = 16;
const SHORT_CHUNK = 1024;
/** Chunks of fewer bytes in the mean are refused past so many: each costs as much as a small request. */
const MOST_TINY_CHUNKS = 4096;
const TINY_CHUNK = 16;

/** What has come of a body, in at most about twice its bytes: a chunk of one byte is a hundred times as large in memory. */
export class Chunks {
  #chunks: Buffer[] = [];
  #block: Buffer | undefined;
  #count = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Many chunks, and next to nothing in them. */
  get isCrumbs(): boolean {
    return this.#count > MOST_TINY_CHUNKS && this.#length < this.#count * TINY_CHUNK;
  }

  push(chunk: Buffer): void {
    const at = this.#length;
    this.#length += chunk.length;
    this.#count++;
    if (this.#block !== undefined) {
      if (this.#length > this.#block.length) this.#block = joined([this.#block.subarray(0, at)], 2 * this.#length);
      chunk.copy(this.#block, at);
      return;
    }
    this.#chunks.push(chunk);
    if (this.#count < MANY_CHUNKS || this.#length >= this.#count * SHORT_CHUNK) return;
    this.#block = joined(this.#chunks, 2 * this.#length);
    this.#chunks = [];
  }

  /** All of it in memory of its own. */
  whole(): Buffer {
    const chunks = this.#block === undefined ? this.#chunks : [this.#block.subarray(0, this.#length)];
    return joined(chunks, this.#length);
  }
}

const crumbs = (): StatefoldError =>
  new StatefoldError('INVALID_REQUEST', 'The body comes in chunks of some bytes each: send it in larger ones.');

/**
 * The whole body in memory of its own: slices of it hold nothing else.
 * @param past What a body past the limit is told
 * @param came Is told how much has come, as it comes; what it throws is the end of it
 * @throws StatefoldError PAYLOAD_TOO_LARGE without reading past the limit; INVALID_REQUEST for thousands of tiny chunks; RequestAbortedError
 */
export function readBody(
  request: IncomingMessage,
  limit: number,
  past = (): Error => tooLarge(limit),
  came?: (length: number) => void,
): Promise<Buffer> {
  if (declaredLength(request) > limit) return Promise.reject(past());
  return new Promise((resolve, reject) => {
    const chunks = new Chunks();
    const refuse = (error: Error): void => {
      request.off('data', onData).off('end', onEnd);
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      if (chunks.length + chunk.length > limit) return refuse(past());
      try {
        came?.(chunks.length + chunk.length);
      } catch (error) {
        return refuse(error as Error);
      }
      chunks.push(chunk);
      if (chunks.isCrumbs) refuse(crumbs());
    };
    const onEnd = (): void => resolve(chunks.whole());
    request.on('data', onData).on('end', onEnd);
    // A connection that is reset, or cut by a time-out, tells so by an error before it closes.
    const aborted = (): void => {
      if (!request.complete) reject(new RequestAbortedError('the client closed the connection'));
    };
    request.on('close', aborted);
    request.on('error', aborted);
  });
}
