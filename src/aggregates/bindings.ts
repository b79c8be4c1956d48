import type { ReducerLine } from '../store/kept-states.js';

/** The reducer that is bound to an aggregate type now. */
export interface BoundReducer extends ReducerLine {
  /** How often the artefact was revived: after each, a catch-up folds the aggregates that it was halted for. */
  readonly revivals?: number;
}

/** Which reducer folds the aggregates of a type. */
export class Bindings {
  readonly #reducers = new Map<string, BoundReducer>();
  #revision = 0;

  bind(reducer: BoundReducer): void {
    this.#revision += reducer.generation - (this.of(reducer.aggregateType)?.generation ?? 0);
    this.#reducers.set(reducer.aggregateType, reducer);
  }

  of(aggregateType: string): BoundReducer | undefined {
    return this.#reducers.get(aggregateType);
  }

  /** No type has one. */
  get isEmpty(): boolean {
    return this.#reducers.size === 0;
  }

  /** Grows with each binding of a type. */
  get revision(): number {
    return this.#revision;
  }
}
