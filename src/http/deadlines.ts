import { StatefoldError } from '../core/errors.js';
import type { AggregateHome, Aggregates } from '../aggregates/aggregates.js';
import type { Projections } from '../projections/projections.js';
import type { AggregateHomes, Tenant, Tenants } from '../tenancy/tenant.js';
import type { Faults } from '../tenancy/faults.js';

interface Waiting {
  readonly until: number;
  readonly giveUp: () => void;
}

/** Promises that are given up after one and the same time. One timer for all: what began first is due first. */
export class Deadlines {
  readonly #waiting = new Set<Waiting>();
  readonly #afterMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  /** The outcome of `work`, or the rejection by `late` when that takes too long. What `work` does later is nobody's. */
  within<T>(work: Promise<T>, late: () => Error): Promise<T> {
    let waiting: Waiting | undefined;
    const overdue = new Promise<never>((_resolve, reject) => {
      waiting = { until: performance.now() + this.#afterMs, giveUp: () => reject(late()) };
      this.#waiting.add(waiting);
    });
    if (this.#timer === undefined) this.#arm(this.#afterMs);
    const settled = (): void => void (waiting && this.#waiting.delete(waiting));
    work.then(settled, settled);
    return Promise.race([work, overdue]);
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms).unref();
  }

  #look(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const waiting of this.#waiting) {
      if (waiting.until > now) return this.#arm(waiting.until - now);
      this.#waiting.delete(waiting);
      waiting.giveUp();
    }
  }
}

const RETRY_AFTER_SECONDS = 1;
/** An append that is late may be in the log, and land yet. */
const lateAppend = (): Error =>
  new StatefoldError(
    'UNAVAILABLE',
    'the log does not answer; the events may have been stored: send the request again with an Idempotency-Key, or read first',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
/** It may be in the log, and done yet. */
const lateRelease = (): Error =>
  new StatefoldError(
    'UNAVAILABLE',
    'the log does not answer; it may have been done: look at the fault, and send the request again',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
const lateRead = (): Error =>
  new StatefoldError('UNAVAILABLE', 'the tenant does not answer now; send the request again', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });

/** The tenants, answering in time: also while a log that is away keeps them waiting, or one of them is long in being restored. */
export function timely(tenants: Tenants & AggregateHomes, deadlines: Deadlines): Tenants & AggregateHomes {
  const known = new WeakMap<Tenant, Tenant>();
  const homes = new WeakMap<AggregateHome, AggregateHome>();
  const wrap = (tenant: Tenant): Tenant => {
    let timed = known.get(tenant);
    if (timed === undefined) {
      timed = timelyTenant(tenant, deadlines);
      known.set(tenant, timed);
    }
    return timed;
  };
  const wrapHome = (home: AggregateHome): AggregateHome => {
    let timed = homes.get(home);
    if (timed === undefined) homes.set(home, (timed = timelyHome(home, deadlines)));
    return timed;
  };
  return {
    active: (tenantId) => {
      const tenant = tenants.active(tenantId);
      return tenant === undefined ? undefined : wrap(tenant);
    },
    open: (tenantId) => deadlines.within(tenants.open(tenantId), lateRead).then(wrap),
    onActivated: (listener) => tenants.onActivated(listener),
    partitionsOf: (tenantId) => tenants.partitionsOf(tenantId),
    home: (tenantId, aggregateId) => {
      const home = tenants.home(tenantId, aggregateId);
      return home instanceof Promise ? deadlines.within(home, lateRead).then(wrapHome) : wrapHome(home);
    },
  };
}

const timelyTenant = (tenant: Tenant, deadlines: Deadlines): Tenant => ({
  tenantId: tenant.tenantId,
  aggregates: timelyAggregates(tenant.aggregates, deadlines),
  projections: timelyProjections(tenant.projections, deadlines),
  faults: timelyFaults(tenant.faults, deadlines),
  changes: tenant.changes,
});

const timelyAggregates = (aggregates: Aggregates, deadlines: Deadlines): Aggregates => ({
  list: (query) => deadlines.within(aggregates.list(query), lateRead),
  types: () => deadlines.within(aggregates.types(), lateRead),
  catchUp: (aggregateType) => aggregates.catchUp(aggregateType),
  keptGenerations: (aggregateType) => aggregates.keptGenerations(aggregateType),
});

const timelyProjections = (projections: Projections, deadlines: Deadlines): Projections => ({
  states: (query) => deadlines.within(projections.states(query), lateRead),
  statesOf: (projectionId, key) => deadlines.within(projections.statesOf(projectionId, key), lateRead),
  build: (projectionId) => projections.build(projectionId),
  life: (projectionId) => projections.life(projectionId),
  onLive: (listener) => projections.onLive(listener),
});

const timelyFaults = (faults: Faults, deadlines: Deadlines): Faults => ({
  ofType: (aggregateType, query) => deadlines.within(faults.ofType(aggregateType, query), lateRead),
  countOfType: (aggregateType) => deadlines.within(faults.countOfType(aggregateType), lateRead),
  ofProjection: (projectionId, query) => deadlines.within(faults.ofProjection(projectionId, query), lateRead),
  countOfProjection: (projectionId) => deadlines.within(faults.countOfProjection(projectionId), lateRead),
  releaseKeys: (query) => deadlines.within(faults.releaseKeys(query), lateRelease),
});

const timelyHome = (home: AggregateHome, deadlines: Deadlines): AggregateHome => ({
  append: (command) => deadlines.within(home.append(command), lateAppend),
  events: (query) => deadlines.within(home.events(query), lateRead),
  state: (aggregateType, aggregateId) => deadlines.within(home.state(aggregateType, aggregateId), lateRead),
  release: (query) => deadlines.within(home.release(query), lateRelease),
});
