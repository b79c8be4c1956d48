import type { IncomingMessage } from 'node:http';
import { performance } from 'node:perf_hooks';
import { Authenticator, type Principal } from './auth.js';
import { ConcurrencyQuota } from './concurrency-quota.js';
import { RateLimiter } from './rate-limit.js';
import { RequestMemory, UNBOUNDED_REQUESTS, type MemoryOfRequests } from './request-memory.js';

type KeyCatalog = ConstructorParameters<typeof Authenticator>[0];

const CONNECTIONS_PER_TENANT = 1000;

export interface AdmissionLimits {
  readonly rateLimitPerSecond: number;
  readonly rateLimitBurst: number;
}

/** Who may come in, and how often: the tenant of a request by its key, and the tenant's rate. */
export class Admission {
  readonly authenticator: Authenticator;
  readonly rateLimiter: RateLimiter;
  /** Connections that wait for something. */
  readonly connections: ConcurrencyQuota;
  /** What requests may hold in memory; without it nothing is bounded. */
  readonly memory: MemoryOfRequests;
  /** A route that is gone through again takes nothing off the rate a second time. */
  readonly #counted = new WeakSet<IncomingMessage>();

  constructor(
    catalog: KeyCatalog,
    { rateLimitPerSecond, rateLimitBurst }: AdmissionLimits,
    connectionsPerTenant = CONNECTIONS_PER_TENANT,
    memory = UNBOUNDED_REQUESTS,
  ) {
    this.memory = memory;
    this.connections = new ConcurrencyQuota(connectionsPerTenant);
    this.authenticator = new Authenticator(catalog);
    this.rateLimiter = new RateLimiter({
      perSecond: rateLimitPerSecond,
      burst: rateLimitBurst,
      now: () => performance.now(),
    });
  }

  /** Checks the key and takes the request off its tenant's rate. @throws StatefoldError UNAUTHENTICATED, RATE_LIMITED */
  admit(request: IncomingMessage): Principal {
    return this.#take(request, this.authenticator.authenticate(request));
  }

  /** As `admit`, for a key that another process may have made a moment ago. */
  async admitKnown(request: IncomingMessage): Promise<Principal> {
    return this.#take(request, await this.authenticator.admit(request));
  }

  #take(request: IncomingMessage, principal: Principal): Principal {
    if (!this.#counted.has(request)) this.rateLimiter.take(principal.tenantId);
    this.#counted.add(request);
    RequestMemory.begin(request, principal.tenantId, this.memory);
    return principal;
  }
}
