import type { IncomingMessage } from 'node:http';
import type { Catalog, KeyEntity } from '../catalog/catalog.js';
import { hashApiKey } from '../catalog/keys.js';
import { isSuspended } from '../catalog/suspension.js';
import type { RequiredScope, Scope } from '../core/scopes.js';
import { StatefoldError, TenantSuspendedError } from '../core/errors.js';

/** On whose behalf a request is made. */
export interface Principal {
  readonly tenantId: string;
  readonly keyId: string;
  /** What the key may be used for; all unless given. */
  readonly scopes?: readonly Scope[];
  /** ISO 8601; the key is in force before it. */
  readonly expiresAt?: string;
}

type KeyCatalog = Pick<Catalog, 'keyByHash' | 'get' | 'onChange' | 'caughtUp'>;

const LONGEST_KEY = 256;

/**
 * Tells the tenant of a request by its `X-API-Key`. Keys are found by their SHA-256, so that neither the lookup's time nor the
 * catalog tells anything of a key. Nothing is cached: the catalog's own index is in memory, and a revoked key ends at once.
 */
export class Authenticator {
  readonly #catalog: KeyCatalog;

  /** `now`: the wall clock, by which keys expire. */
  constructor(
    catalog: KeyCatalog,
    private readonly now: () => number = Date.now,
  ) {
    this.#catalog = catalog;
  }

  /**
   * @throws StatefoldError UNAUTHENTICATED unless the header is there exactly once and names a key in force, TENANT_SUSPENDED,
   * FORBIDDEN where the key has not the scope
   */
  authenticate(request: IncomingMessage, scope: RequiredScope): Principal {
    const key = this.find(request);
    if (key === undefined) throw this.#unauthenticated(request);
    this.permit(key, scope);
    return key;
  }

  /** For a key that `find` has found. @throws StatefoldError TENANT_SUSPENDED, FORBIDDEN */
  permit({ tenantId, scopes }: Principal, scope: RequiredScope): void {
    if (this.isSuspended(tenantId)) throw new TenantSuspendedError();
    if (scope !== 'any' && scopes?.includes(scope) === false) throw forbidden(scope, scopes);
  }

  /** Whose the key is, where it is in force, whatever it may be used for. */
  find(request: IncomingMessage): Principal | undefined {
    const key = this.#named(request);
    return key !== undefined && this.#isInForce(key) && this.#catalog.get('tenant', key.tenantId) !== undefined
      ? key
      : undefined;
  }

  /** As far as this process knows. */
  isSuspended(tenantId: string): boolean {
    return isSuspended(this.#catalog, tenantId);
  }

  /**
   * As `authenticate`, for a key that another process may have made a moment ago, or a tenant that is suspended no more: what
   * isn't known, and who is suspended, is looked for again in all that was written. However many such requests come, those who wait
   * for the catalog gather, so they cost one query at a time.
   */
  async admit(request: IncomingMessage, scope: RequiredScope): Promise<Principal> {
    const known = this.find(request);
    if (known === undefined ? this.#mayBeNew(request) : this.isSuspended(known.tenantId))
      await this.#catalog.caughtUp();
    return this.authenticate(request, scope);
  }

  /** Revoked and expired are for good. */
  #mayBeNew(request: IncomingMessage): boolean {
    const named = this.#named(request);
    return isKey(request.headers['x-api-key']) && (named === undefined || this.#isInForce(named));
  }

  #isInForce({ revokedAt, expiresAt }: KeyEntity): boolean {
    return revokedAt === undefined && (expiresAt === undefined || this.now() < Date.parse(expiresAt));
  }

  #unauthenticated(request: IncomingMessage): StatefoldError {
    const given = request.headers['x-api-key'];
    if (given === undefined || given === '')
      return new StatefoldError('UNAUTHENTICATED', 'The header X-API-Key is missing.');
    const named = this.#named(request);
    // Only who has the key itself is told.
    return new StatefoldError(
      'UNAUTHENTICATED',
      named?.expiresAt !== undefined && named.revokedAt === undefined && !this.#isInForce(named)
        ? `The API key expired at ${named.expiresAt}.`
        : 'The API key is not valid.',
    );
  }

  #named(request: IncomingMessage): KeyEntity | undefined {
    const given = request.headers['x-api-key'];
    return isKey(given) ? this.#catalog.keyByHash(hashApiKey(given)) : undefined;
  }

  /** Called with the id of each key that is revoked or deleted, on the turn of the change. Who holds on to a key that expires looks at its `expiresAt`. */
  onRevoked(listener: (keyId: string) => void): void {
    this.#catalog.onChange(({ kind, id, value, previous }) => {
      if (kind !== 'key') return;
      const inForce = (key: typeof value): boolean => key !== undefined && key.revokedAt === undefined;
      if (inForce(previous) && !inForce(value)) listener(id);
    });
  }
}

/** When a key expires by a clock that shows `now`; never unless it says when. */
export const keyUntil = (expiresAt: string | undefined, now: number): number =>
  expiresAt === undefined ? Infinity : now + Date.parse(expiresAt) - Date.now();

/** Could be a key. Node joins a repeated header with a comma, which no key contains. */
const isKey = (given: string | string[] | undefined): given is string =>
  typeof given === 'string' && given !== '' && given.length <= LONGEST_KEY && !given.includes(',');

const forbidden = (scope: Scope, scopes: readonly Scope[]): StatefoldError =>
  new StatefoldError(
    'FORBIDDEN',
    `The API key has not the scope ${scope}, which this request needs; it has ${scopes.join(', ')}.`,
    { details: { scope, scopes } },
  );
