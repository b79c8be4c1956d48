import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../../core/errors.js';
import { COMMAND_ID, FORWARDED } from './headers.js';
import type { PeerTls } from './peer-tls.js';

/** A proof holds for so long, either way: the clocks of two processes may differ by as much. */
const HOLDS_MS = 60_000;
const PROOF = /^v1\.(\d{1,15})\.([\w-]{43})$/;
/** What else the proof covers: a request that is repeated with another key, or as another append, is another request. */
const COVERED = ['x-request-id', 'x-api-key', 'x-admin-key', 'x-forwarded-for', COMMAND_ID] as const;

/**
 * What the processes of a cluster prove to each other. They have the master key in common; a key that is derived from it signs each
 * request that one sends on to another, so that no client can pass for a process. With `tls` they meet on a port of their own, where
 * both show a certificate.
 */
export class Peers {
  readonly tls: PeerTls | undefined;
  readonly #key: Buffer;
  readonly #now: () => number;

  constructor(masterKey: string, tls?: PeerTls, now: () => number = Date.now) {
    this.#key = Buffer.from(hkdfSync('sha256', masterKey, '', 'statefold peers v1', 32));
    this.tls = tls;
    this.#now = now;
  }

  /** Value of `Statefold-Forwarded` for a request of `method` and `target` with these headers, names and values in turn. */
  proof(method: string, target: string, headers: readonly string[]): string {
    const given: Record<string, string> = {};
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = (headers[i] ?? '').toLowerCase();
      given[name] = name in given ? `${given[name]}, ${headers[i + 1]}` : (headers[i + 1] ?? '');
    }
    const at = String(this.#now());
    return `v1.${at}.${this.#mac(at, method, target, given).toString('base64url')}`;
  }

  /** Why a request that says that another process sent it is refused; undefined: one did, or the request doesn't say so. */
  refusal(request: IncomingMessage): StatefoldError | undefined {
    const given = request.headers[FORWARDED];
    if (given === undefined) return undefined;
    const [, at = '', mac = ''] = (typeof given === 'string' && PROOF.exec(given)) || [];
    const { method = '', url = '', headers } = request;
    const proven = mac !== '' && timingSafeEqual(Buffer.from(mac, 'base64url'), this.#mac(at, method, url, headers));
    if (!proven)
      return new StatefoldError(
        'INVALID_REQUEST',
        'The header Statefold-Forwarded is for the processes of the service among themselves: leave it out. (Sent by one of them, its STATEFOLD_MASTER_KEY is another one.)',
      );
    const apart = Math.abs(this.#now() - Number(at));
    if (apart <= HOLDS_MS) return undefined;
    return new StatefoldError(
      'UNAVAILABLE',
      `the clock of the process that sent the request on is ${Math.round(apart / 1000)} s apart from this one's, at most ${HOLDS_MS / 1000} s are: set them by NTP`,
    );
  }

  #mac(
    at: string,
    method: string,
    target: string,
    headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ): Buffer {
    const mac = createHmac('sha256', this.#key).update(`${at}\n${method}\n${target}`);
    // No header holds a line end.
    for (const name of COVERED) mac.update(`\n${String(headers[name] ?? '')}`);
    return mac.digest();
  }
}
