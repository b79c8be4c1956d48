import type { IncomingMessage, ServerResponse } from 'node:http';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { StatefoldError } from '../../core/errors.js';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Everything of the pages comes from here, and they talk to nobody else; no page of others frames them. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The names of these files change with what is in them. */
const FOREVER = 'public, max-age=31536000, immutable';
const ASSETS = '/console/assets/';

interface Page {
  readonly type: string;
  readonly plain: Buffer;
  /** As `scripts/build-console.mjs` compressed it; files that compress to nothing less have none. */
  readonly brotli: Buffer | undefined;
}

/**
 * The console as static files, which hold nothing of any tenant: its pages ask the interface with the key that their viewer gives. All are kept in memory;
 * there are few. Under `/console` every path that is no file is the same page, which finds its way by the path itself.
 */
export class ConsolePages {
  readonly #pages: ReadonlyMap<string, Page>;

  /** `directory`: what the build left; without it the paths are answered 404, with the command that makes it. */
  constructor(directory: string) {
    this.#pages = existsSync(directory) ? new Map(pagesIn(directory)) : new Map();
  }

  /** The request is one for the console: `/console` and below, or `/` as a browser asks for it. */
  isAsked({ method, headers }: IncomingMessage, path: string): boolean {
    if (path === '/console' || path.startsWith('/console/')) return true;
    return path === '/' && (method === 'GET' || method === 'HEAD') && (headers.accept ?? '').includes('text/html');
  }

  /** @throws StatefoldError NOT_FOUND, METHOD_NOT_ALLOWED */
  answer({ method, headers }: IncomingMessage, response: ServerResponse, path: string): void {
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      throw new StatefoldError('METHOD_NOT_ALLOWED', `${method ?? ''} is not allowed here: GET, HEAD.`);
    }
    if (path === '/') {
      response.writeHead(302, { Location: '/console', Vary: 'Accept', 'Cache-Control': 'no-store' }).end();
      return;
    }
    const file = this.#pages.get(path);
    const page = file ?? (path.startsWith(ASSETS) ? undefined : this.#pages.get('/console/index.html'));
    if (page === undefined)
      throw new StatefoldError(
        'NOT_FOUND',
        this.#pages.size > 0
          ? `There is nothing at ${path}.`
          : 'The console was not built with this service: `npm run build` makes it.',
      );
    const brotli =
      page.brotli !== undefined && /\bbr\b/.test(headers['accept-encoding'] ?? '') ? page.brotli : undefined;
    const body = brotli ?? page.plain;
    response.writeHead(200, {
      'Content-Type': page.type,
      'Content-Length': String(body.length),
      ...(brotli === undefined ? {} : { 'Content-Encoding': 'br' }),
      Vary: 'Accept-Encoding',
      'Cache-Control': path.startsWith(ASSETS) ? FOREVER : 'no-cache',
      'Content-Security-Policy': POLICY,
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
    });
    response.end(method === 'HEAD' ? undefined : body);
  }
}

function* pagesIn(directory: string): Generator<[path: string, page: Page]> {
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    const type = TYPES[extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const file = join(entry.parentPath, entry.name);
    const path = `/console/${relative(directory, file).split(sep).join('/')}`;
    const brotli = existsSync(`${file}.br`) ? readFileSync(`${file}.br`) : undefined;
    yield [path, { type, plain: readFileSync(file), brotli }];
  }
}
