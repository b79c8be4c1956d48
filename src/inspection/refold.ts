import type { FoldItem, FoldOutcome, HostEvent, State, Unit } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import type { Fault, AggregateCommit, StoredEvent } from '../core/event.js';
import { eventsOf } from '../core/event.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import { NO_MARKS, type ReducerMarks } from '../store/fault-tables.js';
import type { Bench } from './scratch-runner.js';

/** Of one item of a turn, and of all items of it. */
const EVENTS_PER_ITEM = 500;
const BYTES_PER_ITEM = 2 * 1024 * 1024;
const EVENTS_PER_TURN = 2000;
const BYTES_PER_TURN = 4 * 1024 * 1024;
/** Histories: a log may be far away. */
const READ_AT_ONCE = 8;

/** Of events that were all passed over. */
const NOTHING: FoldOutcome = { states: [] };

/** Events of an aggregate in order, a page at a time. */
class EventCursor {
  readonly #chunks: AsyncGenerator<readonly AggregateCommit[]>;
  readonly #toVersion: number;
  readonly #skipped: readonly number[];
  #commits: AggregateCommit[] = [];
  #events: Iterator<StoredEvent> | undefined;
  #next: StoredEvent | undefined;

  constructor(source: AggregateSource, aggregateId: string, toVersion: number, skipped: readonly number[]) {
    this.#chunks = source.history(aggregateId, 1, toVersion);
    this.#toVersion = toVersion;
    this.#skipped = skipped;
  }

  /** At least one unless there is none up to the version. `passed`: the last version that was passed, folded or not. */
  async take(
    count: number,
    maxBytes: number,
    until: number,
  ): Promise<{ readonly events: HostEvent[]; readonly skipped: readonly HostEvent[]; readonly passed: number }> {
    const events: HostEvent[] = [];
    const skipped: HostEvent[] = [];
    let passed = 0;
    for (let bytes = 0; events.length + skipped.length < count && bytes < maxBytes;) {
      const event = (this.#next ??= await this.#pull());
      if (event === undefined || event.version > Math.min(until, this.#toVersion)) break;
      this.#next = undefined;
      passed = event.version;
      (this.#skipped.includes(event.version) ? skipped : events).push(event);
      bytes += event.data.length + (event.metadata?.length ?? 0);
    }
    return { events, skipped, passed };
  }

  async #pull(): Promise<StoredEvent | undefined> {
    for (;;) {
      const pulled = this.#events?.next();
      if (pulled !== undefined && pulled.done !== true) return pulled.value;
      let commit = this.#commits.shift();
      if (commit === undefined) {
        const chunk = await this.#chunks.next();
        if (chunk.done === true) return undefined;
        this.#commits = [...chunk.value];
        commit = this.#commits.shift();
      }
      this.#events = commit === undefined ? undefined : eventsOf(commit);
    }
  }
}

/** An aggregate that is folded again from its first event, in pages. */
export class Refold {
  readonly unit: Unit;
  readonly aggregateId: string;
  readonly toVersion: number;
  readonly #cursor: EventCursor;
  readonly #source: AggregateSource;
  readonly #stop: Fault | undefined;
  /** Last version of the item that is under way. */
  #taken = 0;
  /** Events that were passed over since the item before. */
  skipped: readonly HostEvent[] = [];
  version = 0;
  state: State = null;
  /** Of the last event folded, milliseconds. */
  lastModified = 0;
  fault: Fault | undefined;
  events = 0;

  /** `marks`: what the log says of faults of this very code. */
  constructor(
    unit: Unit,
    source: AggregateSource,
    aggregateId: string,
    toVersion: number,
    { skipped, stop }: ReducerMarks = NO_MARKS,
  ) {
    this.unit = unit;
    this.#source = source;
    this.aggregateId = aggregateId;
    this.#stop = stop !== undefined && stop.version <= toVersion ? stop : undefined;
    this.toVersion = this.#stop === undefined ? toVersion : this.#stop.version - 1;
    this.#cursor = new EventCursor(source, aggregateId, this.toVersion, skipped);
    this.#reach(0);
  }

  get done(): boolean {
    return this.fault !== undefined || this.version >= this.toVersion;
  }

  /** What is to be folded next, up to the version; undefined when nothing is. `each`: the state after every event is wanted. */
  async item({
    count = EVENTS_PER_ITEM,
    until = this.toVersion,
    each = false,
  }: { readonly count?: number; readonly until?: number; readonly each?: boolean } = {}): Promise<
    FoldItem | undefined
  > {
    if (this.done || this.version >= until) return undefined;
    const { events, skipped, passed } = await this.#cursor.take(count, BYTES_PER_ITEM, until);
    if (events.length + skipped.length === 0)
      throw new StatefoldError(
        'UNAVAILABLE',
        `a part of the history of '${this.aggregateId}' is not here; send the request again`,
      );
    this.skipped = skipped;
    this.#taken = passed;
    const { unit, aggregateId, version, state } = this;
    return {
      unit,
      aggregateId,
      baseVersion: version,
      baseState: () => state,
      events,
      stateAt: each ? events.map((event) => event.version) : [],
    };
  }

  take(item: FoldItem, outcome: FoldOutcome): void {
    const last = outcome.states.at(-1);
    const reached = last === undefined ? undefined : item.events.findLast((event) => event.version <= last.version);
    if (last !== undefined) this.state = last.state;
    if (reached !== undefined) this.lastModified = reached.timestamp;
    this.events +=
      outcome.fault === undefined
        ? item.events.length
        : item.events.filter((event) => event.version <= (last?.version ?? 0)).length;
    this.fault = outcome.fault;
    this.#reach(outcome.fault === undefined ? this.#taken : outcome.fault.version - 1);
  }

  /** Where the log says that its process was stopped, it stands. */
  #reach(version: number): void {
    this.version = version;
    if (version >= this.toVersion) this.fault ??= this.#stop;
  }

  /** The event at which the log says that it stands; undefined: the code itself stopped, or nothing did. */
  async stoppedAt(): Promise<HostEvent | undefined> {
    if (this.fault === undefined || this.fault !== this.#stop) return undefined;
    const { version } = this.fault;
    for await (const commits of this.#source.history(this.aggregateId, version, version))
      for (const commit of commits) for (const event of eventsOf(commit)) if (event.version === version) return event;
    return undefined;
  }

  /** @throws DeadlinePassedError */
  async fold(bench: Bench, item: FoldItem): Promise<FoldOutcome> {
    const [outcome = NOTHING] = item.events.length === 0 ? [] : await bench.fold([item]);
    this.take(item, outcome);
    return outcome;
  }

  /** @throws DeadlinePassedError */
  async advance(bench: Bench, until: number): Promise<void> {
    for (let item = await this.item({ until }); item !== undefined; item = await this.item({ until }))
      await this.fold(bench, item);
  }
}

/** Folds all of them to their ends, several in one turn; no aggregate may be there twice for one unit. @throws DeadlinePassedError */
export async function refoldAll(bench: Bench, refolds: readonly Refold[]): Promise<void> {
  for (let open = refolds.filter((one) => !one.done); open.length > 0;) {
    const turn: { readonly refold: Refold; readonly item: FoldItem }[] = [];
    let [events, bytes] = [0, 0];
    for (let at = 0; at < open.length && events < EVENTS_PER_TURN && bytes < BYTES_PER_TURN; at += READ_AT_ONCE) {
      const some = open.slice(at, at + READ_AT_ONCE);
      const items = await Promise.all(some.map((refold) => refold.item()));
      for (const [i, refold] of some.entries()) {
        const item = items[i];
        if (item === undefined) continue;
        if (item.events.length === 0) {
          refold.take(item, NOTHING);
          continue;
        }
        turn.push({ refold, item });
        events += item.events.length;
        for (const { data } of item.events) bytes += data.length;
      }
    }
    const outcomes = turn.length === 0 ? [] : await bench.fold(turn.map(({ item }) => item));
    turn.forEach(({ refold, item }, i) => {
      const outcome = outcomes[i];
      if (outcome !== undefined) refold.take(item, outcome);
    });
    open = open.filter((one) => !one.done);
  }
}
