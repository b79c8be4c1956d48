import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../core/errors.js';
import { queryOf, pathOf } from './parameters.js';

/** What a ticket lets its holder do, in place of the API key that it was made with. */
export interface Ticket {
  readonly tenantId: string;
  /** Of the key: the ticket ends with it. */
  readonly keyId: string;
  /** The one path that it opens, as `plainPath` has it. */
  readonly path: string;
  /** The state keys that may be followed with it; undefined: all. */
  readonly keys?: readonly string[];
  /** Milliseconds since the epoch. What is open by then stays open. */
  readonly expiresAt: number;
}

const SHAPE = /^sft_([\w-]+)\.([\w-]{43})$/;
/** A longer one would not pass in a URL everywhere. */
const LONGEST = 6_000;
/** The query parameter that carries a ticket. */
const PARAMETER = 'ticket';

/**
 * Tickets are told by nobody but this: whoever has the master key, as all processes of a cluster have, makes and reads them, and nothing
 * is stored. They go where an API key must not: into the URL of a WebSocket or an EventSource of a browser, which sends no headers.
 */
export class Tickets {
  readonly #key: Buffer;

  constructor(masterKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', masterKey, '', 'statefold tickets v1', 32));
  }

  /** @throws StatefoldError INVALID_REQUEST where it names too much for one */
  issue({ tenantId, keyId, path, keys, expiresAt }: Ticket): string {
    const payload = Buffer.from(JSON.stringify([tenantId, keyId, path, expiresAt, ...(keys ?? [])])).toString(
      'base64url',
    );
    const ticket = `sft_${payload}.${this.#mac(payload).toString('base64url')}`;
    if (ticket.length > LONGEST)
      throw new StatefoldError(
        'INVALID_REQUEST',
        `/key names too much for one ticket, which goes into a URL: it would have ${ticket.length} characters, and may have ${LONGEST}. Name fewer keys, and make several tickets.`,
      );
    return ticket;
  }

  /** The ticket that a request shows in its query, whatever it is for and expired or not; undefined: none, or not one of ours. */
  of({ url = '' }: Pick<IncomingMessage, 'url'>): Ticket | undefined {
    if (!showsTicket(url)) return undefined;
    const given = queryOf(url).getAll(PARAMETER);
    return given.length === 1 ? this.#read(given[0] ?? '') : undefined;
  }

  #read(text: string): Ticket | undefined {
    const [, payload = '', mac = ''] = (text.length <= LONGEST && SHAPE.exec(text)) || [];
    if (mac === '' || !timingSafeEqual(Buffer.from(mac, 'base64url'), this.#mac(payload))) return undefined;
    // Only what was signed here is read.
    const [tenantId, keyId, path, expiresAt, ...keys] = JSON.parse(
      Buffer.from(payload, 'base64url').toString('utf8'),
    ) as [string, string, string, number, ...string[]];
    return { tenantId, keyId, path, expiresAt, ...(keys.length > 0 && { keys }) };
  }

  #mac(payload: string): Buffer {
    return createHmac('sha256', this.#key).update(payload).digest();
  }
}

/** Why a request that shows the ticket is not what it is for; undefined: it is. */
export function misuseOf(
  { path, keys }: Ticket,
  { url = '' }: Pick<IncomingMessage, 'url'>,
): StatefoldError | undefined {
  const asked = plainPath(pathOf(url));
  if (asked !== path)
    return new StatefoldError('FORBIDDEN', `The ticket is for ${path}, and for no other path: make one for this path.`);
  if (keys === undefined) return undefined;
  const wanted = queryOf(url).getAll('key');
  if (wanted.length > 0 && wanted.every((key) => keys.includes(key))) return undefined;
  return new StatefoldError(
    'FORBIDDEN',
    `The ticket is for some state keys alone: name them, or some of them, as key=… in the query, and no others.`,
  );
}

/** A path in which nothing is escaped that need not be; undefined where an escape can't be read. */
export function plainPath(path: string): string | undefined {
  try {
    return path
      .split('/')
      .map((part) => encodeURIComponent(decodeURIComponent(part)))
      .join('/');
  } catch {
    return undefined;
  }
}

/** As far as the text tells; cheap, since every request without a key is asked. */
export const showsTicket = (url: string): boolean => url.includes(`${PARAMETER}=`);

/** The URL of a request as it may be logged. */
export const withoutTicket = (url: string | undefined): string | undefined =>
  url?.replace(/([?&]ticket=)[^&#]*/g, '$1…');
