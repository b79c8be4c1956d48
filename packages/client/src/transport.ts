import { orAborted, textOf } from './body.js';
import {
  isClientError,
  isRefused,
  RefusedError,
  retryAfterOf,
  TimeoutError,
  UnexpectedAnswerError,
  UnreachableError,
} from './errors.js';
import { withDefaults } from './options.js';
import { backOff, LONGEST_MS, pause } from './pause.js';
import { refusedMidway } from './sql-exception.js';
import type { Problem } from './wire.js';

export interface RetryOptions {
  /** How often a call is sent in all; 1: never again. */
  readonly attempts: number;
  /** Between the first two, milliseconds; doubled from then on, and by chance half of it. */
  readonly firstDelayMs: number;
  readonly mostDelayMs: number;
}

export interface TransportOptions {
  /** Where the service is: `https://events.example.com`. */
  readonly url: string;
  /** Key of a tenant. */
  readonly apiKey?: string | undefined;
  /** Key of the service's owner, for the operations under `/admin`. */
  readonly adminKey?: string | undefined;
  /** How long one attempt may take, milliseconds. */
  readonly timeoutMs?: number | undefined;
  readonly retry?: { readonly [K in keyof RetryOptions]?: RetryOptions[K] | undefined } | undefined;
  /** A `traceparent` (W3C Trace Context), or what gives the one of the moment; undefined: none is sent. */
  readonly traceparent?: string | (() => string | undefined) | undefined;
  /** In place of the platform's. */
  readonly fetch?: typeof fetch | undefined;
  /**
   * In place of `JSON.parse`, for what the service answers and streams: one that keeps numbers as they are written, for instance, where
   * states have integers past 2^53. Positions, versions and statuses are read from what it gives: integers that a number can hold must be numbers.
   * Throws where the text is no JSON.
   */
  readonly parseJson?: ((text: string) => unknown) | undefined;
}

export interface Sent {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly key: 'tenant' | 'admin' | 'none';
  readonly body?: string | FormData | undefined;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** To send it twice does no harm. */
  readonly repeatable: boolean;
  /** That there is none, where an attempt before had no answer, is what that attempt has done. */
  readonly goneIsDone?: boolean;
  /** It waits as long as its caller says: that something was not there by then is the answer. */
  readonly waits?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** In place of that of all. */
  readonly timeoutMs?: number | undefined;
  /**
   * Takes each line of an answer of success as it comes, which ends with a line feed; the text of the answer is empty then. The time-out is between two pieces of the
   * answer instead of for all of it, and an attempt of which a line came is not repeated: what was answered is known.
   */
  readonly onLine?: ((line: string, status: number) => void) | undefined;
}

export interface Received {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

const TIMEOUT_MS = 30_000;
const RETRY: RetryOptions = { attempts: 6, firstDelayMs: 100, mostDelayMs: 5_000 };
const AGAIN = new Set([429, 502, 503, 504]);
/** A pause that is asked for past this is the caller's to make. */
const MOST_RETRY_AFTER_SECONDS = 60;

/** Sends requests to one service: keys, time-outs, retries, and refusals as errors. */
export class Transport {
  readonly url: string;
  readonly #options: TransportOptions;
  readonly #retry: RetryOptions;
  readonly #fetch: typeof fetch;

  constructor(options: TransportOptions) {
    const { url, retry } = options;
    this.url = baseOf(url);
    this.#options = options;
    this.#retry = withDefaults(RETRY, retry);
    this.#fetch = options.fetch ?? ((...asked) => globalThis.fetch(...asked));
  }

  /** What the service answered or streamed; undefined where the text is no JSON. */
  parse(text: string): unknown {
    return parsed(text, this.#options.parseJson);
  }

  /** The same of an answer that must be JSON. @throws UnexpectedAnswerError */
  answer(text: string, status: number): unknown {
    const answer = this.parse(text);
    if (answer === undefined) throw new UnexpectedAnswerError(this.url, status, 'something that is not JSON');
    return answer;
  }

  /** Headers that say who asks. @throws TypeError without the key that is needed */
  headers(key: Sent['key']): Record<string, string> {
    const { apiKey, adminKey, traceparent } = this.#options;
    const headers: Record<string, string> = {};
    if (key === 'tenant') {
      if (apiKey === undefined) throw new TypeError('this call needs the option apiKey, a key of the tenant');
      headers['X-API-Key'] = apiKey;
    } else if (key === 'admin') {
      if (adminKey === undefined) throw new TypeError('this call needs the option adminKey, the key of the owner');
      headers['X-Admin-Key'] = adminKey;
    }
    const trace = typeof traceparent === 'function' ? traceparent() : traceparent;
    if (trace !== undefined) headers['traceparent'] = trace;
    return headers;
  }

  /** The answer of success. @throws ClientError; the reason of the signal */
  async send(sent: Sent): Promise<Received> {
    refuseDotSegments(sent.path);
    const { attempts, firstDelayMs: first, mostDelayMs: most } = this.#retry;
    let hasLines = false;
    const { onLine } = sent;
    const taken: Sent =
      onLine === undefined
        ? sent
        : {
            ...sent,
            onLine: (line, status) => {
              hasLines = true;
              onLine(line, status);
            },
          };
    let mayBeDone = false;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(taken);
      } catch (error) {
        // What an attempt before, whose answer was lost, has taken away is no longer there.
        if (mayBeDone && sent.goneIsDone === true && error instanceof RefusedError && error.status === 404)
          return { status: 204, headers: new Headers(), text: '' };
        mayBeDone ||= !isPastPace(error);
        const isAnswer = sent.waits === true && isRefused(error, 'NOT_CAUGHT_UP');
        if (
          hasLines ||
          isAnswer ||
          attempt >= attempts ||
          sent.signal?.aborted ||
          !sent.repeatable ||
          !mayRepeat(error)
        )
          throw error;
        const asked = retryAfterOf(error);
        if (asked !== undefined && asked > MOST_RETRY_AFTER_SECONDS) throw error;
        const wait = backOff(attempt, { first, most });
        await pause(asked === undefined ? wait : Math.max(wait, asked * 1000), sent.signal);
      }
    }
  }

  /** An answer that goes on, whatever its status. @throws UnreachableError; the reason of the signal */
  async open(
    path: string,
    {
      accept,
      asking = this.headers('tenant'),
      signal,
    }: {
      readonly accept: string;
      readonly asking?: Readonly<Record<string, string>> | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<Response> {
    try {
      return await this.#answer(path, { headers: { ...asking, Accept: accept }, redirect: 'error', signal });
    } catch (error) {
      throw new UnreachableError(this.url, error);
    }
  }

  /** The whole body of an answer. @throws UnreachableError where it breaks off */
  async textOf({ body }: Response, signal: AbortSignal): Promise<string> {
    let text = '';
    try {
      for await (const piece of textOf(body, signal)) text += piece;
    } catch (error) {
      throw new UnreachableError(this.url, error);
    }
    return text;
  }

  /** The head of an answer; one that comes after the signal has aborted is let go. */
  #answer(path: string, init: RequestInit & { readonly signal: AbortSignal }): Promise<Response> {
    const { signal } = init;
    const answer = this.#fetch(this.url + path, init);
    const letGo = ({ body }: Response): unknown => (signal.aborted ? body?.cancel() : undefined);
    answer.then(letGo).catch(() => undefined);
    return orAborted(answer, signal);
  }

  async #once(sent: Sent): Promise<Received> {
    const { status, headers, text } = await this.#exchange(sent);
    if (status < 400) return { status, headers, text };
    throw refusalOf(this.url, { status, headers, text });
  }

  async #exchange({ method, path, key, body, contentType, headers, signal, onLine, ...sent }: Sent): Promise<Received> {
    const all = { ...this.headers(key), ...headers };
    if (typeof body === 'string') all['Content-Type'] = contentType ?? 'application/json';
    const milliseconds = Math.min(sent.timeoutMs ?? this.#options.timeoutMs ?? TIMEOUT_MS, LONGEST_MS);
    const ended = new AbortController();
    const abort = (): void => ended.abort(signal?.reason);
    if (signal?.aborted) throw signal.reason as Error;
    signal?.addEventListener('abort', abort, { once: true });
    let late = false;
    const end = (): void => {
      late = true;
      ended.abort();
    };
    let timer = setTimeout(end, milliseconds);
    let response: Response | undefined;
    let text = '';
    try {
      response = await this.#answer(path, {
        method,
        headers: all,
        redirect: 'error',
        signal: ended.signal,
        ...(body === undefined ? {} : { body }),
      });
      const { status } = response;
      const byLine = onLine !== undefined && status < 400;
      for await (const piece of textOf(response.body, ended.signal)) {
        text += piece;
        if (!byLine) continue;
        clearTimeout(timer);
        timer = setTimeout(end, milliseconds);
        const lines = text.split('\n');
        text = lines.pop() ?? '';
        for (const line of lines) onLine(line, status);
      }
      // What is between the two may end a broken answer as if it were whole.
      if (byLine && text !== '') throw new Error('the answer broke off in the middle of a line');
      return { status, headers: response.headers, text: byLine ? '' : text };
    } catch (error) {
      if (signal?.aborted) throw signal.reason as Error;
      if (late) throw new TimeoutError(this.url, milliseconds, { goesOn: onLine !== undefined });
      if (isClientError(error)) throw error;
      throw (response && refusedMidway(response.headers, text)) ?? new UnreachableError(this.url, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }
}

/** Paths are put behind it. @throws TypeError */
function baseOf(url: string): string {
  const base = /^https?:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : undefined;
  if (base === undefined)
    throw new TypeError(`url must be an http or https URL, for instance http://127.0.0.1:8080, and is ${url}`);
  // No `fetch` takes a URL with a password, and no message is to have it.
  if (base.username !== '' || base.password !== '')
    throw new TypeError('url must have no name or password in it: the option apiKey says who asks');
  if (/[?#]/.test(base.href))
    throw new TypeError(`url must end before ? and #, for instance http://127.0.0.1:8080, and is ${url}`);
  return base.href.replace(/\/+$/, '');
}

/** Nothing was done: the service, or what is in front of it, asks to come later. */
const isPastPace = (error: unknown): boolean =>
  (error instanceof RefusedError || error instanceof UnexpectedAnswerError) && error.status === 429;

function mayRepeat(error: unknown): boolean {
  if (error instanceof RefusedError || error instanceof UnexpectedAnswerError) return AGAIN.has(error.status);
  return error instanceof UnreachableError || error instanceof TimeoutError;
}

/** The refusal that an answer tells. */
export function refusalOf(url: string, { status, headers, text }: Received): RefusedError | UnexpectedAnswerError {
  const problem = parsed(text);
  const after = retryAfter(headers);
  return isProblem(problem)
    ? new RefusedError(problem, after)
    : new UnexpectedAnswerError(url, status, 'no problem document', after);
}

/**
 * Seconds; undefined where it makes no sense. What is between the service and its clients may say a date, which is of the clock of whoever
 * says it.
 */
function retryAfter(headers: Headers): number | undefined {
  const text = headers.get('retry-after') ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const at = /^[A-Za-z]{3}, /.test(text) ? Date.parse(text) : Number.NaN;
  const said = Date.parse(headers.get('date') ?? '');
  return Number.isNaN(at) ? undefined : Math.max(0, (at - (Number.isNaN(said) ? Date.now() : said)) / 1000);
}

const isProblem = (value: unknown): value is Problem =>
  typeof value === 'object' && value !== null && 'code' in value && 'detail' in value && 'status' in value;

/** Undefined where the text is no JSON. */
function parsed(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** However they are encoded, a URL takes them out, and something else would be asked for. @throws TypeError */
function refuseDotSegments(path: string): void {
  const [, segment] = /\/(\.{1,2})(?=[/?]|$)/.exec(path.split('?', 1)[0] ?? '') ?? [];
  if (segment !== undefined)
    throw new TypeError(`${path} has the id ${segment} in it, which no path of a URL can hold: it can't be asked for`);
}
