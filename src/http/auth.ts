import type { IncomingMessage } from 'node:http';
import type { Catalog, KeyEntity } from '../catalog/catalog.js';
import { hashApiKey } from '../catalog/keys.js';
import { isBeingImported, isClosed } from '../catalog/suspension.js';
import type { RequiredScope, Scope } from '../core/scopes.js';
import { StatefoldError, TenantSuspendedError } from '../core/errors.js';
import { misuseOf, showsTicket, type Ticket, type Tickets } from './tickets.js';

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
const NOTHING = { key: undefined, ticket: undefined } as const;

/**
 * Tells the tenant of a request by its `X-API-Key`, or by a ticket that was made with one. Keys are found by their SHA-256, so that neither the lookup's time nor the
 * catalog tells anything of a key. Nothing is cached: the catalog's own index is in memory, and a revoked key ends at once.
 */
export class Authenticator {
  readonly #catalog: KeyCatalog;

  /** `now`: the wall clock, by which keys and tickets expire. Without `tickets` no ticket is one. */
  constructor(
    catalog: KeyCatalog,
    private readonly now: () => number = Date.now,
    private readonly tickets?: Pick<Tickets, 'of'>,
  ) {
    this.#catalog = catalog;
  }

  /**
   * @throws StatefoldError UNAUTHENTICATED unless the header is there exactly once and names a key in force, or a ticket of such a key
   * has not expired; TENANT_SUSPENDED; FORBIDDEN where the key has not the scope, or the ticket is for something else
   */
  authenticate(request: IncomingMessage, scope: RequiredScope): Principal {
    const key = this.find(request);
    if (key === undefined) throw this.#refusal(request);
    this.permit(key, scope);
    return key;
  }

  /** For a key that `find` has found. @throws StatefoldError TENANT_SUSPENDED, FORBIDDEN */
  permit({ tenantId, scopes }: Principal, scope: RequiredScope): void {
    if (this.isClosed(tenantId)) throw new TenantSuspendedError(isBeingImported(this.#catalog, tenantId));
    if (scope !== 'any' && scopes?.includes(scope) === false) throw forbidden(scope, scopes);
  }

  /** Whose the key is, where it is in force, whatever it may be used for; or whose ticket, where it is for this request. */
  find(request: IncomingMessage): Principal | undefined {
    const { key, ticket } = this.#shown(request);
    if (key === undefined || !this.#isInForce(key) || this.#catalog.get('tenant', key.tenantId) === undefined)
      return undefined;
    if (ticket !== undefined && (this.#hasExpired(ticket) || misuseOf(ticket, request) !== undefined)) return undefined;
    return key;
  }

  /** As far as this process knows. */
  isClosed(tenantId: string): boolean {
    return isClosed(this.#catalog, tenantId);
  }

  /**
   * As `authenticate`, for a key that another process may have made a moment ago, or a tenant that is suspended no more: what
   * isn't known, and who is suspended, is looked for again in all that was written. However many such requests come, those who wait
   * for the catalog gather, so they cost one query at a time.
   */
  async admit(request: IncomingMessage, scope: RequiredScope): Promise<Principal> {
    const known = this.find(request);
    if (known === undefined ? this.#mayBeNew(request) : this.isClosed(known.tenantId)) await this.#catalog.caughtUp();
    return this.authenticate(request, scope);
  }

  /** Revoked and expired are for good. */
  #mayBeNew(request: IncomingMessage): boolean {
    const { key, ticket } = this.#shown(request);
    if (ticket !== undefined) return key === undefined && !this.#hasExpired(ticket);
    return isKey(request.headers['x-api-key']) && (key === undefined || this.#isInForce(key));
  }

  #isInForce({ revokedAt, expiresAt }: KeyEntity): boolean {
    return revokedAt === undefined && (expiresAt === undefined || this.now() < Date.parse(expiresAt));
  }

  #hasExpired({ expiresAt }: Ticket): boolean {
    return this.now() >= expiresAt;
  }

  #refusal(request: IncomingMessage): StatefoldError {
    const given = request.headers['x-api-key'];
    const { key, ticket } = this.#shown(request);
    if (ticket !== undefined) return this.#refusalOf(ticket, key, request);
    if (given === undefined || given === '')
      return unauthenticated(
        showsTicket(request.url ?? '')
          ? 'The ticket is not valid: make a new one.'
          : 'The header X-API-Key is missing.',
      );
    // Only who has the key itself is told.
    return unauthenticated(
      key?.expiresAt !== undefined && key.revokedAt === undefined && !this.#isInForce(key)
        ? `The API key expired at ${key.expiresAt}.`
        : 'The API key is not valid.',
    );
  }

  #refusalOf(ticket: Ticket, key: KeyEntity | undefined, request: IncomingMessage): StatefoldError {
    if (key === undefined || !this.#isInForce(key))
      return unauthenticated('The API key that the ticket was made with is no longer valid.');
    if (this.#hasExpired(ticket))
      return unauthenticated(`The ticket expired at ${new Date(ticket.expiresAt).toISOString()}: make a new one.`);
    return misuseOf(ticket, request) ?? unauthenticated('The ticket is not valid: make a new one.');
  }

  /** By the header, or without it by a ticket in the query. */
  #shown(request: IncomingMessage): { readonly key: KeyEntity | undefined; readonly ticket: Ticket | undefined } {
    const given = request.headers['x-api-key'];
    if (given === undefined) {
      const ticket = this.tickets?.of(request);
      if (ticket === undefined) return NOTHING;
      const key = this.#catalog.get('key', ticket.keyId)?.value;
      return { ticket, key: key?.tenantId === ticket.tenantId ? key : undefined };
    }
    return { key: isKey(given) ? this.#catalog.keyByHash(hashApiKey(given)) : undefined, ticket: undefined };
  }

  /**
   * Called with the id of each key that is revoked, or deleted, which it is with its tenant alone, on the turn of the change. Who holds on to a
   * key that expires looks at its `expiresAt`.
   */
  onRevoked(listener: (keyId: string, why: 'revoked' | 'tenant deleted') => void): void {
    this.#catalog.onChange(({ kind, id, value, previous }) => {
      if (kind !== 'key') return;
      const inForce = (key: typeof value): boolean => key !== undefined && key.revokedAt === undefined;
      if (inForce(previous) && !inForce(value)) listener(id, value === undefined ? 'tenant deleted' : 'revoked');
    });
  }
}

/** When a key expires by a clock that shows `now`; never unless it says when. */
export const keyUntil = (expiresAt: string | undefined, now: number): number =>
  expiresAt === undefined ? Infinity : now + Date.parse(expiresAt) - Date.now();

/** Could be a key. Node joins a repeated header with a comma, which no key contains. */
const isKey = (given: string | string[] | undefined): given is string =>
  typeof given === 'string' && given !== '' && given.length <= LONGEST_KEY && !given.includes(',');

const unauthenticated = (message: string): StatefoldError => new StatefoldError('UNAUTHENTICATED', message);

const forbidden = (scope: Scope, scopes: readonly Scope[]): StatefoldError =>
  new StatefoldError(
    'FORBIDDEN',
    `The API key has not the scope ${scope}, which this request needs; it has ${scopes.join(', ')}.`,
    { details: { scope, scopes } },
  );
