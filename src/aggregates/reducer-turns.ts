import { background, type Background } from '../core/background.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { eventsIn, takeEvents, type StateStatus, type AggregateCommit } from '../core/event.js';

/** The state after a commit, or why there is none. */
export type FoldAnswer = { readonly state: Buffer | null } | { readonly status: StateStatus };

export interface Waiter {
  readonly deadline: number;
  /** Undefined once it was called. */
  answer: ((answer: FoldAnswer) => void) | undefined;
}
export interface Work {
  readonly commit: AggregateCommit;
  readonly waiter: Waiter | undefined;
  /** Held for the commit until it is folded; a catch-up holds its own. */
  readonly bytes: number;
}

/** Somebody waits for the state, and has had no answer. */
export const isWaitedFor = ({ waiter }: Work): boolean => waiter?.answer !== undefined;
/** Called with work that was shed, since too much waits in memory: the aggregate is behind from this commit on. */
export interface ShedListener {
  shed(commit: AggregateCommit): void;
}
/** An aggregate that is to be folded up to its head. */
export interface Ensure {
  readonly aggregateId: string;
  resolve(): void;
  reject(error: Error): void;
}
/** Commits of a catch-up that are not taken yet, grouped by aggregate. */
interface CatchUp {
  /** Each ascending; null: all of its commits were taken. */
  readonly groups: (readonly AggregateCommit[] | null)[];
  /** The first group that has commits left. */
  first: number;
  underWay: number;
  failed: Error | undefined;
  resolve(): void;
  reject(error: Error): void;
}

/** Who folds a turn. */
export interface TurnFold {
  /** Resolves when there is room for what a catch-up folds. Never rejects. */
  room?(): Promise<void>;
  /** Never rejects; gives the error when nothing could be folded. */
  foldTurn(works: readonly Work[], ensures: readonly Ensure[]): Promise<Error | undefined>;
}

/** Turns under way: while the runner folds one, the next is put together, and the one before is stored. */
const TURNS = 2;
const COMMITS_PER_TURN = 512;
/** Events in a turn of a catch-up: appends wait that long. While clients are about it is shorter. */
const BACKGROUND_EVENTS = 512;
const SHORT_BACKGROUND_EVENTS = 64;
/** How much of the queue is looked at for a turn: behind a busy aggregate much may wait. */
const SCANNED = 4 * COMMITS_PER_TURN;

/**
 * Folds what waits in turns: each takes all that waits, appends and reads before catch-ups. Two turns are under way at a time, never
 * with the same aggregate, so that its commits stay in order.
 */
export class ReducerTurns {
  readonly #fold: TurnFold;
  /** The bytes of what waits, and of what is under way. */
  readonly #hold: Hold;
  readonly #listener: ShedListener | undefined;
  readonly #tenantId: string;
  readonly #background: Pick<Background, 'turn' | 'givesWay'>;
  readonly #works: Work[] = [];
  readonly #ensures: Ensure[] = [];
  readonly #catchUps: CatchUp[] = [];
  /** Aggregates of the turns under way. */
  readonly #busy = new Set<string>();
  #turns = 0;
  /** What a catch-up may do now: ask for its turn, wait for it, or take it. */
  #backgroundTurn: 'asks' | 'waits' | 'goes' = 'asks';
  #scheduled = false;
  #closed = false;

  constructor(
    tenantId: string,
    fold: TurnFold,
    budget: TenantBudget = UNBOUNDED.tenant(''),
    listener?: ShedListener,
    backgroundTurns: Pick<Background, 'turn' | 'givesWay'> = background,
  ) {
    this.#tenantId = tenantId;
    this.#background = backgroundTurns;
    this.#fold = fold;
    this.#hold = budget.hold('folds');
    this.#listener = listener;
  }

  /** Sheds work where memory holds all that it may: nothing is lost, since the log has the commit. */
  fold(work: Work): void {
    if (this.#closed) return;
    if (!this.#hold.tryAdd(work.bytes)) {
      this.#shedLate();
      if (!this.#hold.tryAdd(work.bytes)) return this.#shed(work);
    }
    this.#works.push(work);
    this.#kick();
  }

  /** Sheds the oldest work, for whose answers nobody waits any more, to make room. */
  #shedLate(): void {
    const inTime = this.#works.findIndex(isWaitedFor);
    for (const work of this.#works.splice(0, inTime < 0 ? this.#works.length : inTime)) {
      this.#hold.sub(work.bytes);
      this.#shed(work);
    }
  }

  #shed({ commit, waiter }: Work): void {
    this.#hold.countRefusal();
    waiter?.answer?.({ status: 'deadline' });
    this.#listener?.shed(commit);
  }

  ensure(aggregateId: string): Promise<void> {
    if (this.#closed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      this.#ensures.push({ aggregateId, resolve, reject });
      this.#kick();
    });
  }

  /** Each group is ascending, and of another aggregate. */
  catchUp(groups: readonly (readonly AggregateCommit[])[]): Promise<void> {
    if (this.#closed) return Promise.reject(closed());
    if (groups.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#catchUps.push({ groups: [...groups], first: 0, underWay: 0, failed: undefined, resolve, reject });
      this.#kick();
    });
  }

  /** Begins no other turn. Rejects reads and catch-ups that wait for one; appends are answered by `Reducers`. */
  close(): void {
    this.#closed = true;
    for (const one of [...this.#ensures.splice(0), ...this.#catchUps.splice(0)]) one.reject(closed());
    this.#works.length = 0;
    this.#hold.close();
  }

  #kick(): void {
    if (this.#scheduled || this.#closed || this.#turns >= TURNS) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      while (!this.#closed && this.#turns < TURNS && (this.#begin() || this.#beginCatchUp()));
    });
  }

  /** A turn of appends and reads; false: there are none, or their aggregates are under way. */
  #begin(): boolean {
    const free = ({ aggregateId }: { readonly aggregateId: string }): boolean => !this.#busy.has(aggregateId);
    const ensures = takeFirst(this.#ensures, COMMITS_PER_TURN, free);
    const works = takeFirst(this.#works, COMMITS_PER_TURN, ({ commit }) => free(commit));
    if (works.length === 0 && ensures.length === 0) return false;
    void this.#run(works, ensures);
    return true;
  }

  #beginCatchUp(): boolean {
    const [next] = this.#catchUps;
    if (next === undefined || this.#backgroundTurn === 'waits') return false;
    if (this.#backgroundTurn === 'asks') {
      this.#backgroundTurn = 'waits';
      void this.#itsTurn();
      return false;
    }
    const most = this.#background.givesWay ? SHORT_BACKGROUND_EVENTS : BACKGROUND_EVENTS;
    const commits = takeCommits(next, this.#busy, most);
    if (commits.length === 0) return false;
    this.#backgroundTurn = 'asks';
    next.underWay++;
    const works = commits.map((commit) => ({ commit, waiter: undefined, bytes: 0 }));
    // A failure is noted before the next turn begins.
    const fold = this.#run(works, [], (failed) => (next.failed ??= failed));
    void fold.then(() => {
      next.underWay--;
      if (
        next.underWay > 0 ||
        this.#catchUps[0] !== next ||
        (next.failed === undefined && next.first < next.groups.length)
      )
        return;
      this.#catchUps.shift();
      if (next.failed === undefined) next.resolve();
      else next.reject(next.failed);
      this.#kick();
    });
    return true;
  }

  /** Appends have the turns while a catch-up waits for it. */
  async #itsTurn(): Promise<void> {
    await this.#fold.room?.();
    await this.#background.turn(this.#tenantId);
    this.#backgroundTurn = 'goes';
    this.#kick();
  }

  async #run(works: readonly Work[], ensures: readonly Ensure[], onFailed?: (error: Error) => void): Promise<void> {
    const aggregates = new Set<string>();
    let bytes = 0;
    for (const work of works) {
      aggregates.add(work.commit.aggregateId);
      bytes += work.bytes;
    }
    for (const { aggregateId } of ensures) aggregates.add(aggregateId);
    this.#turns++;
    for (const aggregateId of aggregates) this.#busy.add(aggregateId);
    const failed = await this.#fold.foldTurn(works, ensures);
    if (failed !== undefined) onFailed?.(failed);
    this.#turns--;
    this.#hold.sub(bytes);
    for (const aggregateId of aggregates) this.#busy.delete(aggregateId);
    this.#kick();
  }
}

const closed = (): Error => new Error('the tenant is closed');

function takeCommits(from: CatchUp, busy: ReadonlySet<string>, most: number): AggregateCommit[] {
  const taken: AggregateCommit[] = [];
  if (from.failed !== undefined) return taken;
  const { groups } = from;
  for (let i = from.first, left = most; i < groups.length && left > 0; i++) {
    const group = groups[i] ?? null;
    if (group === null || busy.has(group[0]?.aggregateId ?? '')) continue;
    const count = takeEvents(group, left);
    for (let k = 0; k < count; k++) {
      const commit = group[k] as AggregateCommit;
      left -= eventsIn(commit);
      taken.push(commit);
    }
    groups[i] = count === group.length ? null : group.slice(count);
  }
  while (from.first < groups.length && groups[from.first] === null) from.first++;
  return taken;
}

/** Takes the first `count` items that may go out of the list. */
function takeFirst<T>(list: T[], count: number, mayGo: (item: T) => boolean): T[] {
  const taken: T[] = [];
  const kept: T[] = [];
  let i = 0;
  for (; i < list.length && i < SCANNED && taken.length < count; i++) {
    const item = list[i] as T;
    if (mayGo(item)) taken.push(item);
    else kept.push(item);
  }
  if (taken.length > 0) list.splice(0, i, ...kept);
  return taken;
}
