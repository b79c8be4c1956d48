import { eventsOf, MAX_COMMIT_EVENTS, type StoredCommit, type StoredEvent } from '../core/event.js';
import type { Budget, FollowedFeed, Page } from './feed.js';
import type { Input, InputFeed } from './inputs.js';
import type { Advanced } from './signal.js';

/** An event at its place among all events of its tenant. */
export interface PositionedEvent extends StoredEvent {
  /** An integer from 1 on, below 2^53: the same for every reader and for ever. Positions ascend, those of one commit without a gap. */
  readonly position: number;
}

/** What the feed needs of the tenant whose events they are. */
export interface EventFeedHome {
  /** All inputs in the tenant's one order. */
  readonly inputs: InputFeed;
  /** Resolves when all that was acknowledged before the call, and has a place in the order, can be read here. */
  caughtUp(): Promise<void>;
}

/** Positions of a commit's events lie between those of its place and of the next: so no count has to be kept anywhere. */
export const positionOfPlace = (place: number, index = 0): number => place * MAX_COMMIT_EVENTS + index + 1;
const placeOfPosition = (position: number): number => Math.floor((position - 1) / MAX_COMMIT_EVENTS);

const EVENTS_PER_READ = 1000;

/**
 * All events of a tenant in its one order. The end of a page that was not cut lies behind all that the order has there, also behind
 * records that hold no event; a page that is cut by its budget of items may end within a commit.
 */
export class EventFeed implements FollowedFeed<PositionedEvent> {
  readonly #home: EventFeedHome;
  #subscribers = 0;

  constructor(home: EventFeedHome) {
    this.#home = home;
  }

  get head(): number {
    return positionOfPlace(this.#home.inputs.head);
  }

  /** How many follow it. */
  get subscribers(): number {
    return this.#subscribers;
  }

  positionOf({ position }: PositionedEvent): number {
    return position;
  }

  /** Events are kept for ever. */
  start(): Promise<number> {
    return Promise.resolve(positionOfPlace(0));
  }

  caughtUp(): Promise<void> {
    return this.#home.caughtUp();
  }

  recent(from: number, budget: Budget): Page<PositionedEvent> | undefined {
    const items = budget.items ?? EVENTS_PER_READ;
    const page = this.#home.inputs.recent(placeOfPosition(from), { ...budget, items });
    return page && cut(page, from, items);
  }

  async read(from: number, budget: Budget): Promise<Page<PositionedEvent>> {
    const items = budget.items ?? EVENTS_PER_READ;
    return cut(await this.#home.inputs.read(placeOfPosition(from), { ...budget, items }), from, items);
  }

  subscribe(advanced: Advanced): () => void {
    const unsubscribe = this.#home.inputs.subscribe(advanced);
    this.#subscribers++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#subscribers--;
      unsubscribe();
    };
  }
}

/** The events of the page from the position on, up to so many. */
function cut({ items: inputs, end }: Page<Input>, from: number, most: number): Page<PositionedEvent> {
  const items: PositionedEvent[] = [];
  for (const input of inputs) {
    if (input.kind !== 'commit') continue;
    for (const event of positioned(input.commit)) {
      if (event.position < from) continue;
      if (items.push(event) >= most) return { items, end: event.position + 1 };
    }
  }
  return { items, end: Math.max(from, positionOfPlace(end)) };
}

function* positioned(commit: StoredCommit): Generator<PositionedEvent> {
  let position = positionOfPlace(commit.offset);
  for (const event of eventsOf(commit)) yield { position: position++, ...event };
}
