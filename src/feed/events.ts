import { eventsIn, type AggregateCommit, type CommitEvent, type EventSpan, type StoredCommit } from '../core/event.js';
import {
  placeOfPosition,
  positionOfPlace,
  type FeedItem,
  type PositionedErasure,
  type PositionedEvent,
} from './feed-item.js';
import type { Budget, FollowedFeed, Page } from './feed.js';
import type { CommitInput, ErasedInput, Input, InputFeed } from './inputs.js';
import type { RecordBytes } from './record-bytes.js';
import { Signal, type Advanced } from './signal.js';

/** What the feed needs of the tenant whose events they are. */
export interface EventFeedHome {
  /** All inputs in the tenant's one order. */
  readonly inputs: InputFeed;
  /** Resolves when all that was acknowledged before the call, and has a place in the order, can be read here. */
  caughtUp(): Promise<void>;
}

const EVENTS_PER_READ = 1000;
/** How far back the last event is looked for first: mostly it is the last record, or a claim or two lie behind it. */
const FIRST_LOOK_BACK = 8;

/**
 * All events of a tenant in its one order. The end of a page that was not cut lies behind all that the order has there, also behind
 * records that hold no event; a page that is cut by its budget of items may end within a commit.
 */
export class EventFeed implements FollowedFeed<FeedItem> {
  readonly #home: EventFeedHome;
  readonly #signal = new Signal();
  #unfollow: (() => void) | undefined;
  /** Reads under way: those who ask for the same meanwhile are given the same page. */
  readonly #reads = new Map<string, Promise<Page<FeedItem>>>();
  /** The last event before the place has the position. */
  #last = { place: 0, position: 0 };

  constructor(home: EventFeedHome) {
    this.#home = home;
  }

  get head(): number {
    return positionOfPlace(this.#home.inputs.head);
  }

  /** How many follow it. */
  get subscribers(): number {
    return this.#signal.listeners;
  }

  positionOf({ position }: FeedItem): number {
    return position;
  }

  /** Events are kept for ever. */
  start(): Promise<number> {
    return Promise.resolve(positionOfPlace(0));
  }

  latest(): Promise<number> {
    return this.lastBefore(this.#home.inputs.head);
  }

  /** Position of the last event before the place that can be read here; 0 where there is none. */
  async lastBefore(place: number): Promise<number> {
    const known = this.#last.place <= place ? this.#last : { place: 0, position: 0 };
    let isWhole = true;
    for (let width = FIRST_LOOK_BACK, end = place; end > known.place; width *= 4) {
      const from = Math.max(known.place, end - width);
      const { position, read } = await this.#lastBetween(from, end);
      isWhole &&= read === end;
      if (position > 0) return this.#isLast({ place, position }, isWhole);
      end = from;
    }
    // Retries may have left very many records behind the last event: they are looked through once.
    return this.#isLast({ place, position: known.position }, isWhole);
  }

  /** What can't be read yet may hold a later one. */
  #isLast(last: { readonly place: number; readonly position: number }, isWhole: boolean): number {
    if (isWhole && last.place > this.#last.place) this.#last = last;
    return last.position;
  }

  async #lastBetween(from: number, end: number): Promise<{ readonly position: number; readonly read: number }> {
    const { inputs } = this.#home;
    let position = 0;
    let read = from;
    while (read < end) {
      const budget = { items: end - read };
      const page = inputs.recent(read, budget) ?? (await inputs.read(read, budget));
      for (const input of page.items)
        if (input.kind === 'commit' && input.commit.offset < end) position = lastOf(input);
        else if (input.kind === 'erased' && input.offset < end) position = positionOfPlace(input.offset);
      if (page.end <= read) break;
      read = Math.min(page.end, end);
    }
    return { position, read };
  }

  caughtUp(): Promise<void> {
    return this.#home.caughtUp();
  }

  recent(from: number, budget: Budget): Page<FeedItem> | undefined {
    const items = budget.items ?? EVENTS_PER_READ;
    const page = this.#home.inputs.recent(placeOfPosition(from), { ...budget, items });
    return page && cut(page, from, items);
  }

  read(from: number, budget: Budget): Promise<Page<FeedItem>> {
    const name = `${from} ${budget.items} ${budget.bytes}`;
    let read = this.#reads.get(name);
    if (read === undefined) {
      const begun = this.#read(from, budget).finally(() => {
        if (this.#reads.get(name) === begun) this.#reads.delete(name);
      });
      this.#reads.set(name, (read = begun));
    }
    return read;
  }

  async #read(from: number, budget: Budget): Promise<Page<FeedItem>> {
    const items = budget.items ?? EVENTS_PER_READ;
    return cut(await this.#home.inputs.read(placeOfPosition(from), { ...budget, items }), from, items);
  }

  subscribe(advanced: Advanced): () => void {
    const unsubscribe = this.#signal.subscribe(advanced);
    this.#unfollow ??= this.#home.inputs.subscribe((first) => {
      // What is asked for from now on may have more than what was under way.
      this.#reads.clear();
      this.#signal.tell(first === undefined ? undefined : positionOfPlace(first));
    });
    return () => {
      unsubscribe();
      if (this.#signal.listeners > 0) return;
      this.#unfollow?.();
      this.#unfollow = undefined;
    };
  }
}

/** The events of the page from the position on, up to so many. */
function cut({ items: inputs, end }: Page<Input>, from: number, most: number): Page<FeedItem> {
  const items: FeedItem[] = [];
  for (const input of inputs) {
    if (input.kind === 'erased') {
      const position = positionOfPlace(input.offset);
      if (position >= from && items.push(erasureAt(position, input)) >= most) return { items, end: position + 1 };
    }
    if (input.kind !== 'commit') continue;
    if (positionOfPlace(input.commit.offset, eventsIn(input.commit)) <= from) continue;
    for (const event of positioned(input)) {
      if (event.position < from) continue;
      if (items.push(event) >= most) return { items, end: event.position + 1 };
    }
  }
  return { items, end: Math.max(from, positionOfPlace(end)) };
}

function positioned(input: CommitInput): readonly PositionedEvent[] {
  const { commit } = input;
  // What was erased of a transaction leaves its positions out.
  return (input.positioned ??=
    commit.parts === undefined
      ? positionedFrom(positionOfPlace(commit.offset), commit)
      : commit.parts.flatMap((part, i, parts) =>
          positionedFrom(positionOfPlace(commit.offset, part.first ?? eventsBefore(parts, i)), part),
        ));
}

function positionedFrom(first: number, commit: AggregateCommit): PositionedEvent[] {
  const count = eventsIn(commit);
  // Most commits have one event: an array that grows would have room for many.
  if (count === 1) return [new EventInFeed(first, commit, 0)];
  const events: PositionedEvent[] = [];
  for (let i = 0; i < count; i++) events.push(new EventInFeed(first + i, commit, i));
  return events;
}

/** Keeps its bytes: it is encoded for who asks first, and told to all. What it says is that of the commit: a copy would cost more than all else. */
class EventInFeed implements PositionedEvent {
  readonly position: number;
  readonly commit: AggregateCommit;
  readonly #index: number;
  #bytes: RecordBytes | undefined;
  #asked = false;

  constructor(position: number, commit: AggregateCommit, index: number) {
    this.position = position;
    this.commit = commit;
    this.#index = index;
  }

  get version(): number {
    return this.commit.baseVersion + this.#index + 1;
  }

  /** Made when somebody looks at it: to write it, `spanIn` does. */
  get #event(): CommitEvent {
    return this.commit.events[this.#index] as CommitEvent;
  }

  get eventId(): string {
    return this.#event.eventId;
  }

  get aggregateId(): string {
    return this.commit.aggregateId;
  }

  get aggregateType(): string {
    return this.commit.aggregateType;
  }

  get eventType(): string {
    return this.#event.eventType;
  }

  get timestamp(): number {
    return this.commit.timestamp;
  }

  get correlationId(): string | undefined {
    return this.#event.correlationId ?? this.commit.correlationId;
  }

  get causationId(): string | undefined {
    return this.#event.causationId ?? this.commit.causationId;
  }

  get data(): Buffer {
    return this.#event.data;
  }

  get metadata(): Buffer | undefined {
    return this.#event.metadata ?? this.commit.metadata;
  }

  spanIn(span: EventSpan): boolean {
    return this.commit.spanOf?.(this.#index, span) === true;
  }

  /** False the first time. */
  askedAgain(): boolean {
    const asked = this.#asked || this.#bytes !== undefined;
    this.#asked = true;
    return asked;
  }

  bytes(encoded: (event: PositionedEvent) => RecordBytes): RecordBytes {
    return (this.#bytes ??= encoded(this));
  }
}

/** Somebody has asked for it before: worth keeping its bytes. */
export const isAskedAgain = (event: PositionedEvent): boolean => event instanceof EventInFeed && event.askedAgain();

/** The bytes of an event, encoded once where it is of a feed. */
export const bytesOnce = (event: PositionedEvent, encoded: (event: PositionedEvent) => RecordBytes): RecordBytes =>
  event instanceof EventInFeed ? event.bytes(encoded) : encoded(event);

/**
 * The commit of an event of a feed, whose span is filled: what of the event the span does not say is the commit's. Undefined, and the
 * span is as it was: the event itself says it all.
 */
export const spannedIn = (event: PositionedEvent, span: EventSpan): AggregateCommit | undefined =>
  event instanceof EventInFeed && event.spanIn(span) ? event.commit : undefined;

const eventsBefore = (parts: readonly StoredCommit[], index: number): number =>
  parts.slice(0, index).reduce((sum, part) => sum + eventsIn(part), 0);

const lastOf = (input: CommitInput): number =>
  positioned(input).at(-1)?.position ?? positionOfPlace(input.commit.offset, eventsIn(input.commit) - 1);

/** Made once, so that it is encoded once. */
const erasures = new WeakMap<ErasedInput, PositionedErasure>();

function erasureAt(position: number, input: ErasedInput): PositionedErasure {
  let item = erasures.get(input);
  if (item === undefined) {
    const { aggregateId, aggregateType, timestamp, reason } = input;
    item = { position, erased: true, aggregateId, aggregateType, timestamp, reason };
    erasures.set(input, item);
  }
  return item;
}
