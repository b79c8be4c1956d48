import { StatefoldError } from '../core/errors.js';
import type { AggregateHome, Aggregates } from '../aggregates/aggregates.js';
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

/** What to say of a call that is late, where another is meant than a read that can be sent again. */
type Lates<Role> = { readonly [Name in keyof Role]?: () => Error };

const HOME: Lates<AggregateHome> = { append: lateAppend, release: lateRelease };
const FAULTS: Lates<Faults> = { releaseKeys: lateRelease };

/**
 * The tenants, answering in time: also while a log that is away keeps them waiting, or one of them is long in being restored.
 * Every promise of a role has a deadline, also of methods to come. Feeds have none: whoever follows them waits as long as
 * there is nothing new.
 */
export function timely(tenants: Tenants & AggregateHomes, deadlines: Deadlines): Tenants & AggregateHomes {
  const home = once((of: AggregateHome) => inTime(of, deadlines, HOME));
  const timed = once(({ tenantId, aggregates, projections, faults, changes, events }: Tenant): Tenant => ({
    tenantId,
    aggregates: inTime<Aggregates>(aggregates, deadlines),
    projections: inTime(projections, deadlines),
    faults: inTime(faults, deadlines, FAULTS),
    changes,
    events,
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
      return of instanceof Promise ? deadlines.within(of, lateRead).then(home) : home(of);
    },
  };
}

/** The role, whose promises are given up when they are late. What its methods answer at once is as it was. */
function inTime<Role extends object>(role: Role, deadlines: Deadlines, lates: Lates<Role> = {}): Role {
  const timed: Record<string, unknown> = {};
  for (const name of methodNames(role)) {
    const late = lates[name as keyof Role] ?? lateRead;
    timed[name] = (...given: unknown[]): unknown => {
      const answer = (role as Record<string, (...given: unknown[]) => unknown>)[name]?.(...given);
      return answer instanceof Promise ? deadlines.within(answer, late) : answer;
    };
  }
  return timed as Role;
}

/** Of the object, and of the classes that it is of. */
function methodNames(of: object): Set<string> {
  const names = new Set<string>();
  for (
    let at: object | null = of;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  )
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (typeof value === 'function' && name !== 'constructor') names.add(name);
  return names;
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
