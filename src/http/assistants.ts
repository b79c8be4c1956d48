import type { IncomingMessage, ServerResponse } from 'node:http';
import { SCOPES, type Scope } from '../core/scopes.js';
import { StatefoldError } from '../core/errors.js';
import { ASSISTANT_ANSWER_BYTES } from '../core/reads.js';
import type { Admission } from './admission.js';
import { readJson, type BodySettings } from './bodies.js';
import { declaredLength } from './body.js';
import { ConcurrencyQuota } from './concurrency-quota.js';
import { memoryOf } from './request-memory.js';

/** A message of an assistant, whose key is in force. */
export interface AssistantRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Of JSON. */
  readonly message: unknown;
  readonly apiKey: string;
  readonly scopes: readonly Scope[];
}

/** Sources of an upload, as JSON. It is parsed in one go: no longer than any other body of JSON holds the event loop. */
const MOST_BYTES = 1024 * 1024;
/** Of a tenant at one time: each may hold an answer as large as they get. */
const UNDER_WAY = 8;
/** The longest that a tool takes, and the reading of its answer. Whoever is slower is cut. */
const DEADLINE_MS = 180_000;
/** A message is unpacked, and what it asks for is a request of its own, which this process sends and serves: about a millisecond. */
const MESSAGE_COST = 9;
const ALLOW = 'POST, OPTIONS';
const BEARER = /^Bearer (\S+)$/i;

/** Admits what comes to `/mcp` as any request of a tenant: key, pace, turns, memory. Whoever answers asks the rest by the service's own interface. */
export function assistantsDoor(
  admission: Admission,
  { maxJsonDepth }: Pick<BodySettings, 'maxJsonDepth'>,
  answer: (asked: AssistantRequest) => Promise<void>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const underWay = new ConcurrencyQuota(UNDER_WAY, 'requests of assistants under way');
  return async (request, response) => {
    const { method, headers } = request;
    if (method !== 'POST') {
      response.setHeader('Allow', ALLOW);
      if (method !== 'OPTIONS')
        throw new StatefoldError(
          'METHOD_NOT_ALLOWED',
          'There are no sessions and no streams here: send each message with POST.',
        );
      if (response.hasHeader('Access-Control-Allow-Origin')) response.setHeader('Access-Control-Allow-Methods', ALLOW);
      return void response.writeHead(204).end();
    }
    // Clients of the protocol know this header alone.
    headers['x-api-key'] ??= BEARER.exec(headers.authorization ?? '')?.[1];
    const { tenantId, scopes = SCOPES } = await admission.admitKnown(request, 'any', MESSAGE_COST);
    const release = underWay.take(tenantId);
    const deadline = setTimeout(() => response.destroy(), DEADLINE_MS);
    response.once('close', () => {
      clearTimeout(deadline);
      release();
    });
    if (response.destroyed) return release();
    const declared = declaredLength(request);
    const sent = Number.isNaN(declared) ? MOST_BYTES : Math.min(declared, MOST_BYTES);
    // As it comes, and as it is told.
    await memoryOf(request)?.uploadOf(response, sent + 2 * ASSISTANT_ANSWER_BYTES);
    const message = await readJson(request, { maxBodyBytes: MOST_BYTES, maxJsonDepth });
    if (Array.isArray(message))
      throw new StatefoldError('INVALID_REQUEST', 'Send one message a request: the protocol has no batches any more.');
    await answer({ request, response, message, apiKey: String(headers['x-api-key']), scopes });
  };
}
