import { background } from './background.js';
import { eventLoop, type WorkKind } from './event-loop.js';
import { Rests } from './rests.js';

/** Work that gives way to others between its slices: each `yield` is a place where it may. */
export type Sliced<T> = Generator<void, T, void>;

/** Slices that wait for a round of the event loop of their own. */
interface SlicesToCome {
  /** Of what appends wait for: a partition has one or two. */
  readonly ofAppends: (() => void)[];
  readonly ofOthers: (() => void)[];
  isServed: boolean;
}
const toCome: SlicesToCome = { ofAppends: [], ofOthers: [], isServed: false };

function nextSlices(): void {
  const { ofAppends, ofOthers } = toCome;
  ofAppends.shift()?.();
  ofOthers.shift()?.();
  toCome.isServed = ofAppends.length > 0 || ofOthers.length > 0;
  if (toCome.isServed) setImmediate(nextSlices);
}

const turnIn = (queue: (() => void)[]): Promise<void> =>
  new Promise((resolve) => {
    if (!background.clientsAreAbout && !toCome.isServed) return void setImmediate(resolve);
    queue.push(resolve);
    if (toCome.isServed) return;
    toCome.isServed = true;
    setImmediate(nextSlices);
  });

/**
 * Resolves on a later round of the event loop. While clients are about each round has one of those who ask here: a request passes
 * through several rounds, and would wait in each of them for the slices of all that is under way.
 */
export const nextTurn = (): Promise<void> => turnIn(toCome.ofOthers);

/** The same for what an append waits for: it doesn't stand behind those who read, however many these are. */
export const nextTurnOfAppend = (): Promise<void> => turnIn(toCome.ofAppends);

/** Does the work, and lets others have their turn after each slice. */
export async function inSlices<T>(work: Sliced<T>, turn: () => Promise<void> = nextTurn): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await turn();
  }
}

const MAPPED = 2000;

/** The items, each as `to` makes it. */
export function* mapped<A, B>(items: Iterable<A>, to: (item: A) => B): Sliced<B[]> {
  const made: B[] = [];
  for (const item of items) {
    made.push(to(item));
    if (made.length % MAPPED === 0) yield;
  }
  return made;
}

/** How long a slice may hold the event loop before the next one is put off, milliseconds. */
const SLICE_MS = 10;
/** The same while clients are about: a request waits for a slice in each round of the loop that it goes through. */
const SLICE_AMONG_CLIENTS_MS = 3;
/** The same while clients of several tenants are: what is done for one of them holds up the others. */
const SLICE_AMONG_TENANTS_MS = 1;
/** Looked at the clock for so many items: what is little is done in one turn, however slow the machine is. */
const ITEMS_PER_LOOK = 4;

/** Most of the time nobody is about, which takes one look at the clock. */
function usualSliceMs(): number {
  if (!background.givesWay) return SLICE_MS;
  return background.isShared ? SLICE_AMONG_TENANTS_MS : SLICE_AMONG_CLIENTS_MS;
}

export interface TimedSliceOptions {
  readonly sliceMs?: number | undefined;
  /** Most items of the slice; as many as there is time for unless given. */
  readonly most?: number | undefined;
  readonly now?: () => number;
}

/** Does to the items, from `first` on and in their order, as many as there is time for in one turn; gives the index of the first one that is left. */
export function timedSlice<T>(
  items: readonly T[],
  first: number,
  each: (item: T, index: number) => void,
  { sliceMs = usualSliceMs(), most = Infinity, now = () => performance.now() }: TimedSliceOptions = {},
): number {
  const until = now() + sliceMs;
  const end = Math.min(items.length, first + most);
  for (let index = first; index < end;) {
    const look = Math.min(end, index + ITEMS_PER_LOOK);
    for (; index < look; index++) each(items[index] as T, index);
    if (now() >= until) return index;
  }
  return end;
}

/** What nobody waits for gives way sooner, milliseconds. */
const SHORT_SLICE_MS = 2;
export const shortSliceMs = (): number => (background.isShared ? SLICE_AMONG_TENANTS_MS : SHORT_SLICE_MS);

/** For work of many small parts, none of which need hold the event loop for long: others have their turn once all of it since their last one has. */
export class ShortSlices {
  readonly #turn: () => Promise<void>;
  #until = performance.now() + shortSliceMs();

  constructor(turn: () => Promise<void> = nextTurn) {
    this.#turn = turn;
  }

  get isOver(): boolean {
    return performance.now() >= this.#until;
  }

  /** To be called, and awaited where there is something to await, before each part. */
  next(): Promise<void> | undefined {
    if (!this.isOver) return undefined;
    return this.#turn().then(() => void (this.#until = performance.now() + shortSliceMs()));
  }
}

/** Does the work for each item, in their order, a short slice on a turn of the event loop. */
export async function overSlices<T>(
  kind: WorkKind,
  items: readonly T[],
  work: (item: T) => void,
  turn: () => Promise<void> = nextTurn,
): Promise<void> {
  for (let at = 0; at < items.length;) {
    at = eventLoop.slice(kind, () => timedSlice(items, at, work, { sliceMs: shortSliceMs() }));
    if (at < items.length) await turn();
  }
}

const restsOfRows = new Rests();
let lastOfRows = Promise.resolve();

/**
 * As `nextTurn`, for rows of the read store: while clients of several tenants are about the loop is idle for as long as it is active in
 * between. One behind the other: the rests of many at once would end together, and their slices come one right behind the other.
 */
export function nextTurnOfRows(): Promise<void> {
  if (!background.isShared) return nextTurn();
  lastOfRows = lastOfRows.then(() => new Promise<void>((go) => restsOfRows.before(go))).then(nextTurn);
  return lastOfRows;
}

/** The same where the work for an item may have to wait, for the log say: the next item's begins when it has ended. */
export async function overWaitingSlices<T>(
  kind: WorkKind,
  items: readonly T[],
  work: (item: T) => void | Promise<void>,
): Promise<void> {
  let at = 0;
  const slices = new ShortSlices();
  const slice = (): void | Promise<void> => {
    while (at < items.length) {
      const waits = work(items[at++] as T);
      if (waits !== undefined || slices.isOver) return waits;
    }
  };
  while (at < items.length) {
    // Not behind each that waits: what is waited for may be there on the same turn.
    const turn = slices.next();
    if (turn !== undefined) await turn;
    await eventLoop.slice(kind, slice);
  }
}
