import { compareKeys } from '../core/compare-keys.js';
import { pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/** What a partition has of one type of events. */
export interface EventTypeCount {
  readonly eventType: string;
  readonly events: number;
  /** Of its first and its last event, milliseconds since the epoch. */
  readonly firstSeen: number;
  readonly lastSeen: number;
  /** Of the aggregates that have such events; the first of them. */
  readonly aggregateTypes: readonly string[];
}

interface Counter extends EventTypeCount {
  events: number;
  lastSeen: number;
  readonly aggregateTypes: string[];
  /** Of the last event: mostly the next one's too. */
  aggregateType: string;
  changed: boolean;
}

const copyOf = ({ eventType, events, firstSeen, lastSeen, aggregateTypes }: Counter): EventTypeCount => ({
  eventType,
  events,
  firstSeen,
  lastSeen,
  aggregateTypes: [...aggregateTypes],
});

/** As it lies in the store. */
type CounterRow = readonly [events: number, firstSeen: number, lastSeen: number, ...aggregateTypes: string[]];
type OthersRow = readonly [types: number, others: number];

/** A partition counts so many types, those that came first: a tenant that makes a type of each event takes no more. */
const MOST_TYPES = 2_000;
/** Of each type so many types of aggregates are kept. */
export const MOST_AGGREGATE_TYPES = 50;
/** Of a list so many are read on a turn: each may have as many types of aggregates as are kept, with long names. */
export const TYPES_AT_ONCE = 100;
/** So many stay in memory between two writes of the section. */
const KEPT = 256;

/**
 * How many events of each type a partition has, counted as its records are folded: so it is of exactly these, on whatever process.
 * What changed is put into the section with its checkpoint, and not with each event.
 */
export class EventTypeCounts {
  readonly #section: StoreSection;
  readonly #most: number;
  readonly #counters = new Map<string, Counter>();
  #changed: Counter[] = [];
  #types: number;
  #others: number;
  #othersChanged = false;

  constructor(section: StoreSection, most = MOST_TYPES) {
    this.#section = section;
    this.#most = most;
    const [types = 0, others = 0] = (section.get(TABLES.otherEventTypes) as OthersRow | undefined) ?? [];
    this.#types = types;
    this.#others = others;
  }

  /** Events of types that are not counted each: there were too many types before theirs. */
  get others(): number {
    return this.#others;
  }

  /** Of an event that was folded. `timestamp`: milliseconds since the epoch. */
  add(eventType: string, aggregateType: string, timestamp: number): void {
    const counter = this.#counters.get(eventType) ?? this.#counter(eventType, timestamp);
    if (counter === undefined) {
      this.#others++;
      this.#othersChanged = true;
      return;
    }
    counter.events++;
    if (timestamp > counter.lastSeen) counter.lastSeen = timestamp;
    if (counter.aggregateType !== aggregateType) {
      counter.aggregateType = aggregateType;
      const { aggregateTypes } = counter;
      if (aggregateTypes.length < MOST_AGGREGATE_TYPES && !aggregateTypes.includes(aggregateType))
        aggregateTypes.push(aggregateType);
    }
    if (counter.changed) return;
    counter.changed = true;
    this.#changed.push(counter);
  }

  #counter(eventType: string, timestamp: number): Counter | undefined {
    const stored = this.#stored(eventType);
    if (stored === undefined) {
      if (this.#types >= this.#most) return undefined;
      this.#types++;
      this.#othersChanged = true;
    }
    const counter: Counter = {
      ...(stored ?? { eventType, events: 0, firstSeen: timestamp, lastSeen: timestamp, aggregateTypes: [] }),
      aggregateTypes: [...(stored?.aggregateTypes ?? [])],
      aggregateType: '',
      changed: false,
    };
    this.#counters.set(eventType, counter);
    return counter;
  }

  #stored(eventType: string): EventTypeCount | undefined {
    const row = this.#section.get(TABLES.eventTypes + eventType) as CounterRow | undefined;
    return row && countOf(eventType, row);
  }

  of(eventType: string): EventTypeCount | undefined {
    return this.#counters.get(eventType) ?? this.#stored(eventType);
  }

  /** Those behind a name, ascending. */
  *past(after: string): Generator<EventTypeCount> {
    const inMemory = [...this.#counters.values()]
      .filter(({ eventType }) => compareKeys(eventType, after) > 0)
      .sort((a, b) => compareKeys(a.eventType, b.eventType));
    let next = 0;
    const from = TABLES.eventTypes + (after === '' ? '' : after + SEPARATOR);
    for (const [key, row] of this.#section.range(from, pastAll(TABLES.eventTypes))) {
      const eventType = key.slice(TABLES.eventTypes.length);
      for (
        let one = inMemory[next];
        one !== undefined && compareKeys(one.eventType, eventType) < 0;
        one = inMemory[++next]
      )
        yield copyOf(one);
      // What is counted now is in memory; the row is as of the last checkpoint.
      if (inMemory[next]?.eventType !== eventType) yield countOf(eventType, row as CounterRow);
    }
    for (const one of inMemory.slice(next)) yield copyOf(one);
  }

  /** With each checkpoint: what is in the section is of the records that the checkpoint names. */
  save(): void {
    for (const counter of this.#changed) {
      counter.changed = false;
      const { eventType, events, firstSeen, lastSeen, aggregateTypes } = counter;
      const row: CounterRow = [events, firstSeen, lastSeen, ...aggregateTypes];
      this.#section.set(TABLES.eventTypes + eventType, row);
    }
    this.#changed = [];
    if (this.#othersChanged) {
      const row: OthersRow = [this.#types, this.#others];
      this.#section.set(TABLES.otherEventTypes, row);
      this.#othersChanged = false;
    }
    if (this.#counters.size > KEPT) this.#counters.clear();
  }
}

const countOf = (eventType: string, [events, firstSeen, lastSeen, ...aggregateTypes]: CounterRow): EventTypeCount => ({
  eventType,
  events,
  firstSeen,
  lastSeen,
  aggregateTypes,
});
