import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';
import { StatefoldError } from '../core/errors.js';

/** What of our answers a page's script may read besides the body. */
const EXPOSED = [
  'X-ClickHouse-Format',
  'X-ClickHouse-Exception-Tag',
  'Statefold-Position',
  'Statefold-Sequence',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'X-Request-Id',
  'Allow',
];
/** How long a browser remembers what a preflight was answered. */
const REMEMBERED_SECONDS = 600;
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/**
 * Pages of which origins may use the service. Fetch and EventSource are held to it by the browser, which goes by the headers of our
 * answers (CORS). A WebSocket is not: a browser opens one to anywhere, and says in `Origin` for which page, so that is checked here.
 * Who is no browser sends no `Origin`, and is not asked for one.
 */
export class Origins {
  /**
   * Sets the headers of CORS, and goes on: the answer to a preflight is the router's, which knows the methods of each path. In front of
   * express, and no middleware of it, since appends are answered before it. Without origins nothing is set.
   */
  readonly allow: (request: IncomingMessage, response: ServerResponse, next: () => void) => void;
  readonly #allowed: readonly string[];

  /** `allowed`: origins as browsers write them, or `*`. */
  constructor(allowed: readonly string[]) {
    this.#allowed = allowed;
    if (allowed.length === 0) this.allow = (_request, _response, next) => next();
    else
      this.allow = cors({
        origin: this.#allowsAll ? '*' : [...allowed],
        exposedHeaders: EXPOSED,
        methods: [],
        maxAge: REMEMBERED_SECONDS,
        preflightContinue: true,
      });
  }

  /** Why the WebSocket that a page asks for is refused; undefined: it is of an allowed origin, of this one, or no page asks. */
  refusal({ headers: { origin, host } }: IncomingMessage): StatefoldError | undefined {
    if (origin === undefined || this.#allowsAll || this.#allowed.includes(origin) || isSame(origin, host))
      return undefined;
    return new StatefoldError(
      'FORBIDDEN',
      `Pages of the origin ${printable(origin)} may not open WebSockets here: name it in CORS_ORIGINS.`,
    );
  }

  get #allowsAll(): boolean {
    return this.#allowed.includes('*');
  }
}

/** Whether the page came from the host that it asks. Its scheme isn't compared: behind a proxy that ends TLS ours is another one. */
function isSame(origin: string, host: string | undefined): boolean {
  if (host === undefined || !URL.canParse(origin)) return false;
  const { protocol, host: own, port, hostname } = new URL(origin);
  // An origin leaves out the usual port of its scheme, and a Host may have it.
  const usual = DEFAULT_PORTS[protocol];
  return (
    own === host.toLowerCase() || (port === '' && usual !== undefined && `${hostname}:${usual}` === host.toLowerCase())
  );
}

const printable = (origin: string): string => (origin.length > 200 ? `${origin.slice(0, 200)}…` : origin);
