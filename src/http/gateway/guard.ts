import type { IncomingMessage } from 'node:http';
import type { Catalog } from '../../catalog/catalog.js';
import type { RequiredScope } from '../../core/scopes.js';
import { partitionKey } from '../../core/slots.js';
import { hasCode, NotOwnerError, StatefoldError } from '../../core/errors.js';
import { partitionOf } from '../../core/murmur2.js';
import type { AggregateHomes } from '../../tenancy/tenant.js';
import type { Authenticator } from '../auth.js';
import type { Body, BodySettings } from '../bodies.js';
import { queryOf } from '../parameters.js';
import type { Call, Credentials, ServedBy } from '../route.js';
import type { ForwardedRequest, Gateway, TenantServer } from './gateway.js';
import { isForwarded, NOT_OWNER } from './headers.js';

export interface GuardOptions {
  readonly gateway: Gateway;
  readonly authenticator: Authenticator;
  /** @throws StatefoldError UNAUTHENTICATED */
  readonly requireAdmin: (request: IncomingMessage) => void;
  readonly catalog: Pick<Catalog, 'caughtUp' | 'onChange'>;
  readonly tenants: Pick<AggregateHomes, 'partitionsOf'>;
  readonly settings: BodySettings;
}

/** What of a route decides where it is served. */
interface Guarded {
  readonly servedBy: ServedBy;
  readonly ownerWith?: string;
  readonly credentials: Credentials;
  readonly scope?: RequiredScope;
  readonly ofCatalog?: true;
  readonly lasting?: true;
  readonly lastingWith?: string;
  readonly probe?: true;
  readonly body?: Body<unknown>;
}

/** A request of a route. */
interface GuardedRequest {
  readonly route: Guarded;
  readonly call: Call;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Which of a tenant's processes is to serve the request. */
export function serverOf(
  { servedBy, ownerWith }: Pick<Guarded, 'servedBy'> & { readonly ownerWith?: string | undefined },
  request: Pick<IncomingMessage, 'url'>,
): TenantServer {
  if (servedBy !== 'notifier') return 'owner';
  return hasParameter(request, ownerWith) ? 'owner' : 'notifier';
}

const hasParameter = (request: Pick<IncomingMessage, 'url'>, name: string | undefined): boolean =>
  name !== undefined && queryOf(request.url ?? '').has(name);

/**
 * Stands before the handlers with the question of who is to serve a request. One of a tenant that another process owns is
 * forwarded before anything of it is read. What is served here rests on a catalog that several processes write: a key that isn't
 * known, and an entity that isn't there, are looked for again once this process has all that was written; a change is made on top
 * of all that, and the admin is answered from it.
 */
export class Guard {
  readonly #options: GuardOptions;
  #changes = 0;

  constructor(options: GuardOptions) {
    this.#options = options;
    options.catalog.onChange(() => void this.#changes++);
  }

  /** Has the request served: by the process whose it is, or by `serve` here. @throws what `serve` throws, and as `Gateway.forward` */
  async serve(
    route: Guarded,
    call: Call,
    parameters: Readonly<Record<string, string>>,
    serve: (call: Call) => Promise<void>,
  ): Promise<'here' | 'elsewhere'> {
    const asked = { route, call, parameters };
    const admitted = this.#admitted(asked);
    if (admitted !== undefined && (await admitted)) return 'elsewhere';
    const before = this.#changes;
    try {
      await serve(call);
    } catch (thrown) {
      if (!(thrown instanceof StatefoldError) || !call.safe || call.response.headersSent) throw thrown;
      const next = await this.#afterRefusal(asked, thrown, before);
      if (next === 'told') throw thrown;
      if (next === 'answered') return 'elsewhere';
      await serve(call);
    }
    return 'here';
  }

  /** Undefined: the request may be served here at once. True: it is answered. */
  #admitted(asked: GuardedRequest): Promise<boolean> | undefined {
    const { route, call } = asked;
    // It answers while the log is away, too.
    if (route.probe) return undefined;
    if (route.credentials === 'admin') return this.#admitAdmin(asked);
    if (route.credentials !== 'tenant') return undefined;
    const { authenticator } = this.#options;
    const tenantId = call.safe ? authenticator.find(call.request)?.tenantId : undefined;
    return tenantId !== undefined &&
      !authenticator.isClosed(tenantId) &&
      (route.servedBy === 'any' || this.#isHere(asked, tenantId))
      ? undefined
      : this.#admit(asked);
  }

  async #admit(asked: GuardedRequest): Promise<boolean> {
    const { authenticator, catalog } = this.#options;
    const { route, call } = asked;
    let tenantId: string;
    try {
      tenantId = (await authenticator.admit(call.request, call.scope)).tenantId;
    } catch (error) {
      // The route tells it.
      if (hasCode(error, 'UNAUTHENTICATED')) return false;
      throw error;
    }
    if (route.servedBy !== 'any' && !this.#isHere(asked, tenantId) && (await this.#forward(asked, tenantId)))
      return true;
    if (!call.safe) await catalog.caughtUp();
    return false;
  }

  async #admitAdmin(asked: GuardedRequest): Promise<boolean> {
    const { requireAdmin, catalog } = this.#options;
    const { route, call, parameters } = asked;
    try {
      requireAdmin(call.request);
    } catch {
      return false;
    }
    if (typeof route.servedBy === 'object' && 'tenant' in route.servedBy) {
      if (await this.#forward(asked, parameters[route.servedBy.tenant] ?? '')) return true;
    }
    await catalog.caughtUp();
    return false;
  }

  #isHere(asked: GuardedRequest, tenantId: string): boolean {
    return this.#options.gateway.serves(this.#slotOf(asked, tenantId), serverOf(asked.route, asked.call.request));
  }

  /** Who owns it serves the request: of the tenant, or of the partition of one aggregate. */
  #slotOf({ route: { servedBy }, parameters }: GuardedRequest, tenantId: string): string {
    if (typeof servedBy !== 'object' || !('aggregate' in servedBy)) return tenantId;
    const partitions = this.#options.tenants.partitionsOf(tenantId);
    if (partitions === 1) return tenantId;
    return partitionKey(tenantId, partitionOf(parameters[servedBy.aggregate] ?? '', partitions));
  }

  /** True when it is answered. */
  async #forward(asked: GuardedRequest, tenantId: string): Promise<boolean> {
    const { gateway, settings } = this.#options;
    const { route, call } = asked;
    const forwarded: ForwardedRequest = {
      slotKey: this.#slotOf(asked, tenantId),
      by: serverOf(asked.route, asked.call.request),
      requestId: call.requestId,
      bodyLimit:
        call.safe || call.request.method === 'DELETE'
          ? undefined
          : (route.body?.limit(settings) ?? settings.maxBodyBytes),
      upload: route.body?.contentType === 'multipart/form-data',
      repeatable: call.safe,
      whole: false,
      lasting: route.lasting === true || hasParameter(call.request, route.lastingWith),
    };
    if (await gateway.forward(call.request, call.response, forwarded)) return true;
    // This process became the owner while the request was on its way, and the routes read a body from its connection only.
    if (forwarded.body !== undefined)
      throw new StatefoldError(
        'UNAVAILABLE',
        'the tenant is changing its owner; nothing was done, send the request again',
      );
    return false;
  }

  /** What becomes of a read that was refused here. */
  async #afterRefusal(
    asked: GuardedRequest,
    thrown: StatefoldError,
    before: number,
  ): Promise<'answered' | 'told' | 'look again'> {
    const { gateway, authenticator, catalog } = this.#options;
    const { route, call } = asked;
    const { code } = thrown;
    if ((code === 'NOT_FOUND' || code === 'NO_REDUCER_BOUND') && route.ofCatalog) {
      await catalog.caughtUp();
      return this.#changes === before ? 'told' : 'look again';
    }
    const ofTenant = route.credentials === 'tenant' && route.servedBy !== 'any';
    const tenantId = ofTenant ? authenticator.find(call.request)?.tenantId : undefined;
    if (code !== 'UNAVAILABLE' || tenantId === undefined) return 'told';
    if (isForwarded(call.request)) {
      if (thrown instanceof NotOwnerError) call.response.setHeader(NOT_OWNER, '1');
      return 'told';
    }
    const moved = await gateway.movedAway(
      this.#slotOf(asked, tenantId),
      thrown,
      serverOf(asked.route, asked.call.request),
    );
    return moved && (await this.#forward(asked, tenantId)) ? 'answered' : 'told';
  }
}
