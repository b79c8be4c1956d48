import type { IncomingMessage } from 'node:http';
import { tracing } from '../../core/tracing.js';
import { StatefoldError } from '../../core/errors.js';

/** Set on what one process sends on to another, which then never sends it further, with the proof of `Peers`: from anybody else it is refused. */
export const FORWARDED = 'statefold-forwarded';
/** On a 503: the request was not begun, since this process does not own the tenant. */
export const NOT_OWNER = 'statefold-not-owner';
/** On a forwarded append without an `Idempotency-Key`: the id under which its answer is remembered, so that forwarding it twice stores it once. */
export const COMMAND_ID = 'statefold-command-id';

const UUIDV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Of one connection and not of the message (RFC 9110, 7.6.1), or made anew by whoever sends it on. */
const NOT_SENT_ON = new Set([
  ...[
    'connection',
    'keep-alive',
    'proxy-connection',
    'proxy-authorization',
    'te',
    'trailer',
    'transfer-encoding',
    'upgrade',
  ],
  ...['host', 'content-length', 'expect', 'x-forwarded-for', 'x-request-id', FORWARDED, COMMAND_ID],
]);
/** Made anew where the request is a span here: what the other process does is a part of it. */
const OF_TRACES = new Set(['traceparent', 'tracestate']);
const NOT_SENT_BACK = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Another process sent it: the edge lets in none that doesn't prove it. */
export const isForwarded = (request: IncomingMessage): boolean => request.headers[FORWARDED] !== undefined;

/** @throws StatefoldError INVALID_REQUEST when a gateway's id has another shape */
export function forwardedCommandId(request: IncomingMessage): string | undefined {
  const given = request.headers[COMMAND_ID];
  // Of a request that no gateway sent it says nothing: a client's own way to name a command is the Idempotency-Key.
  if (given === undefined || !isForwarded(request)) return undefined;
  if (typeof given === 'string' && UUIDV7.test(given)) return given;
  throw new StatefoldError(
    'INVALID_REQUEST',
    'The header Statefold-Command-Id must be a UUID of version 7: it is for the service itself, leave it out.',
  );
}

/** Headers of the forwarded request, names and values in turn. */
export function forwardedHeaders(
  request: IncomingMessage,
  peers: { proof(method: string, target: string, headers: readonly string[]): string },
  requestId: string,
  commandId?: string,
): string[] {
  const headers: string[] = [];
  const span = tracing.tracer?.current;
  const { rawHeaders, socket } = request;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const lower = name.toLowerCase();
    if (NOT_SENT_ON.has(lower) || (span !== undefined && OF_TRACES.has(lower))) continue;
    headers.push(name, rawHeaders[i + 1] ?? '');
  }
  const from = [request.headers['x-forwarded-for'], socket.remoteAddress]
    .flat()
    .filter((hop) => hop !== undefined && hop !== '');
  if (span !== undefined) headers.push(...Object.entries(span.headers).flat());
  headers.push('X-Request-Id', requestId);
  if (from.length > 0) headers.push('X-Forwarded-For', from.join(', '));
  if (commandId !== undefined) headers.push('Statefold-Command-Id', commandId);
  headers.push('Statefold-Forwarded', peers.proof(request.method ?? '', targetOf(request), headers));
  return headers;
}

/** Headers of the owner's answer as they go to the client, names and values in turn. */
export function returnedHeaders(raw: readonly (Buffer | string)[]): string[] {
  const headers: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = latin1(raw[i] ?? '');
    if (!NOT_SENT_BACK.has(name.toLowerCase())) headers.push(name, latin1(raw[i + 1] ?? ''));
  }
  return headers;
}

const latin1 = (text: Buffer | string): string => (typeof text === 'string' ? text : text.toString('latin1'));

/** Path and query of the request, without the host that it may name. */
export function targetOf(request: IncomingMessage): string {
  const url = request.url ?? '/';
  if (url.startsWith('/')) return url;
  const { pathname, search } = new URL(url);
  return pathname + search;
}
