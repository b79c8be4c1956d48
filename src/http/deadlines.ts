import { StatefoldError } from '../core/errors.js';
import type { AggregateHome, Aggregates } from '../aggregates/aggregates.js';
import type { AggregateHomes, Tenant, Tenants } from '../tenancy/tenant.js';
import type { Projections } from '../projections/projections.js';
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
    // One promise and one reaction: each append goes through here.
    return new Promise<T>((resolve, reject) => {
      const waiting = { until: performance.now() + this.#afterMs, giveUp: () => reject(late()) };
      this.#waiting.add(waiting);
      if (this.#timer === undefined) this.#arm(this.#afterMs);
      work.then(
        (outcome) => {
          this.#waiting.delete(waiting);
          resolve(outcome);
        },
        (error: Error) => {
          this.#waiting.delete(waiting);
          reject(error);
        },
      );
    });
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
const lateErase = (): Error =>
  new StatefoldError(
    'UNAVAILABLE',
    'the log does not answer; the aggregate may have been erased: send the request again',
    {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    },
  );
const lateRead = (): Error =>
  new StatefoldError('UNAVAILABLE', 'the tenant does not answer now; send the request again', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });

/** The outcome of a read, in time. @throws StatefoldError UNAVAILABLE */
export type InTime = <T>(read: Promise<T>) => Promise<T>;
export const readsInTime =
  (deadlines: Deadlines): InTime =>
  (read) =>
    deadlines.within(read, lateRead);

const home = (of: AggregateHome, deadlines: Deadlines): AggregateHome => ({
  append: (command) => deadlines.within(of.append(command), lateAppend),
  transact: (command) => deadlines.within(of.transact(command), lateAppend),
  // It waits for a log that is away rather than begin again.
  import: (command) => of.import(command),
  erase: (aggregateId, reason) => deadlines.within(of.erase(aggregateId, reason), lateErase),
  events: (query) => deadlines.within(of.events(query), lateRead),
  state: (aggregateType, aggregateId) => deadlines.within(of.state(aggregateType, aggregateId), lateRead),
  release: (query) => deadlines.within(of.release(query), lateRelease),
});

const aggregates = (of: Aggregates, deadlines: Deadlines): Aggregates => ({
  list: (query) => deadlines.within(of.list(query), lateRead),
  types: (query) => deadlines.within(of.types(query), lateRead),
  eventTypes: (query) => deadlines.within(of.eventTypes(query), lateRead),
  eventType: (eventType) => deadlines.within(of.eventType(eventType), lateRead),
  catchUp: (aggregateType) => of.catchUp(aggregateType),
  eventsPerSecond: (aggregateType) => of.eventsPerSecond(aggregateType),
  keptGenerations: (aggregateType) => of.keptGenerations(aggregateType),
});

const projections = (of: Projections, deadlines: Deadlines): Projections => ({
  states: (query) => deadlines.within(of.states(query), lateRead),
  statesOf: (query) => deadlines.within(of.statesOf(query), lateRead),
  // Its reader takes as long as it takes.
  snapshot: (query) => of.snapshot(query),
  // It waits as long as its client asked.
  includes: (projectionId, place, signal) => of.includes(projectionId, place, signal),
  get reached() {
    return of.reached;
  },
  build: (projectionId) => of.build(projectionId),
  eventsPerSecond: (projectionId) => of.eventsPerSecond(projectionId),
  life: (projectionId) => of.life(projectionId),
  onLive: (listener) => of.onLive(listener),
});

const faults = (of: Faults, deadlines: Deadlines): Faults => ({
  ofType: (aggregateType, query) => deadlines.within(of.ofType(aggregateType, query), lateRead),
  countOfType: (aggregateType) => deadlines.within(of.countOfType(aggregateType), lateRead),
  ofProjection: (projectionId, query) => deadlines.within(of.ofProjection(projectionId, query), lateRead),
  countOfProjection: (projectionId) => of.countOfProjection(projectionId),
  releaseKeys: (query) => deadlines.within(of.releaseKeys(query), lateRelease),
});

/**
 * The tenants, answering in time: also while a log that is away keeps them waiting, or one of them is long in being restored.
 * Promises of the roles have a deadline, but for imports, snapshots and waits for a place. Feeds have none: whoever follows them waits
 * as long as there is nothing new. Channels that ask where a feed is now do so by `readsInTime`.
 */
export function timely(tenants: Tenants & AggregateHomes, deadlines: Deadlines): Tenants & AggregateHomes {
  const timedHome = once((of: AggregateHome) => home(of, deadlines));
  const timed = once((of: Tenant): Tenant => ({
    tenantId: of.tenantId,
    aggregates: aggregates(of.aggregates, deadlines),
    projections: projections(of.projections, deadlines),
    faults: faults(of.faults, deadlines),
    changes: of.changes,
    events: of.events,
    get storageBytes() {
      return of.storageBytes;
    },
  }));
  return {
    active: (tenantId) => {
      const tenant = tenants.active(tenantId);
      return tenant === undefined ? undefined : timed(tenant);
    },
    open: (tenantId) => deadlines.within(tenants.open(tenantId), lateRead).then(timed),
    onActivated: (listener) => tenants.onActivated(listener),
    partitionsOf: (tenantId) => tenants.partitionsOf(tenantId),
    home: (tenantId, aggregateId) => {
      const of = tenants.home(tenantId, aggregateId);
      return of instanceof Promise ? deadlines.within(of, lateRead).then(timedHome) : timedHome(of);
    },
  };
}

/** The same result for the same argument. */
function once<A extends object, R>(make: (of: A) => R): (of: A) => R {
  const made = new WeakMap<A, R>();
  return (of) => {
    let known = made.get(of);
    if (known === undefined) made.set(of, (known = make(of)));
    return known;
  };
}
