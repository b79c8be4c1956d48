import type { FoldItem, FoldOutcome, HostEvent, State, Unit } from '../code-host/code-host.js';
import type { Fault, StoredCommit, StoredEvent } from '../core/event.js';
import { eventsOf } from '../tasks/commit-reader.js';
import type { AggregateSource } from '../tasks/inspection-source.js';
import type { Bench } from './scratch-runner.js';

/** Of one item of a turn, and of all items of it. */
const EVENTS_AN_ITEM = 500;
const BYTES_AN_ITEM = 2 * 1024 * 1024;
const EVENTS_A_TURN = 2000;
const BYTES_A_TURN = 4 * 1024 * 1024;
/** Histories: a log may be far away. */
const READ_AT_ONCE = 8;

/** Events of an aggregate in order, a portion at a time. */
class EventCursor {
  readonly #chunks: AsyncGenerator<readonly StoredCommit[]>;
  readonly #through: number;
  #commits: StoredCommit[] = [];
  #events: Iterator<StoredEvent> | undefined;
  #next: StoredEvent | undefined;

  constructor(source: AggregateSource, aggregateId: string, through: number) {
    this.#chunks = source.history(aggregateId, 1, through);
    this.#through = through;
  }

  /** At least one unless there is none up to the version. */
  async take(count: number, maxBytes: number, until: number): Promise<HostEvent[]> {
    const events: HostEvent[] = [];
    for (let bytes = 0; events.length < count && bytes < maxBytes; ) {
      const event = (this.#next ??= await this.#pull());
      if (event === undefined || event.version > Math.min(until, this.#through)) break;
      events.push(event);
      bytes += event.data.length + (event.metadata?.length ?? 0);
      this.#next = undefined;
    }
    return events;
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

/** An aggregate that is folded again from its first event, in portions. */
export class Refold {
  readonly unit: Unit;
  readonly aggregateId: string;
  readonly through: number;
  readonly #cursor: EventCursor;
  version = 0;
  state: State = null;
  /** Of the last event folded, milliseconds. */
  lastModified = 0;
  fault: Fault | undefined;
  events = 0;

  constructor(unit: Unit, source: AggregateSource, aggregateId: string, through: number) {
    this.unit = unit;
    this.aggregateId = aggregateId;
    this.through = through;
    this.#cursor = new EventCursor(source, aggregateId, through);
  }

  get done(): boolean {
    return this.fault !== undefined || this.version >= this.through;
  }

  /** What is to be folded next, up to the version; undefined when nothing is. `each`: the state after every event is wanted. */
  async item({ count = EVENTS_AN_ITEM, until = this.through, each = false }: { readonly count?: number; readonly until?: number; readonly each?: boolean } = {}): Promise<FoldItem | undefined> {
    if (this.done || this.version >= until) return undefined;
    const events = await this.#cursor.take(count, BYTES_AN_ITEM, until);
    if (events.length === 0) return undefined;
    const { unit, aggregateId, version, state } = this;
    return { unit, aggregateId, baseVersion: version, baseState: () => state, events, stateAt: each ? events.map((event) => event.version) : [] };
  }

  settle(item: FoldItem, outcome: FoldOutcome): void {
    const last = outcome.states.at(-1);
    const reached = last === undefined ? undefined : item.events.findLast((event) => event.version <= last.version);
    if (last !== undefined) [this.version, this.state] = [last.version, last.state];
    if (reached !== undefined) this.lastModified = reached.timestamp;
    this.events += outcome.fault === undefined ? item.events.length : item.events.filter((event) => event.version <= this.version).length;
    this.fault = outcome.fault;
  }

  /** @throws DeadlinePassedError */
  async advance(bench: Bench, until: number): Promise<void> {
    for (let item = await this.item({ until }); item !== undefined; item = await this.item({ until })) {
      const [outcome] = await bench.fold([item]);
      if (outcome !== undefined) this.settle(item, outcome);
    }
  }
}

/** Folds all of them to their ends, several in one turn; no aggregate may be there twice for one unit. @throws DeadlinePassedError */
export async function refoldAll(bench: Bench, refolds: readonly Refold[]): Promise<void> {
  for (let open = refolds.filter((one) => !one.done); open.length > 0; ) {
    const turn: { readonly refold: Refold; readonly item: FoldItem }[] = [];
    const ended = new Set<Refold>();
    let [events, bytes] = [0, 0];
    for (let at = 0; at < open.length && events < EVENTS_A_TURN && bytes < BYTES_A_TURN; at += READ_AT_ONCE) {
      const some = open.slice(at, at + READ_AT_ONCE);
      const items = await Promise.all(some.map((refold) => refold.item()));
      for (const [i, refold] of some.entries()) {
        const item = items[i];
        if (item === undefined) {
          ended.add(refold);
          continue;
        }
        turn.push({ refold, item });
        events += item.events.length;
        for (const { data } of item.events) bytes += data.length;
      }
    }
    const outcomes = await bench.fold(turn.map(({ item }) => item));
    turn.forEach(({ refold, item }, i) => {
      const outcome = outcomes[i];
      if (outcome !== undefined) refold.settle(item, outcome);
    });
    open = open.filter((one) => !one.done && !ended.has(one));
  }
}
