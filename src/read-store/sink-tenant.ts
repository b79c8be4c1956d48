import { backOff, type BackOff } from '../core/back-off.js';
import type { Change } from '../core/change.js';
import { partsOf, type StoredCommit } from '../core/event.js';
import { background } from '../core/background.js';
import { pause } from '../core/pause.js';
import { nextTurn, ShortSlices } from '../core/slices.js';
import { within } from '../core/within.js';
import type { Page } from '../feed/feed.js';
import { commitsOf, type Input } from '../feed/inputs.js';
import type { SinkStream, Watermark } from './read-store.js';
import { Rows } from './sink-rows.js';
import type { SinkSource } from './sink-source.js';

const STREAMS: readonly SinkStream[] = ['events', 'states', 'changes'];
/** Of a tenant that wasn't read before; from there on as many as what they took last time suggests. */
const FIRST_STATES = 16;
/** They are read in one go, and each may be a megabyte, however small those before were. */
const MOST_STATES = 32;
/**
 * Between two slices of them while clients are about, milliseconds: as long as a slice is. The rows are to keep up, so they don't wait for
 * the background's turns.
 */
const REST_MS = 2;
/** Between two readings of a stream that fails. */
const READ_BACK_OFF_MS: BackOff = { first: 200, last: 30_000 };
/** Between two attempts to write what was read of a tenant, when the store refuses it and takes what others have. */
const WRITE_BACK_OFF_MS: BackOff = { first: 500, last: 60_000 };
/** A watermark of `states` is the source's revision times this, plus the offset: a later revision begins again, and is further. */
const REVISION_STRIDE = 2 ** 40;

const watermarkOfStates = (revision: number, offset: number): number => revision * REVISION_STRIDE + offset;

interface StreamPosition {
  /** In the store, as far as the sink knows. */
  offset: number;
  failures: number;
  /** By `performance.now()`, before which the stream isn't read again after a failure. */
  notBefore: number;
}

/** Watermarks, as they are written. */
export type SinkPositions = Readonly<Record<SinkStream, number>>;

/** What one reading of a tenant gave, for the store. */
export interface Gathered {
  readonly tenant: SinkTenant;
  readonly rows: Rows;
  /** Where the rows end: the watermarks once they are written. Streams that stayed where they were aren't named. */
  readonly progress: ReadonlyMap<SinkStream, number>;
  /** Streams that couldn't be read; the others go on. */
  readonly failures: readonly { readonly stream: SinkStream; readonly error: unknown }[];
  /** Projections of which the rows are to go, when these are in. */
  readonly dropped: readonly string[];
  /** Aggregates of which the rows are to go, likewise. */
  readonly erased: readonly string[];
  /** There is more to read, though no stream has come further. */
  readonly isPartial: boolean;
  readonly startedAt: number;
  readonly generation: number;
  readonly revision: number;
}

/** As long as it is being read. */
interface Gathering extends Gathered {
  readonly progress: Map<SinkStream, number>;
  readonly failures: { readonly stream: SinkStream; readonly error: unknown }[];
  readonly dropped: string[];
  readonly erased: string[];
  isPartial: boolean;
}

/** Belongs to the positions: a reading that comes to nothing leaves nothing behind in that of the next one. */
interface Filling {
  fill: StatesFill | undefined;
  /** Changes before it that retention dropped are in the states that were told since. */
  filledTo: number;
}

/** How far the states of projections are told in place of changes that retention has dropped. */
interface StatesFill {
  /** Where the changes go on, behind those that are dropped. */
  readonly start: number;
  /** Where the changes ended when it began. */
  readonly head: number;
  next: string | undefined;
}

/** Positions of one tenant's three streams, and what to read next from its source. */
export class SinkTenant {
  readonly source: SinkSource;
  readonly #deadlineMs: number;
  #positions: Record<SinkStream, StreamPosition> | undefined;
  #generation = 0;
  /** Of the source, that the position of `states` belongs to. */
  #revision = 0;
  /** Up to here states are told again, or for the first time after all that was before: each once, and not with every commit of its aggregate. */
  #statesAnewTo = 0;
  /** Aggregates of which the states are asked for at once: small events may have large states. */
  #statesAtOnce = FIRST_STATES;
  #filling: Filling = { fill: undefined, filledTo: 0 };
  /** Attempts to write its rows in a row that the store refused, though it took others'. */
  #refusals = 0;
  /** Since when, by `performance.now()`, there has been something that isn't in the store; undefined: nothing, as far as is known. */
  behindSince: number | undefined;
  /** Nothing to do before, by `performance.now()`, which no step of the clock moves: all that could be read is, and a stream that failed waits. */
  notBefore = 0;
  detached = false;

  constructor(source: SinkSource, deadlineMs: number) {
    this.source = source;
    this.#deadlineMs = deadlineMs;
  }

  /** Undefined until `start`. */
  offset(stream: SinkStream): number | undefined {
    return this.#positions?.[stream].offset;
  }

  /** Undefined until `start`. */
  get positions(): SinkPositions | undefined {
    const positions = this.#positions;
    if (positions === undefined) return undefined;
    const { events, states, changes } = positions;
    return {
      events: events.offset,
      states: watermarkOfStates(this.#revision, states.offset),
      changes: changes.offset,
    };
  }

  get started(): boolean {
    return this.#positions !== undefined;
  }

  start(watermarks: Readonly<Record<SinkStream, number>>): void {
    const at = (offset: number): StreamPosition => ({ offset, failures: 0, notBefore: 0 });
    this.#revision = Math.floor(watermarks.states / REVISION_STRIDE);
    this.#statesAnewTo = this.source.commitsEnd();
    this.#positions = {
      events: at(watermarks.events),
      states: at(watermarks.states % REVISION_STRIDE),
      changes: at(watermarks.changes),
    };
  }

  /** Forgets all positions: the store is asked for them again. What is being read then comes to nothing. */
  forget(): void {
    this.#positions = undefined;
    this.#filling = { fill: undefined, filledTo: 0 };
    this.#generation++;
  }

  /** Reads about `maxBytes` of each stream from where the store is. Never rejects. */
  async gather(maxBytes: number): Promise<Gathered> {
    const startedAt = performance.now();
    const positions = this.#positions;
    const filling = this.#filling;
    const revision = Math.max(this.#revision, this.source.statesRevision());
    const gathered: Gathering = {
      tenant: this,
      rows: new Rows(),
      progress: new Map(),
      failures: [],
      dropped: [],
      erased: [],
      isPartial: false,
      startedAt,
      generation: this.#generation,
      revision,
    };
    if (positions === undefined) return gathered;
    if (revision > this.#revision) {
      this.#revision = revision;
      positions.states.offset = 0;
      this.#statesAnewTo = this.source.commitsEnd();
    }
    const { progress, failures } = gathered;
    const attempt = async (stream: SinkStream, read: (from: number) => Promise<number>): Promise<void> => {
      const position = positions[stream];
      if (position.notBefore > startedAt) return;
      try {
        const next = await read(position.offset);
        if (next > position.offset) progress.set(stream, next);
        position.failures = 0;
      } catch (error) {
        position.notBefore = startedAt + backOff(position.failures++, READ_BACK_OFF_MS);
        failures.push({ stream, error });
      }
    };
    const commitsFrom = this.#sharedCommits(maxBytes);
    await attempt('events', async (from) => this.#gatherEvents(await commitsFrom(from), gathered));
    await attempt('states', (from) => this.#gatherStates(from, commitsFrom, gathered, maxBytes));
    await attempt('changes', (from) => this.#gatherChanges(from, gathered, filling, maxBytes));
    return gathered;
  }

  /** The two streams over commits mostly stand at the same place, and then share one read. */
  #sharedCommits(maxBytes: number): CommitsReader {
    let shared: { readonly from: number; readonly page: Promise<CommitsPage> } | undefined;
    return (from) => {
      if (shared?.from !== from) {
        const read = answered(this.source.inputs.read(from, { bytes: maxBytes }), this.#deadlineMs, 'the inputs');
        shared = { from, page: read.then(commitsIn) };
      }
      return shared.page;
    };
  }

  /** @returns where the stream goes on; so do the two below */
  async #gatherEvents({ commits, dropped, erased, end }: CommitsPage, gathered: Gathering): Promise<number> {
    await gathered.rows.addCommits(this.source.tenantId, commits);
    gathered.dropped.push(...dropped);
    gathered.erased.push(...erased);
    return end;
  }

  async #gatherStates(from: number, read: CommitsReader, gathered: Gathering, maxBytes: number): Promise<number> {
    // A catch-up makes them in the order of the log, and says when it has come further: asking for each would only hold it up.
    const statesEnd = this.source.statesEnd();
    if (from >= statesEnd) return from;
    const page = await read(from);
    if (page.end > statesEnd) return from;
    return this.#addStates(from, page, gathered, maxBytes);
  }

  async #gatherChanges(from: number, gathered: Gathering, filling: Filling, maxBytes: number): Promise<number> {
    const { source } = this;
    const { rows } = gathered;
    const page = filling.fill === undefined ? await this.#changesFrom(from, filling, maxBytes) : undefined;
    if (page === undefined) {
      const end = await this.#addProjectionStates(rows, filling, maxBytes);
      gathered.isPartial = end === undefined;
      return end ?? from;
    }
    const there = page.items.filter(({ projectionId }) => source.projectionExists(projectionId));
    await rows.addChanges(source.tenantId, there);
    return page.end;
  }

  /** Undefined: retention has dropped some that are not in the store, and the states are to be told in their place. */
  async #changesFrom(from: number, filling: Filling, maxBytes: number): Promise<Page<Change> | undefined> {
    const { changes } = this.source;
    const budget = { bytes: maxBytes };
    const recent = changes.recent(from, budget);
    if (recent !== undefined) return recent;
    const page = await answered(changes.read(from, budget), this.#deadlineMs, 'the changes');
    // Asked behind the read: what was dropped before it is not in the page.
    const start = await answered(changes.start(), this.#deadlineMs, 'the start of the changes');
    if (start <= Math.max(from, filling.filledTo)) return page;
    filling.fill = { start, head: changes.head, next: undefined };
    return undefined;
  }

  /** @returns where the changes go on, once all states are among the rows; undefined: there are more */
  async #addProjectionStates(rows: Rows, filling: Filling, maxBytes: number): Promise<number | undefined> {
    const { fill } = filling;
    if (fill === undefined) return undefined;
    const { source } = this;
    const told = source.projectionStates(fill.next, maxBytes);
    const { states, next } = await answered(told, this.#deadlineMs, 'projectionStates');
    await rows.addProjectionStates(source.tenantId, states);
    fill.next = next;
    if (next !== undefined) return undefined;
    filling.fill = undefined;
    // What is dropped from there on was there when the states were read, unless that took as long as changes are kept.
    filling.filledTo = fill.head;
    return fill.start;
  }

  /**
   * Of the aggregates of a page's commits, portion by portion, until about `maxBytes` are there. @returns the exclusive offset up to
   * which the states of all commits are among the rows.
   */
  async #addStates(
    from: number,
    { changed, end }: CommitsPage,
    gathered: Gathering,
    maxBytes: number,
  ): Promise<number> {
    const { source } = this;
    const { rows } = gathered;
    const before = rows.bytes;
    let upTo = from;
    // Where all states are there already nothing here waits, and a page has thousands.
    const slices = new ShortSlices(() => (background.givesWay ? pause(REST_MS, { ref: true }) : nextTurn()));
    for (let at = 0; ;) {
      const turn = slices.next();
      if (turn !== undefined) {
        await turn;
        // What is being read comes to nothing: whoever closes the tenant, or reads it anew, does not wait for the rest of the page.
        if (!this.isCurrent(gathered)) return upTo;
      }
      const ids = new Set<string>();
      const first = rows.bytes;
      for (; at < changed.length && ids.size < this.#statesAtOnce; at++)
        for (const aggregateId of changed[at]?.aggregateIds ?? []) ids.add(aggregateId);
      upTo = changed[at]?.offset ?? end;
      if (ids.size > 0) {
        const states = source.aggregateStates([...ids], upTo, upTo < this.#statesAnewTo);
        rows.addStates(source.tenantId, await answered(states, this.#deadlineMs, 'aggregateStates'));
      }
      const bytes = rows.bytes - first;
      if (bytes > maxBytes / 2) this.#statesAtOnce = Math.max(1, this.#statesAtOnce >> 2);
      else if (bytes < maxBytes / 8) this.#statesAtOnce = Math.min(MOST_STATES, this.#statesAtOnce * 2);
      if (upTo === end || rows.bytes - before >= maxBytes) return upTo;
    }
  }

  /** The store refused its rows, and took others'. They are read again, and written after a while. @returns whether it is the first time in a row. */
  refused(): boolean {
    this.forget();
    this.notBefore = performance.now() + backOff(this.#refusals, WRITE_BACK_OFF_MS);
    return this.#refusals++ === 0;
  }

  /** The store refused what was last written of it. */
  get isRefused(): boolean {
    return this.#refusals > 0;
  }

  /** False for what was read before a `forget` or a `detach`. */
  isCurrent(gathered: Gathered): boolean {
    return !this.detached && gathered.generation === this.#generation;
  }

  watermarksOf({ progress, revision }: Gathered): readonly Watermark[] {
    const { tenantId, incarnation } = this.source;
    return [...progress].map(([stream, offset]) => ({
      tenantId,
      incarnation,
      stream,
      offset: stream === 'states' ? watermarkOfStates(revision, offset) : offset,
    }));
  }

  /** The gathered rows, and their watermarks, are in the store. */
  commit(gathered: Gathered): void {
    this.#refusals = 0;
    if (this.#positions === undefined || !this.isCurrent(gathered)) return;
    for (const [stream, offset] of gathered.progress)
      if (stream !== 'states' || gathered.revision === this.#revision) this.#positions[stream].offset = offset;
  }

  /** The soonest time at which a stream that failed may be read again; undefined when none has failed. */
  retryAt(): number | undefined {
    const positions = this.#positions;
    if (positions === undefined) return undefined;
    const failed = STREAMS.filter((stream) => positions[stream].failures > 0).map(
      (stream) => positions[stream].notBefore,
    );
    return failed.length === 0 ? undefined : Math.min(...failed);
  }
}

interface CommitsPage {
  readonly commits: readonly StoredCommit[];
  /** Aggregates whose states are other ones from there on, by a commit or without one, ascending. */
  readonly changed: readonly { readonly offset: number; readonly aggregateIds: readonly string[] }[];
  /** Projections that are deleted, of which no changes are given any more. */
  readonly dropped: readonly string[];
  /** Aggregates that were erased. */
  readonly erased: readonly string[];
  readonly end: number;
}

/** What lies from the position on. */
type CommitsReader = (from: number) => Promise<CommitsPage>;

function commitsIn({ items, end }: Page<Input>): CommitsPage {
  const changed: { readonly offset: number; readonly aggregateIds: readonly string[] }[] = [];
  const dropped: string[] = [];
  const erased: string[] = [];
  for (const input of items) {
    if (input.kind === 'erased') erased.push(input.aggregateId);
    else if (input.kind === 'release') changed.push({ offset: input.offset, aggregateIds: [input.aggregateId] });
    else if (input.kind === 'commit')
      changed.push({
        offset: input.commit.offset,
        aggregateIds: partsOf(input.commit).map(({ aggregateId }) => aggregateId),
      });
    else if (input.kind === 'control' && input.control.kind === 'ProjectionDrop')
      dropped.push(input.control.value.projectionId);
  }
  return { commits: commitsOf(items), changed, dropped, erased, end };
}

/** A source that doesn't answer is given up on; its late answer is dropped. */
async function answered<T extends object | number>(work: Promise<T>, milliseconds: number, what: string): Promise<T> {
  const answer = await within(work, milliseconds);
  if (answer === undefined) throw new Error(`${what} gave no answer within ${milliseconds} ms`);
  return answer;
}
