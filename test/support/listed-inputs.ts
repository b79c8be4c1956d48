import type { AggregateCommit } from '../../src/core/event.js';
import { EventFeed } from '../../src/feed/events.js';
import type { Budget, Page } from '../../src/feed/feed.js';
import type { Input, InputFeed } from '../../src/feed/inputs.js';
import { Signal, type Advanced } from '../../src/feed/signal.js';

/** Inputs in memory, of which the last ones are recent; undefined stands for a record that is no input. */
export class ListedInputs implements InputFeed {
  readonly records: (Input | undefined)[] = [];
  /** Records from here on are placed, and can't be read yet. */
  hidden = Infinity;
  readonly #signal = new Signal();

  constructor(private readonly tail: number) {}

  get head(): number {
    return this.records.length;
  }

  get subscribers(): number {
    return this.#signal.listeners;
  }

  commit(events: number): void {
    const offset = this.records.length;
    this.records.push({ kind: 'commit', commit: commit(offset, events) });
  }

  tell(): void {
    this.#signal.tell();
  }

  subscribe(advanced: Advanced): () => void {
    return this.#signal.subscribe(advanced);
  }

  recent(from: number, budget: Budget): Page<Input> | undefined {
    return from >= this.records.length - this.tail ? this.#page(from, budget) : undefined;
  }

  async read(from: number, budget: Budget): Promise<Page<Input>> {
    await new Promise((resolve) => setImmediate(resolve));
    return this.#page(from, budget);
  }

  #page(from: number, { items: most = Infinity }: Budget): Page<Input> {
    const items: Input[] = [];
    let end = from;
    for (; end < Math.min(this.records.length, this.hidden) && items.length < most; end++) {
      const input = this.records[end];
      if (input !== undefined) items.push(input);
    }
    return { items, end };
  }
}

export const commit = (offset: number, events: number): AggregateCommit => ({
  offset,
  commandId: `c${offset}`,
  aggregateId: `a${offset % 3}`,
  aggregateType: 'account',
  baseVersion: offset,
  timestamp: 1,
  correlationId: undefined,
  causationId: undefined,
  metadata: undefined,
  events: Array.from({ length: events }, (_, i) => ({
    eventId: `${offset}.${i}`,
    eventType: 'opened',
    data: Buffer.from('{}'),
  })),
});

/** Their events, as clients follow them. */
export const feedOf = (inputs: InputFeed): EventFeed => new EventFeed({ inputs, caughtUp: () => Promise.resolve() });
