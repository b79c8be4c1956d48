import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../core/errors.js';

const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer');

/** Whether a request shows the admin key, in a time that tells nothing of it. */
export function isAdminBy(adminKey: string): (request: IncomingMessage) => boolean {
  const expected = sha256(adminKey);
  return ({ headers: { 'x-admin-key': given } }) =>
    typeof given === 'string' && given !== '' && timingSafeEqual(sha256(given), expected);
}

/** The same as a check, which throws StatefoldError UNAUTHENTICATED. */
export function adminCheck(adminKey: string): (request: IncomingMessage) => void {
  const isAdmin = isAdminBy(adminKey);
  return (request) => {
    if (isAdmin(request)) return;
    const isMissing = (request.headers['x-admin-key'] ?? '') === '';
    throw new StatefoldError(
      'UNAUTHENTICATED',
      isMissing ? 'The header X-Admin-Key is missing.' : 'The admin key is not valid.',
    );
  };
}
