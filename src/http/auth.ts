import type { IncomingMessage } from 'node:http';
import type { Catalog } from '../catalog/catalog.js';
import { hashApiKey } from '../catalog/keys.js';
import { StatefoldError } from '../core/errors.js';

/** On whose behalf a request is made. */
export interface Principal {
  readonly tenantId: string;
  readonly keyId: string;
}

const LONGEST_KEY = 256;

/**
 * Tells the tenant of a request by its `X-API-Key`. Keys are found by their SHA-256, so that neither the lookup's time nor the
 * catalog tells anything of a key. Nothing is cached: the catalog's own index is in memory, and a revoked key ends at once.
 */
export class Authenticator {
  readonly #catalog: Pick<Catalog, 'keyByHash' | 'get' | 'onChange'>;

  constructor(catalog: Pick<Catalog, 'keyByHash' | 'get' | 'onChange'>) {
    this.#catalog = catalog;
  }

  /** @throws StatefoldError UNAUTHENTICATED unless the header is there exactly once and names a key in force */
  authenticate(request: IncomingMessage): Principal {
    // Node joins a repeated header with a comma, which no key contains: so it hashes to nothing.
    const given = request.headers['x-api-key'];
    if (given === undefined || given === '') throw new StatefoldError('UNAUTHENTICATED', 'The header X-API-Key is missing.');
    if (typeof given === 'string' && given.length <= LONGEST_KEY && !given.includes(',')) {
      const key = this.#catalog.keyByHash(hashApiKey(given));
      if (key !== undefined && key.revokedAt === undefined && this.#catalog.get('tenant', key.tenantId) !== undefined) return key;
    }
    throw new StatefoldError('UNAUTHENTICATED', 'The API key is not valid.');
  }

  /** Called with the id of each key that is no longer in force, on the turn of the change. */
  onRevoked(listener: (keyId: string) => void): void {
    this.#catalog.onChange(({ kind, id, value, previous }) => {
      if (kind !== 'key') return;
      const inForce = (key: typeof value): boolean => key !== undefined && !('revokedAt' in key && key.revokedAt !== undefined);
      if (inForce(previous) && !inForce(value)) listener(id);
    });
  }
}
