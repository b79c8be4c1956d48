import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { RequiredScope } from '../core/scopes.js';
import { Authenticator, type Principal } from './auth.js';
import type { QuotaSettings } from '../catalog/tenant-quotas.js';
import type { QuotaOf } from '../core/quotas.js';
import { Turns } from '../core/turns.js';
import { ConcurrencyQuota } from './concurrency-quota.js';
import { Dues, REQUEST_COST } from './dues.js';
import { Pace } from './pace.js';
import { Tickets } from './tickets.js';
import { RequestMemory, UNBOUNDED_REQUESTS, type MemoryOfRequests } from './request-memory.js';

type KeyCatalog = ConstructorParameters<typeof Authenticator>[0];

export interface AdmissionLimits extends Pick<QuotaSettings, 'rateLimitPerSecond'> {
  /** 0: as many as one second allows. Of tenants without a rate of their own. */
  readonly rateLimitBurst: number;
}

export interface AdmissionOptions {
  readonly catalog: KeyCatalog;
  readonly quotaOf: QuotaOf;
  readonly limits: AdmissionLimits;
  readonly memory?: MemoryOfRequests;
  /** Without them those that are made here hold in this process alone. */
  readonly tickets?: Tickets;
  /** Shared with who reads history for those who follow it. */
  readonly turns?: Turns;
}

/** Who may come in, and how often: the tenant of a request by its key, and the tenant's rate. */
export class Admission {
  readonly authenticator: Authenticator;
  readonly tickets: Tickets;
  readonly quotaOf: QuotaOf;
  /** Of requests. */
  readonly requests: Pace;
  /** Of events that are appended. */
  readonly events: Pace;
  /** Whose request begins when. */
  readonly turns: Turns;
  /** Connections that wait for something. */
  readonly connections: ConcurrencyQuota;
  /** What requests may hold in memory; without it nothing is bounded. */
  readonly memory: MemoryOfRequests;
  /** What was paid: a route that is gone through again takes nothing off the rate a second time, and a refusal pays what is lacking. */
  readonly dues: Dues;

  constructor({ catalog, quotaOf, limits, ...options }: AdmissionOptions) {
    const { memory = UNBOUNDED_REQUESTS, tickets = new Tickets(randomUUID()), turns = new Turns() } = options;
    this.tickets = tickets;
    this.turns = turns;
    this.authenticator = new Authenticator(catalog, undefined, tickets);
    this.quotaOf = quotaOf;
    this.connections = new ConcurrencyQuota((tenantId) => quotaOf(tenantId, 'connections'), undefined, 'connections');
    this.memory = { ...memory, whileWaiting: (tenantId) => this.connections.take(tenantId), turns: this.turns };
    const now = (): number => performance.now();
    const { rateLimitPerSecond, rateLimitBurst } = limits;
    this.requests = new Pace({
      quota: 'requestsPerSecond',
      what: 'requests',
      limitOf: (tenantId) => {
        const perSecond = quotaOf(tenantId, 'requestsPerSecond');
        const burst = perSecond === rateLimitPerSecond && rateLimitBurst > 0 ? rateLimitBurst : Math.max(1, perSecond);
        return { perSecond, burst };
      },
      now,
    });
    this.events = new Pace({
      quota: 'eventsPerSecond',
      what: 'events',
      limitOf: (tenantId) => {
        const perSecond = quotaOf(tenantId, 'eventsPerSecond');
        return { perSecond, burst: Math.max(1, perSecond) };
      },
      now,
    });
    this.dues = new Dues(this);
  }

  /** Checks the key and takes the request off its tenant's rate; the caller has it take its turn, at once or before. @throws StatefoldError as `Authenticator.authenticate`, and RATE_LIMITED */
  admit(request: IncomingMessage, scope: RequiredScope): Principal {
    return this.#take(request, this.authenticator.authenticate(request, scope));
  }

  /** As `admit`, for a key that another process may have made a moment ago; resolves on the request's turn. */
  async admitKnown(request: IncomingMessage, scope: RequiredScope, cost = REQUEST_COST): Promise<Principal> {
    const principal = this.#take(request, await this.authenticator.admit(request, scope));
    await this.turns.enter(principal.tenantId, cost);
    return principal;
  }

  #take(request: IncomingMessage, principal: Principal): Principal {
    if (!this.dues.isCounted(request)) this.requests.take(principal.tenantId);
    this.dues.counted(request);
    this.dues.turned(request);
    RequestMemory.begin(request, principal.tenantId, this.memory);
    return principal;
  }
}
