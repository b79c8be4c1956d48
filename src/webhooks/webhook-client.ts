import { LRUCache } from 'lru-cache';
import type { Agent } from 'undici';
import {
  assertAddressAllowed,
  guardedLookup,
  literalHost,
  parseWebhookUrl,
  type AddressGuardOptions,
} from './address-guard.js';
import { isSuccess, PostCall, type Posted } from './post-call.js';
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
      /** It was never sent: the service is at fault, not the endpoint. */
      readonly isOurs?: true;
      readonly status: number | undefined;
      readonly reason: string;
      /** How the body of the answer begins, as text; empty where there was none. */
      readonly excerpt: string;
      readonly retryAfterMs: number | undefined;
    };

/** Where a URL leads, as the client takes it. */
interface Target {
  readonly origin: string;
  readonly path: string;
}

/** URLs that are kept parsed: to do that takes as long as to sign. */
const TARGETS = 1_000;

/** Posts to tenants' endpoints: verified TLS, checked addresses, no redirects, and no more of an answer than is needed. */
export class WebhookClient {
  #agent: Promise<Agent> | undefined;
  readonly #targets: LRUCache<string, Target>;

  constructor(private readonly options: WebhookClientOptions) {
    this.#targets = new LRUCache({ max: TARGETS, memoMethod: (url) => targetOf(url, options.allowPrivate) });
  }

  /** With the first message: a start without endpoints needs no client. */
  #load(): Promise<Agent> {
    const { timeoutMs } = this.options;
    return (this.#agent ??= import('undici').then(
      ({ Agent }) =>
        new Agent({
          connect: { lookup: guardedLookup(this.options), timeout: timeoutMs },
          // As many as there are attempts, whose number is limited: of those that wait for a connection to a host that many endpoints share,
          // one would wait for other tenants', and its time would be over before it was sent.
          connections: null,
          pipelining: 1,
          // An attempt has a deadline for all of it.
          headersTimeout: 0,
          bodyTimeout: 0,
          keepAliveTimeout: 4_000,
          // Not as long as a receiver asks for: each URL that was ever sent to would hold a socket.
          keepAliveMaxTimeout: 4_000,
          maxHeaderSize: 16 * 1024,
        }),
    ));
  }

  /** Never rejects: every error is an outcome. */
  async post(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<AttemptOutcome> {
    const call = new PostCall();
    const callOff = (): void => call.callOff(new Error('the attempt was called off'));
    const { timeoutMs } = this.options;
    const deadline = setTimeout(() => call.callOff(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    signal.addEventListener('abort', callOff);
    try {
      const { origin, path } = this.#targets.memo(url);
      const agent = await this.#load();
      // Nobody listened yet.
      if (signal.aborted) callOff();
      agent.dispatch({ origin, path, method: 'POST', headers, body }, call);
      return this.#outcomeOf(url, await call.result);
    } catch (error) {
      return failedWith(error);
    } finally {
      clearTimeout(deadline);
      signal.removeEventListener('abort', callOff);
    }
  }

  #outcomeOf(url: string, posted: Posted): AttemptOutcome {
    if (posted.status === undefined) return failedWith(posted.error);
    const { status, headers } = posted;
    if (isSuccess(status)) return { kind: 'delivered', status };
    const excerpt = excerptOf(posted.excerpt);
    if (status === 410) return { kind: 'gone', url, status, excerpt };
    const header = headers['retry-after'];
    const asked =
      status === 429 || status === 503
        ? retryAfterMs(typeof header === 'string' ? header : undefined, (this.options.now ?? Date.now)())
        : undefined;
    const reason =
      status >= 300 && status < 400 ? `answered ${status}: redirects are not followed` : `answered ${status}`;
    return { kind: 'failed', status, reason, excerpt, retryAfterMs: asked };
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    await (await this.#agent)?.destroy();
  }
}

/** @throws StatefoldError WEBHOOK_URL_REFUSED; a host that is a name is checked when it is dialled */
function targetOf(url: string, allowPrivate: boolean): Target {
  const parsed = parseWebhookUrl(url);
  const address = literalHost(parsed);
  if (address !== undefined) assertAddressAllowed(address, allowPrivate);
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
}

const failedWith = (error: unknown): AttemptOutcome => ({
  kind: 'failed',
  status: undefined,
  reason: reasonOf(error),
  excerpt: '',
  retryAfterMs: undefined,
});

/** Characters of it: that of a certificate for other hosts quotes all their names. */
const MAX_REASON = 300;

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'the request failed';
  // A connection that was tried on several addresses fails with all their errors.
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const reason = inner instanceof Error && inner.message !== '' ? inner.message : error.name;
  return reason.slice(0, MAX_REASON);
}

/** As text. A character may be cut at the end. */
const excerptOf = (bytes: Buffer): string => bytes.toString('utf8').replace(/\uFFFD$/, '');
