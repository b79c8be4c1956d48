import type { EventsBody } from '../core/records.js';
import { INPUTS, type Input, type InputFeed } from '../feed/inputs.js';
import { LogFeed, type LogFeedOptions } from '../feed/log-feed.js';

/** The inputs of one partition of a tenant's events. */
export class CommitFeed extends LogFeed<EventsBody, Input> implements InputFeed {
  readonly #start: number;
  /** Offsets of the controls that were pushed. */
  readonly #controls: number[] = [];

  constructor(options: Omit<LogFeedOptions<EventsBody, Input>, 'kind'>) {
    super({ ...options, kind: INPUTS });
    this.#start = options.start;
  }

  override push(input: Input): void {
    if (input.kind === 'control') this.#controls.push(input.offset);
    super.push(input);
  }

  commitsUntil(from: number): number | undefined {
    if (from < this.#start) return undefined;
    return this.#controls.find((offset) => offset >= from) ?? this.head;
  }
}
