import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CHUNK_COST_BYTES } from '../core/reads.js';
import { JsonParts } from './json-writer.js';
import { knownError, problemOf, type Problem } from './problem.js';
import { COUNTED_BYTES, memoryOf } from './request-memory.js';

const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;
const PROCESS = randomBytes(6).toString('base64url');
let requests = 0;

/** The client's `X-Request-Id` when it is a plain one, else one of ours. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : `${PROCESS}-${(requests++).toString(36)}`;
}

/**
 * Answers with JSON text in one write; `further`: headers, names and values in turn. A client that has gone is no error. Of reads alone an answer can be refused: what another
 * request changed is done, and a refusal would say that it is not.
 * @throws StatefoldError RATE_LIMITED, UNAVAILABLE where the answer is large, and memory holds as many as it may that are not read
 */
export function answerJson(
  response: ServerResponse,
  status: number,
  requestId: string,
  body: Buffer | string | JsonParts,
  further: readonly string[] = [],
): void {
  if (response.destroyed || response.headersSent) return;
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  if (length > COUNTED_BYTES) {
    const { method } = response.req;
    memoryOf(response.req)?.answer(response, length, method !== 'GET' && method !== 'HEAD');
  }
  response.writeHead(status, [
    'Content-Type',
    'application/json; charset=utf-8',
    'Content-Length',
    String(length),
    'X-Request-Id',
    requestId,
    ...further,
  ]);
  if (body instanceof JsonParts) endInParts(response, body);
  else response.end(body);
  // A small one that isn't taken at once is one of many that a client leaves unread.
  if (length <= COUNTED_BYTES && response.writableLength > 0) memoryOf(response.req)?.answer(response, length, true);
}

function endInParts(response: ServerResponse, { parts }: JsonParts): void {
  response.cork();
  for (const part of parts) response.write(part);
  response.end();
  response.uncork();
}

/** Answers with the problem document of whatever was thrown. `raw`: further members of it, whose values are JSON text already. */
export function answerError(
  response: ServerResponse,
  thrown: unknown,
  requestId: string,
  raw?: Readonly<Record<string, Buffer>>,
): void {
  answerProblem(response, problemOf(knownError(thrown), requestId, raw));
}

export function answerProblem(response: ServerResponse, problem: Problem): void {
  if (response.destroyed || response.headersSent) return void response.destroy();
  const request = response.req;
  const whole = request.complete || bodyAtMost(request, DUMPED_BYTES);
  // Said in the head that is written now: nothing more is read from a connection whose request was cut off.
  if (!whole) response.shouldKeepAlive = false;
  response.writeHead(problem.status, { ...problem.headers, 'Content-Length': String(problem.body.length) });
  if (whole) response.end(problem.body);
  else endBesideUpload(response, problem.body);
}

/** Node reads a body that nobody wants to its end by itself, which is well for a short one: the connection lives on. */
const DUMPED_BYTES = 256 * 1024;

const bodyAtMost = ({ headers }: IncomingMessage, limit: number): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= limit;

/** How much of a refused body is still read, and how long, so that the client comes to read the answer. */
const DRAIN_BYTES = 16 * 1024 * 1024;
const DRAIN_MS = 2_000;

/**
 * Answers a request whose body is still arriving. Closing at once would reset the connection, and many clients then never see
 * the answer: so it is sent whole, the rest of the body is thrown away up to a limit, and only then the connection is closed.
 */
export function endBesideUpload(response: ServerResponse, body: Buffer): void {
  const request = response.req;
  let left = DRAIN_BYTES;
  const finish = (): void => {
    clearTimeout(timer);
    request.off('data', count);
    response.end();
    if (!request.complete) request.socket.destroySoon();
  };
  const count = (chunk: Buffer): void => {
    left -= chunk.length + CHUNK_COST_BYTES;
    if (left < 0) finish();
  };
  const timer = setTimeout(finish, DRAIN_MS);
  response.write(body);
  request.on('data', count).once('end', finish).once('close', finish).resume();
}

/** Resolves when the client has taken what was written, or has gone. */
export async function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return;
  const controller = new AbortController();
  const { signal } = controller;
  try {
    await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
  } finally {
    controller.abort();
  }
}
