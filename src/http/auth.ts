import type { IncomingMessage } from 'node:http';
import type { Catalog, KeyEntity } from '../catalog/catalog.js';
import { hashApiKey } from '../catalog/keys.js';
import { StatefoldError } from '../core/errors.js';

/** On whose behalf a request is made. */
export interface Principal {
  readonly tenantId: string;
  readonly keyId: string;
}

type KeyCatalog = Pick<Catalog, 'keyByHash' | 'get' | 'onChange' | 'caughtUp'>;

const LONGEST_KEY = 256;

/**
 * Tells the tenant of a request by its `X-API-Key`. Keys are found by their SHA-256, so that neither the lookup's time nor the
 * catalog tells anything of a key. Nothing is cached: the catalog's own index is in memory, and a revoked key ends at once.
 */
export class Authenticator {
  readonly #catalog: KeyCatalog;

  constructor(catalog: KeyCatalog) {
    this.#catalog = catalog;
  }

  /** @throws StatefoldError UNAUTHENTICATED unless the header is there exactly once and names a key in force */
  authenticate(request: IncomingMessage): Principal {
    const key = this.find(request);
    if (key !== undefined) return key;
    const given = request.headers['x-api-key'];
    throw new StatefoldError(
      'UNAUTHENTICATED',
      given === undefined || given === '' ? 'The header X-API-Key is missing.' : 'The API key is not valid.',
    );
  }

  /** As `authenticate`, without an error. */
  find(request: IncomingMessage): Principal | undefined {
    const key = this.#named(request);
    return key !== undefined && key.revokedAt === undefined && this.#catalog.get('tenant', key.tenantId) !== undefined
      ? key
      : undefined;
  }

  /**
   * As `authenticate`, for a key that another process may have made a moment ago: one that isn't known is looked for again in
   * all that was written. However many such keys come, those who wait for the catalog gather, so they cost one query at a time.
   */
  async admit(request: IncomingMessage): Promise<Principal> {
    // Revoked is for good.
    if (
      this.find(request) === undefined &&
      isKey(request.headers['x-api-key']) &&
      this.#named(request)?.revokedAt === undefined
    )
      await this.#catalog.caughtUp();
    return this.authenticate(request);
  }

  #named(request: IncomingMessage): KeyEntity | undefined {
    const given = request.headers['x-api-key'];
    return isKey(given) ? this.#catalog.keyByHash(hashApiKey(given)) : undefined;
  }

  /** Called with the id of each key that is no longer in force, on the turn of the change. */
  onRevoked(listener: (keyId: string) => void): void {
    this.#catalog.onChange(({ kind, id, value, previous }) => {
      if (kind !== 'key') return;
      const inForce = (key: typeof value): boolean => key !== undefined && key.revokedAt === undefined;
      if (inForce(previous) && !inForce(value)) listener(id);
    });
  }
}

/** Could be a key. Node joins a repeated header with a comma, which no key contains. */
const isKey = (given: string | string[] | undefined): given is string =>
  typeof given === 'string' && given !== '' && given.length <= LONGEST_KEY && !given.includes(',');
