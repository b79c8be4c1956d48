import assert from 'node:assert/strict';
import test from 'node:test';
import { Deadlines, timely } from '../../src/http/deadlines.js';
import { StatefoldError } from '../../src/core/errors.js';
import type { AggregateHome } from '../../src/aggregates/aggregates.js';
import type { AggregateHomes, Tenant, Tenants } from '../../src/tenancy/tenant.js';

// Deadlines alone keep no process up.
const alive = setInterval(() => undefined, 1000);
test.after(() => clearInterval(alive));

const never = <T>(): Promise<T> => new Promise<T>(() => undefined);

const late = (...names: readonly string[]): Record<string, () => Promise<unknown>> =>
  Object.fromEntries(names.map((name) => [name, () => never()]));

test('what is late is given up, in its order; what is in time keeps its outcome', async () => {
  const deadlines = new Deadlines(30);
  const given: string[] = [];
  const late = (name: string): Promise<void> =>
    deadlines
      .within(never<void>(), () => new Error(name))
      .catch((error: unknown) => void given.push((error as Error).message));
  const both = [late('first'), late('second')];
  assert.equal(await deadlines.within(Promise.resolve(7), () => new Error('late')), 7);
  await assert.rejects(
    deadlines.within(Promise.reject(new Error('its own')), () => new Error('late')),
    /its own/,
  );
  await Promise.all(both);
  assert.deepEqual(given, ['first', 'second']);
  // The timer that was let go is set again.
  await late('third');
  assert.deepEqual(given, ['first', 'second', 'third']);
});

test('a tenant whose log does not answer, or that is long in being restored, is answered for in time', async () => {
  const home: Pick<AggregateHome, 'append' | 'events'> = {
    append: () => never(),
    events: () => Promise.resolve({ events: [], nextVersion: 3 }),
  };
  const aggregates = {
    catchUp: () => undefined,
    keptGenerations: () => [],
    ...late('list', 'types'),
  };
  const projections = {
    build: () => undefined,
    life: () => ({ live: undefined, building: undefined, kept: [], past: [] }),
    ...late('states', 'statesOf'),
  };
  const faults = late('ofType', 'countOfType', 'ofProjection', 'countOfProjection', 'releaseKeys');
  const whole = {
    tenantId: 't',
    aggregates,
    projections,
    faults,
    changes: { lastSequence: () => 5 },
  } as unknown as Tenant;
  let opening: Promise<Tenant> = Promise.resolve(whole);
  const tenants: Tenants & AggregateHomes = {
    active: (id) => (id === 't' ? whole : undefined),
    open: () => opening,
    home: () => opening.then(() => home as AggregateHome),
    partitionsOf: () => 1,
    onActivated: () => undefined,
  };
  const timed = timely(tenants, new Deadlines(20));
  const open = timed.active('t');
  assert.equal(open, await timed.open('t'));
  assert.equal(timed.active('u'), undefined);
  assert.deepEqual([open?.tenantId, open?.changes.lastSequence()], ['t', 5]);
  const unavailable = (error: unknown): boolean =>
    error instanceof StatefoldError && error.code === 'UNAVAILABLE' && error.retryable;
  await assert.rejects(open?.aggregates.types() ?? never(), unavailable);
  const timedHome = await timed.home('t', 'a-1');
  assert.equal(timedHome, await timed.home('t', 'a-2'));
  assert.deepEqual(await timedHome.events({} as Parameters<AggregateHome['events']>[0]), {
    events: [],
    nextVersion: 3,
  });
  await assert.rejects(timedHome.append({} as Parameters<AggregateHome['append']>[0]), unavailable);
  opening = never();
  await assert.rejects(timed.open('t'), unavailable);
  await assert.rejects(Promise.resolve(timed.home('t', 'a-1')), unavailable);
});

/** A role as the parts of a tenant are: methods of a class, which need their object. */
class Stuck {
  readonly #never = never<never>();
  readonly #types: readonly string[] = ['account'];
  types(): Promise<readonly string[]> {
    return Promise.resolve(this.#types);
  }
  keptGenerations(): readonly string[] {
    return this.#types;
  }
  releaseKeys(): Promise<never> {
    return this.#never;
  }
  release(): Promise<never> {
    return this.#never;
  }
}

test('what a late release may have done is said; what a role answers at once is as it was; feeds have no deadline', async () => {
  const role = new Stuck();
  const waits = never<number>();
  const changes = { caughtUp: () => waits };
  const tenant = { tenantId: 't', aggregates: role, projections: role, faults: role, changes } as unknown as Tenant;
  const tenants = { open: () => Promise.resolve(tenant), home: () => role } as unknown as Tenants & AggregateHomes;
  const served = timely(tenants, new Deadlines(20));
  const timed = await served.open('t');
  const aggregates = timed.aggregates as unknown as Stuck;
  assert.deepEqual(aggregates.keptGenerations(), ['account']);
  assert.deepEqual(await aggregates.types(), ['account']);
  // It may have been done: a client is not told to send it again without a look.
  await assert.rejects((timed.faults as unknown as Stuck).releaseKeys(), /it may have been done/);
  const home = served.home('t', 'a') as unknown as Stuck;
  await assert.rejects(home.release(), /it may have been done/);
  assert.equal((timed.changes as unknown as typeof changes).caughtUp(), waits);
});
