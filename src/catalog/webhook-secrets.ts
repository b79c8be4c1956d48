import { DAY_MS } from '../core/clock.js';
import { isoTimestamp } from '../core/event.js';
import type { SealedSecret } from './catalog.js';
import { mintWebhookSecret, type Sealer } from './sealing.js';

/** How long a secret goes on signing after it was rotated out. */
const SECRET_OVERLAP_MS = DAY_MS;
/** Rotated-out secrets that sign beside the current one; the signature header stays short however often one rotates. */
const MAX_RETIRED = 3;

/**
 * Puts a new secret first. The one before it signs for another 24 hours; those whose time is over are dropped, and those that
 * were sealed with a master key that is lost, so that a rotation mends that.
 */
export function rotateSecrets(
  sealer: Sealer,
  secrets: readonly SealedSecret[],
  now: number,
): { readonly secrets: readonly SealedSecret[]; readonly secret: string } {
  const secret = mintWebhookSecret();
  const retired = secrets
    .map((old) => ({ ...old, expiresAt: old.expiresAt ?? isoTimestamp(now + SECRET_OVERLAP_MS) }))
    .filter((old) => Date.parse(old.expiresAt) > now && sealer.opens(old.sealed))
    .slice(0, MAX_RETIRED);
  return { secrets: [{ sealed: sealer.seal(secret), createdAt: isoTimestamp(now) }, ...retired], secret };
}

/** The secrets that sign at `now`, in clear, the current one first; empty when none was made yet. */
export const signingSecrets = (
  sealer: Pick<Sealer, 'unseal'>,
  secrets: readonly SealedSecret[],
  now: number,
): string[] => sealedThatSign(secrets, now).map((sealed) => sealer.unseal(sealed));

/** The same as they are kept. */
export const sealedThatSign = (secrets: readonly SealedSecret[], now: number): string[] =>
  secrets.filter(({ expiresAt }) => expiresAt === undefined || Date.parse(expiresAt) > now).map(({ sealed }) => sealed);
