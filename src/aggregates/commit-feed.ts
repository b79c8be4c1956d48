import { firstIndex } from '../core/first-index.js';
import { withoutErased } from '../core/event.js';
import type { EventsBody } from '../core/records.js';
import { commitInput, INPUTS, type Input, type InputFeed } from '../feed/inputs.js';
import { LogFeed, type Left, type LogFeedOptions } from '../feed/log-feed.js';

/** Controls that are remembered: whoever is further behind reads. */
const MOST_CONTROLS = 4096;

/** Which aggregates were erased, as far as the partition is folded. */
export interface Erasures {
  readonly hasErasures: boolean;
  isErased(aggregateId: string): boolean;
}

/** The inputs of one partition of a tenant's events. It gives nothing of erased aggregates, whether the log still has it or not. */
export class CommitFeed extends LogFeed<EventsBody, Input> implements InputFeed {
  /** From here on all controls that were pushed are known. */
  #start: number;
  /** Offsets of the last controls that were pushed, ascending. */
  readonly #controls: number[] = [];

  constructor({
    erasures,
    ...options
  }: Omit<LogFeedOptions<EventsBody, Input>, 'kind' | 'left' | 'isWhole'> & { readonly erasures?: Erasures }) {
    super({
      ...options,
      kind: INPUTS,
      isWhole: true,
      left: erasures && new WithoutErased(erasures),
    });
    this.#start = options.start;
  }

  override push(input: Input): void {
    if (input.kind === 'control' || input.kind === 'erased') this.#controlled(input.offset);
    super.push(input);
  }

  #controlled(offset: number): void {
    const controls = this.#controls;
    controls.push(offset);
    if (controls.length > 2 * MOST_CONTROLS) this.#start = (controls.splice(0, MOST_CONTROLS).at(-1) as number) + 1;
  }

  commitsUntil(from: number): number | undefined {
    if (from < this.#start) return undefined;
    const controls = this.#controls;
    return controls[firstIndex(controls.length, (i) => (controls[i] as number) >= from)] ?? this.head;
  }
}

/** What is left of inputs once aggregates were erased. */
export class WithoutErased implements Left<Input> {
  readonly #erasures: Erasures;

  constructor(erasures: Erasures) {
    this.#erasures = erasures;
  }

  get isLess(): boolean {
    return this.#erasures.hasErasures;
  }

  of(input: Input): Input | undefined {
    const isErased = (aggregateId: string): boolean => this.#erasures.isErased(aggregateId);
    if (input.kind === 'release') return isErased(input.aggregateId) ? undefined : input;
    if (input.kind !== 'commit') return input;
    const commit = withoutErased(input.commit, isErased);
    return commit === input.commit ? input : commit && commitInput(commit);
  }
}
