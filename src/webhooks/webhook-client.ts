import { EventEmitter } from 'node:events';
import type { Agent, request } from 'undici';
import { StatefoldError } from '../core/errors.js';
import {
  assertAddressAllowed,
  guardedLookup,
  literalHost,
  parseWebhookUrl,
  type AddressGuardOptions,
} from './address-guard.js';
import { retryAfterMs } from './retry-schedule.js';

export interface WebhookClientOptions extends AddressGuardOptions {
  /** For the whole of an attempt: connecting, sending, the answer and its body. */
  readonly timeoutMs: number;
  /** Wall clock, for a `Retry-After` that is a date. */
  readonly now?: () => number;
}

/** What became of one attempt. `gone`: the endpoint wants no more, ever. */
export type AttemptOutcome =
  | { readonly kind: 'delivered'; readonly status: number }
  | { readonly kind: 'gone'; readonly url: string; readonly status: 410; readonly excerpt: string }
  | {
      readonly kind: 'failed';
      readonly status: number | undefined;
      readonly reason: string;
      /** How the body of the answer begins, as text; empty where there was none. */
      readonly excerpt: string;
      readonly retryAfterMs: number | undefined;
    };

interface LoadedClient {
  readonly request: typeof request;
  readonly agent: Agent;
}

const MAX_ANSWER_BYTES = 64 * 1024;
/** Of a refusal so much is kept: enough to see what the endpoint has against the message. */
const EXCERPT_BYTES = 256;

/** Posts to tenants' endpoints: verified TLS, checked addresses, no redirects, and no more of an answer than is needed. */
export class WebhookClient {
  #loading: Promise<LoadedClient> | undefined;

  constructor(private readonly options: WebhookClientOptions) {}

  /** With the first message: a start without endpoints needs no client. */
  #load(): Promise<LoadedClient> {
    const { timeoutMs } = this.options;
    return (this.#loading ??= import('undici').then(({ Agent, request }) => ({
      request,
      agent: new Agent({
        connect: { lookup: guardedLookup(this.options), timeout: timeoutMs },
        connections: 8,
        pipelining: 1,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        keepAliveTimeout: 4_000,
        maxHeaderSize: 16 * 1024,
      }),
    })));
  }

  /** Never rejects: every error is an outcome. */
  async post(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<AttemptOutcome> {
    // An AbortSignal of its own takes longer than signing does.
    const abort = new EventEmitter();
    const callOff = (): void => void abort.emit('abort');
    let late = false;
    const deadline = setTimeout(() => {
      late = true;
      callOff();
    }, this.options.timeoutMs);
    signal.addEventListener('abort', callOff);
    try {
      const target = parseWebhookUrl(url);
      const address = literalHost(target);
      if (address !== undefined) assertAddressAllowed(address, this.options.allowPrivate);
      const { request, agent } = await this.#load();
      // Nobody listened yet.
      if (late || signal.aborted) throw new Error('the attempt was called off');
      const answer = await request(target, {
        method: 'POST',
        headers,
        body,
        dispatcher: agent,
        signal: abort,
      });
      const status = answer.statusCode;
      if (status >= 200 && status < 300) {
        // The body says nothing that is needed; read, so that the connection serves again.
        await answer.body.dump({ limit: MAX_ANSWER_BYTES }).catch(() => undefined);
        return { kind: 'delivered', status };
      }
      const excerpt = await excerptOf(answer.body);
      if (status === 410) return { kind: 'gone', url, status, excerpt };
      const header = answer.headers['retry-after'];
      const asked =
        status === 429 || status === 503
          ? retryAfterMs(typeof header === 'string' ? header : undefined, (this.options.now ?? Date.now)())
          : undefined;
      const reason =
        status >= 300 && status < 400 ? `answered ${status}: redirects are not followed` : `answered ${status}`;
      return { kind: 'failed', status, reason, excerpt, retryAfterMs: asked };
    } catch (error) {
      const reason = this.#reason(error, late);
      return { kind: 'failed', status: undefined, reason, excerpt: '', retryAfterMs: undefined };
    } finally {
      clearTimeout(deadline);
      signal.removeEventListener('abort', callOff);
    }
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    await (await this.#loading)?.agent.destroy();
  }

  #reason(error: unknown, late: boolean): string {
    if (late) return `no answer within ${this.options.timeoutMs} ms`;
    if (error instanceof StatefoldError) return error.message;
    if (!(error instanceof Error)) return 'the request failed';
    // A connection that was tried on several addresses fails with all their errors.
    const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
    return inner instanceof Error && inner.message !== '' ? inner.message : error.name;
  }
}

/** Reads a body to its end, or as much of it as is worth a connection, and gives how it begins. What can't be read of it is left out. */
async function excerptOf(body: AsyncIterable<Buffer>): Promise<string> {
  const first: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      if (bytes < EXCERPT_BYTES) first.push(chunk.subarray(0, EXCERPT_BYTES - bytes));
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES) break;
    }
  } catch {
    // The status is what counts.
  }
  // A character may be cut at the end.
  return Buffer.concat(first)
    .toString('utf8')
    .replace(/\uFFFD$/, '');
}
