import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../core/errors.js';

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

/** A check of `X-Admin-Key` against the admin key, in a time that tells nothing of it. */
export function adminCheck(adminKey: string): (request: IncomingMessage) => void {
  const expected = sha256(adminKey);
  return (request) => {
    const given = request.headers['x-admin-key'];
    if (typeof given !== 'string' || given === '')
      throw new StatefoldError('UNAUTHENTICATED', 'The header X-Admin-Key is missing.');
    if (!timingSafeEqual(sha256(given), expected))
      throw new StatefoldError('UNAUTHENTICATED', 'The admin key is not valid.');
  };
}
