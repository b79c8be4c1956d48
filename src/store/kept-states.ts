import type { Code } from './fault-tables.js';
import type { StoreSection } from './store-section.js';
import type { ReducerState } from './partition-tables.js';
import { keptBytes, type KeptRow, type StoredBytes } from './stored-bytes.js';
import { TABLES } from './tables.js';

/** A binding of a type before the one that holds. */
export interface FormerReducer extends Code {
  readonly generation: number;
}

/** A binding, and those before it. */
export interface ReducerLine extends Code {
  readonly aggregateType: string;
  /** Counts the bindings of the type: states of another code are folded again. */
  readonly generation: number;
  /** Oldest first, the last of them. */
  readonly former?: readonly FormerReducer[];
}

const sameCode = (a: Code, b: Code): boolean => a.artefactId === b.artefactId && a.className === b.className;

/** The codes whose states are kept: the last so many before the one that is bound. */
function keptCodes({ former = [], ...bound }: ReducerLine, most: number): readonly Code[] {
  const codes: Code[] = [];
  for (let i = former.length - 1; i >= 0 && codes.length < most; i--) {
    const one = former[i] as FormerReducer;
    if (!sameCode(one, bound) && !codes.some((code) => sameCode(code, one))) codes.push(one);
  }
  return codes;
}

/**
 * States of aggregates by reducers that were bound before, so that one of the same code that is bound again goes on from them:
 * what a code makes of an aggregate's first events is the same in each of its bindings. Only a saving, as all of the local store.
 */
export class KeptStates {
  readonly #section: StoreSection;
  readonly #bytes: StoredBytes;
  readonly #most: number;

  constructor({ section, bytes }: { readonly section: StoreSection; readonly bytes: StoredBytes }, most: number) {
    this.#section = section;
    this.#bytes = bytes;
    this.#most = most;
  }

  /** The state of an aggregate by an earlier binding of the same code; `stored` is that of the last binding that folded it. */
  find(aggregateId: string, stored: ReducerState | undefined, reducer: ReducerLine): ReducerState | undefined {
    if (reducer.former === undefined) return undefined;
    let found: ReducerState | undefined;
    for (const row of this.#all(aggregateId, stored)) {
      const code = reducer.former.find(({ generation }) => generation === row.generation);
      if (code !== undefined && sameCode(code, reducer) && row.version > (found?.version ?? -1)) found = row;
    }
    return found && { ...found, generation: reducer.generation };
  }

  /** A state by another binding takes the place of this one. */
  replaced(aggregateId: string, stored: ReducerState, by: ReducerLine): void {
    const rows: KeptRow[] = [];
    for (const code of keptCodes(by, this.#most)) {
      const of = this.#all(aggregateId, stored).filter(({ generation }) =>
        by.former?.some((one) => one.generation === generation && sameCode(one, code)),
      );
      const last = of.sort((a, b) => b.version - a.version)[0];
      if (last !== undefined) rows.push([last.generation, last.version, last.state, last.lastModified, last.offset]);
    }
    const before = this.#rows(aggregateId);
    if (rows.length === 0 && before.length === 0) return;
    this.#bytes.changeState(keptBytes(aggregateId, before), keptBytes(aggregateId, rows));
    this.#section.set(`${TABLES.keptStates}${aggregateId}`, rows.length === 0 ? undefined : rows);
  }

  /** From which log offset on aggregates may be behind what an earlier binding of the same code made of them; 0: there was none. */
  position(reducer: ReducerLine): number {
    const found = this.#complete(reducer.aggregateType).findLast(([generation]) =>
      reducer.former?.some((one) => one.generation === generation && sameCode(one, reducer)),
    );
    return found?.[1] ?? 0;
  }

  /** Another binding takes over from one that has folded all commits below the position. */
  superseded(by: ReducerLine, generation: number, position: number): void {
    const codes = keptCodes(by, this.#most);
    const isKept = (of: number): boolean =>
      by.former?.some((one) => one.generation === of && codes.some((code) => sameCode(code, one))) === true;
    const all = [...this.#complete(by.aggregateType), [generation, position] as const].filter(([of]) => isKept(of));
    this.#section.set(`${TABLES.keptBindings}${by.aggregateType}`, all.length === 0 ? undefined : all);
  }

  /** Bindings of the type whose states are kept. */
  generations(aggregateType: string): readonly number[] {
    return this.#complete(aggregateType).map(([generation]) => generation);
  }

  #complete(aggregateType: string): readonly (readonly [generation: number, position: number])[] {
    return (
      (this.#section.get(`${TABLES.keptBindings}${aggregateType}`) as
        readonly (readonly [number, number])[] | undefined) ?? []
    );
  }

  #rows(aggregateId: string): readonly KeptRow[] {
    return (this.#section.get(`${TABLES.keptStates}${aggregateId}`) as readonly KeptRow[] | undefined) ?? [];
  }

  #all(aggregateId: string, stored: ReducerState | undefined): ReducerState[] {
    const rows: ReducerState[] = this.#rows(aggregateId).map(([generation, version, state, lastModified, offset]) => ({
      generation,
      version,
      state,
      lastModified,
      offset,
      fault: undefined,
    }));
    return stored === undefined || stored.fault !== undefined ? rows : [...rows, stored];
  }
}
