import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as microtasksDone } from 'node:timers/promises';
import { MemoryBudget, UNBOUNDED, type TenantBudget } from '../../src/core/budget.js';
import type { AggregateCommit } from '../../src/core/event.js';
import { eventsIn } from '../../src/core/event.js';
import {
  ReducerTurns,
  type Ensure,
  type TurnFold,
  type Waiter,
  type Work,
} from '../../src/aggregates/reducer-turns.js';
import { seeded } from '../support/load.js';

const commit = (aggregateId: string, baseVersion: number, eventCount = 1): AggregateCommit =>
  ({ aggregateId, baseVersion, eventCount, events: [] }) as unknown as AggregateCommit;
const work = (aggregateId: string, baseVersion: number): Work => ({
  commit: commit(aggregateId, baseVersion),
  waiter: undefined,
  bytes: 100,
});
/** Commits of one aggregate, one behind the other. */
const group = (aggregateId: string, count: number, eventCount = 1): AggregateCommit[] =>
  Array.from({ length: count }, (_, i) => commit(aggregateId, i * eventCount, eventCount));
const named = ({ aggregateId, baseVersion }: AggregateCommit): string => `${aggregateId}${baseVersion}`;

interface Turn {
  readonly works: readonly Work[];
  readonly ensures: readonly Ensure[];
  readonly commits: readonly AggregateCommit[];
  readonly aggregates: ReadonlySet<string>;
  /** What it folds; `?` is before an aggregate that is folded up to its head. */
  readonly names: readonly string[];
  done(error?: Error): Promise<void>;
}

/** Stands for the fold: each turn is under way until the test ends it. */
class Folds implements TurnFold {
  readonly all: Turn[] = [];
  readonly underWay = new Set<Turn>();
  /** Of work that was dropped, in its order. */
  readonly shed: string[] = [];
  readonly turns: ReducerTurns;
  readonly #onBegin: ((turn: Turn) => void) | undefined;

  constructor(onBegin?: (turn: Turn) => void, budget: TenantBudget = UNBOUNDED.tenant('t')) {
    this.turns = new ReducerTurns(
      't',
      this,
      budget,
      { shed: (one) => void this.shed.push(named(one)) },
      { turn: () => Promise.resolve(), givesWay: false },
    );
    this.#onBegin = onBegin;
  }

  /** Of the turns that began since it was asked the last time. */
  async begun(): Promise<(readonly string[])[]> {
    await microtasksDone();
    const names = this.all.slice(this.#told).map((turn) => turn.names);
    this.#told = this.all.length;
    return names;
  }
  #told = 0;

  foldTurn(works: readonly Work[], ensures: readonly Ensure[]): Promise<Error | undefined> {
    return new Promise((resolve) => {
      const commits = works.map((one) => one.commit);
      const turn: Turn = {
        works,
        ensures,
        commits,
        aggregates: new Set([...commits, ...ensures].map(({ aggregateId }) => aggregateId)),
        names: [...commits.map(named), ...ensures.map(({ aggregateId }) => `?${aggregateId}`)],
        done: async (error) => {
          this.underWay.delete(turn);
          for (const ensure of ensures)
            if (error === undefined) ensure.resolve();
            else ensure.reject(error);
          resolve(error);
          await microtasksDone();
        },
      };
      this.#onBegin?.(turn);
      this.all.push(turn);
      this.underWay.add(turn);
    });
  }
}

/** What became of it so far. */
function outcomeOf(promise: Promise<void>): { settled?: 'resolved' | Error } {
  const outcome: { settled?: 'resolved' | Error } = {};
  promise.then(
    () => (outcome.settled = 'resolved'),
    (error: Error) => (outcome.settled = error),
  );
  return outcome;
}

const turn = (folds: Folds, i: number): Turn => folds.all[i] ?? assert.fail(`there is no turn ${i}`);

describe('turns of reducers', () => {
  it('go two at once, and no third', async () => {
    const folds = new Folds();
    folds.turns.fold(work('a', 0));
    folds.turns.fold(work('b', 0));
    assert.deepEqual(await folds.begun(), [['a0', 'b0']], 'what comes in one go is one turn');
    folds.turns.fold(work('c', 0));
    assert.deepEqual(await folds.begun(), [['c0']]);
    folds.turns.fold(work('d', 0));
    void folds.turns.ensure('e');
    void folds.turns.catchUp([group('f', 1)]);
    assert.deepEqual(await folds.begun(), []);
    await turn(folds, 0).done();
    assert.deepEqual(await folds.begun(), [['d0', '?e']]);
    await turn(folds, 1).done();
    assert.deepEqual(await folds.begun(), [['f0']]);
  });

  it('drop what comes past the budget, first what nobody waits for any more, and hold nothing in the end', async () => {
    // Of the work that waits or is under way a quarter: four commits.
    const budget = new MemoryBudget({ processBytes: 1e6, tenantBytes: 1600 });
    const folds = new Folds(undefined, budget.tenant('t'));
    const answers: string[] = [];
    const awaited = (aggregateId: string): Work => {
      const waiter: Waiter = { deadline: 0, answer: undefined };
      waiter.answer = (answer) => {
        waiter.answer = undefined;
        answers.push(`${aggregateId} ${'status' in answer ? answer.status : 'folded'}`);
      };
      return { ...work(aggregateId, 0), waiter };
    };
    folds.turns.fold(awaited('a'));
    assert.deepEqual(await folds.begun(), [['a0']]);
    const late = awaited('a');
    for (const one of [late, awaited('a'), awaited('a')]) folds.turns.fold(one);
    assert.equal(budget.held('folds'), 400);
    folds.turns.fold(awaited('b'));
    assert.deepEqual([folds.shed, answers], [['b0'], ['b deadline']], 'somebody waits for all of them');
    late.waiter?.answer?.({ status: 'deadline' });
    folds.turns.fold(awaited('c'));
    assert.deepEqual([folds.shed, answers.at(-1)], [['b0', 'a0'], 'a deadline']);
    assert.deepEqual(await folds.begun(), [['c0']]);
    await turn(folds, 0).done();
    await turn(folds, 1).done();
    assert.deepEqual(await folds.begun(), [['a0', 'a0']]);
    assert.equal(budget.held('folds'), 200);
    await turn(folds, 2).done();
    assert.deepEqual([budget.held(), budget.refusals('folds', 'tenant')], [0, 2]);
    folds.turns.fold(awaited('a'));
    folds.turns.close();
    assert.equal(budget.held(), 0);
  });

  it('are never two with the same aggregate, whoever asks for it', async () => {
    const folds = new Folds();
    folds.turns.fold(work('a', 0));
    assert.deepEqual(await folds.begun(), [['a0']]);
    folds.turns.fold(work('a', 1));
    folds.turns.fold(work('b', 0));
    folds.turns.fold(work('a', 2));
    void folds.turns.ensure('a');
    void folds.turns.catchUp([group('a', 2), group('b', 1), group('c', 1)]);
    assert.deepEqual(await folds.begun(), [['b0']]);
    await turn(folds, 1).done();
    assert.deepEqual(await folds.begun(), [['b0', 'c0']], 'the catch-up passes over the one that is under way');
    await turn(folds, 2).done();
    assert.deepEqual(await folds.begun(), []);
    await turn(folds, 0).done();
    assert.deepEqual(await folds.begun(), [['a1', 'a2', '?a']]);
    await turn(folds, 3).done();
    assert.deepEqual(await folds.begun(), [['a0', 'a1']]);
  });

  it('take appends and reads before a catch-up, at the latest after a portion of it', async () => {
    const folds = new Folds();
    const caughtUp = outcomeOf(folds.turns.catchUp([group('a', 3, 300), group('b', 2, 300), group('c', 1)]));
    folds.turns.fold(work('d', 0));
    assert.deepEqual(
      await folds.begun(),
      [['d0'], ['a0', 'a300']],
      'although it came before, and no more than 512 events and the rest of a commit',
    );
    folds.turns.fold(work('e', 0));
    void folds.turns.ensure('f');
    await turn(folds, 1).done();
    assert.deepEqual(await folds.begun(), [['e0', '?f']]);
    await turn(folds, 0).done();
    assert.deepEqual(await folds.begun(), [['a600', 'b0']]);
    await turn(folds, 2).done();
    assert.deepEqual(await folds.begun(), [['c0']], 'the rest of what is free');
    await turn(folds, 3).done();
    assert.deepEqual(await folds.begun(), [['b300']]);
    await turn(folds, 4).done();
    assert.deepEqual(caughtUp, {}, 'a turn of it is under way');
    await turn(folds, 5).done();
    assert.deepEqual(caughtUp, { settled: 'resolved' });
    await folds.turns.catchUp([]);
  });

  it('leave what waits behind a busy aggregate where it is, and take the others', async () => {
    const folds = new Folds();
    folds.turns.fold(work('a', 0));
    await folds.begun();
    for (let version = 1; version <= 1200; version++) folds.turns.fold(work('a', version));
    for (let i = 0; i < 600; i++) void folds.turns.ensure('a');
    for (let version = 0; version < 600; version++) folds.turns.fold(work('b', version));
    void folds.turns.ensure('b');
    folds.turns.fold(work('a', 1201));
    const sizes = (from: number): unknown[] =>
      folds.all.slice(from).map(({ works, ensures }) => [works.length, ensures.length]);
    await folds.begun();
    for (const i of [1, 2]) await turn(folds, i).done();
    assert.deepEqual(
      sizes(1),
      [
        [512, 1],
        [88, 0],
      ],
      'all of the others, in turns',
    );
    await turn(folds, 0).done();
    while (folds.underWay.size > 0) for (const one of [...folds.underWay]) await one.done();
    assert.deepEqual(sizes(3), [
      [512, 512],
      [512, 88],
      [177, 0],
    ]);
    const versionsOf = (aggregateId: string): number[] =>
      folds.all.flatMap(({ commits }) =>
        commits.filter((one) => one.aggregateId === aggregateId).map(({ baseVersion }) => baseVersion),
      );
    assert.deepEqual(
      versionsOf('a'),
      Array.from({ length: 1202 }, (_, i) => i),
    );
    assert.deepEqual(
      versionsOf('b'),
      Array.from({ length: 600 }, (_, i) => i),
    );
  });

  it('of a catch-up that failed end before it does, few begin, and the next catch-up goes', async () => {
    const folds = new Folds();
    const failed = outcomeOf(folds.turns.catchUp(Array.from({ length: 10 }, (_, i) => group(`a${i}-`, 1, 512))));
    const next = outcomeOf(folds.turns.catchUp([group('b', 1)]));
    assert.equal((await folds.begun()).length, 2);
    await turn(folds, 0).done(new Error('the runner is away'));
    while (folds.underWay.size > 0 && !folds.all.some(({ names }) => names.includes('b0'))) {
      assert.deepEqual(failed, {}, 'a turn of it is under way');
      for (const one of [...folds.underWay]) await one.done(new Error('it is away still'));
    }
    assert.equal((failed.settled as Error).message, 'the runner is away');
    assert.ok(folds.all.length < 10, `${folds.all.length} turns`);
    assert.deepEqual(
      [...folds.underWay].map(({ names }) => names),
      [['b0']],
    );
    for (const one of [...folds.underWay]) await one.done();
    assert.deepEqual(next, { settled: 'resolved' });
  });

  it('begin no more after the close, which tells who waits for one', async () => {
    const folds = new Folds();
    folds.turns.fold(work('a', 0));
    const begun = outcomeOf(folds.turns.ensure('a'));
    const caughtUp = [
      outcomeOf(folds.turns.catchUp([group('b', 2, 512)])),
      outcomeOf(folds.turns.catchUp([group('c', 1)])),
    ];
    assert.deepEqual(await folds.begun(), [['a0', '?a'], ['b0']]);
    const waiting = outcomeOf(folds.turns.ensure('a'));
    folds.turns.fold(work('d', 0));
    folds.turns.close();
    folds.turns.fold(work('e', 0));
    await microtasksDone();
    for (const { settled } of [waiting, ...caughtUp]) assert.equal((settled as Error).message, 'the tenant is closed');
    assert.deepEqual(begun, {}, 'it is told by its turn');
    await turn(folds, 0).done();
    await turn(folds, 1).done();
    assert.deepEqual(begun, { settled: 'resolved' });
    assert.deepEqual(await folds.begun(), []);
  });

  it('begin none that was about to when it is closed', async () => {
    const folds = new Folds();
    folds.turns.fold(work('a', 0));
    const caughtUp = outcomeOf(folds.turns.catchUp([group('b', 1)]));
    folds.turns.close();
    folds.turns.fold(work('a', 1));
    assert.deepEqual(await folds.begun(), []);
    assert.equal((caughtUp.settled as Error).message, 'the tenant is closed');
  });

  it('fold each commit once and those of an aggregate in order, whatever comes, ends and fails when', async () => {
    for (let seed = 1; seed <= 60; seed++) await randomly(seed);
  });
});

interface KnownCatchUp {
  readonly groups: readonly (readonly AggregateCommit[])[];
  readonly outcome: { settled?: 'resolved' | Error };
  /** The first of its turns that failed says why. */
  failed: Error | undefined;
}

/** Checks with each turn that begins, and whenever nothing is about to, what holds of all of them. */
async function randomly(seed: number): Promise<void> {
  const random = seeded(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const idOf = (): string => `a${below(8)}`;
  const where = `seed ${seed}`;

  const submitted: Work[] = [];
  const waitingWorks = new Set<Work>();
  const ensures: { readonly aggregateId: string; readonly outcome: ReturnType<typeof outcomeOf> }[] = [];
  const catchUps: KnownCatchUp[] = [];
  const catchUpOf = new Map<AggregateCommit, KnownCatchUp>();
  const versions = new Map<string, number>();
  let ensured = 0;

  const isFree = ({ aggregateId }: { readonly aggregateId: string }): boolean =>
    ![...folds.underWay].some(({ aggregates }) => aggregates.has(aggregateId));
  const current = (): KnownCatchUp | undefined => catchUps.find(({ outcome }) => outcome.settled === undefined);
  const begunOf = ({ groups }: KnownCatchUp): AggregateCommit[][] =>
    groups.map((commits) => folds.all.flatMap((one) => one.commits.filter((begun) => commits.includes(begun))));

  const folds: Folds = new Folds((begun) => {
    assert.ok(folds.underWay.size < 2, where);
    assert.ok(
      [...begun.aggregates].every((aggregateId) => isFree({ aggregateId })),
      `${where}: an aggregate is in two turns at once`,
    );
    const [first] = begun.commits;
    const caughtUp = first === undefined ? undefined : catchUpOf.get(first);
    if (caughtUp === undefined) {
      for (const one of begun.works)
        assert.ok(waitingWorks.delete(one), `${where}: a commit is folded twice, or with a catch-up`);
      ensured += begun.ensures.length;
      assert.ok(begun.works.length <= 512 && begun.names.length > 0);
      return;
    }
    assert.equal(caughtUp, current(), `${where}: one catch-up after the other`);
    assert.ok(begun.commits.every((one) => catchUpOf.get(one) === caughtUp) && begun.ensures.length === 0, where);
    assert.ok(
      begun.commits.slice(0, -1).reduce((sum, one) => sum + eventsIn(one), 0) < 512,
      `${where}: appends would wait for long`,
    );
    assert.ok(![...waitingWorks].some((one) => isFree(one.commit)), `${where}: appends go first`);
  });

  /** Nothing is about to begin: so there is nothing that could. */
  const settled = async (): Promise<void> => {
    await microtasksDone();
    if (folds.underWay.size === 2) return;
    assert.ok(![...waitingWorks].some((one) => isFree(one.commit)), `${where}: a commit waits for nothing`);
    const waiting = current();
    if (waiting === undefined || waiting.failed !== undefined) return;
    for (const [i, begun] of begunOf(waiting).entries()) {
      const next = waiting.groups[i]?.[begun.length];
      assert.ok(next === undefined || !isFree(next), `${where}: a catch-up waits for nothing`);
    }
  };
  const endOne = async (): Promise<void> => {
    const one = [...folds.underWay][below(folds.underWay.size)];
    if (one === undefined) return;
    const error = below(8) === 0 ? new Error(`${where}: failed`) : undefined;
    const [first] = one.commits;
    const caughtUp = first === undefined ? undefined : catchUpOf.get(first);
    if (caughtUp !== undefined) caughtUp.failed ??= error;
    await one.done(error);
    if (caughtUp?.outcome.settled === undefined) return;
    // It was the last of its turns.
    assert.equal(caughtUp.outcome.settled, caughtUp.failed ?? 'resolved', where);
    assert.ok(
      ![...folds.underWay].some(({ commits }) => commits.some((begun) => catchUpOf.get(begun) === caughtUp)),
      `${where}: a turn of it is under way`,
    );
  };

  for (let step = 0; step < 150; step++) {
    const what = below(12);
    if (what < 4) {
      for (
        let n = below(12) === 0 && waitingWorks.size < 1000 ? below(700) : 1 + below(3), aggregateId = idOf();
        n > 0;
        n--
      ) {
        const one = work(aggregateId, versions.get(aggregateId) ?? 0);
        versions.set(aggregateId, one.commit.baseVersion + 1);
        submitted.push(one);
        waitingWorks.add(one);
        folds.turns.fold(one);
      }
    } else if (what === 4) {
      const aggregateId = idOf();
      ensures.push({ aggregateId, outcome: outcomeOf(folds.turns.ensure(aggregateId)) });
    } else if (what === 5 && catchUps.length < 6) {
      const groups = [...new Set(Array.from({ length: 1 + below(10) }, idOf))].map((aggregateId) =>
        group(aggregateId, 1 + below(6), 1 + below(300)),
      );
      const known: KnownCatchUp = { groups, outcome: outcomeOf(folds.turns.catchUp(groups)), failed: undefined };
      catchUps.push(known);
      for (const one of groups.flat()) catchUpOf.set(one, known);
    } else if (what < 10) await endOne();
    // Else more comes in the same go.
    if (below(3) > 0) await settled();
  }
  for (await settled(); folds.underWay.size > 0; await settled()) await endOne();

  assert.equal(waitingWorks.size, 0, where);
  const begun = folds.all.flatMap(({ works }) => works).filter((one) => !catchUpOf.has(one.commit));
  const ofAggregate = (works: readonly Work[], aggregateId: string): readonly string[] =>
    works.filter((one) => one.commit.aggregateId === aggregateId).map((one) => named(one.commit));
  for (const aggregateId of versions.keys())
    assert.deepEqual(ofAggregate(begun, aggregateId), ofAggregate(submitted, aggregateId), where);
  assert.equal(ensured, ensures.length, where);
  for (const { outcome } of ensures) assert.notEqual(outcome.settled, undefined, where);
  for (const known of catchUps) {
    assert.equal(known.outcome.settled, known.failed ?? 'resolved', where);
    for (const [i, commits] of begunOf(known).entries()) {
      const whole = known.groups[i] ?? [];
      // One that failed was ended somewhere: without holes.
      assert.deepEqual(commits, known.failed === undefined ? whole : whole.slice(0, commits.length), where);
    }
  }
}
