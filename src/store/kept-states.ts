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

/** What a binding takes of those before it, by their generations. */
interface Former {
  /** Those of the same code. */
  readonly own: ReadonlySet<number>;
  /** Those whose states are kept, each with the place of its code among the codes that are. */
  readonly kept: ReadonlyMap<number, number>;
}

function formerOf(line: ReducerLine, most: number): Former {
  const { former = [] } = line;
  const codes = keptCodes(line, most);
  const own = former.filter((one) => sameCode(one, line)).map(({ generation }) => generation);
  const kept = former.map((one) => [one.generation, codes.findIndex((code) => sameCode(code, one))] as const);
  return { own: new Set(own), kept: new Map(kept.filter(([, place]) => place >= 0)) };
}

/** The state as it is kept. */
const keptRow = ({ generation, version, state, lastModified, offset }: ReducerState): KeptRow => [
  generation,
  version,
  state,
  lastModified,
  offset,
];

/**
 * States of aggregates by reducers that were bound before, so that one of the same code that is bound again goes on from them:
 * what a code makes of an aggregate's first events is the same in each of its bindings. Only a saving, as all of the local store.
 */
export class KeptStates {
  readonly #section: StoreSection;
  readonly #bytes: StoredBytes;
  readonly #most: number;
  /** Asked for each aggregate of a type that is folded again. */
  readonly #former = new WeakMap<ReducerLine, Former>();

  constructor({ section, bytes }: { readonly section: StoreSection; readonly bytes: StoredBytes }, most: number) {
    this.#section = section;
    this.#bytes = bytes;
    this.#most = most;
  }

  /** The state of an aggregate by an earlier binding of the same code; `stored` is that of the last binding that folded it. */
  find(aggregateId: string, stored: ReducerState | undefined, reducer: ReducerLine): ReducerState | undefined {
    const { own } = this.#formerOf(reducer);
    if (own.size === 0) return undefined;
    let found: KeptRow | undefined;
    for (const row of this.#withStored(this.#rows(aggregateId), stored))
      if (own.has(row[0]) && row[1] > (found?.[1] ?? -1)) found = row;
    if (found === undefined) return undefined;
    const [, version, state, lastModified, offset] = found;
    return { generation: reducer.generation, version, state, lastModified, offset, fault: undefined };
  }

  /** A state by another binding takes the place of this one. */
  replaced(aggregateId: string, stored: ReducerState, by: ReducerLine): void {
    const places = this.#formerOf(by).kept;
    const before = this.#rows(aggregateId);
    const rows: KeptRow[] = [];
    for (const row of this.#withStored(before, stored)) {
      const place = places.get(row[0]);
      if (place !== undefined && row[1] > (rows[place]?.[1] ?? -1)) rows[place] = row;
    }
    const kept = Object.values(rows); // of some codes there is none
    if (kept.length === 0 && before.length === 0) return;
    this.#bytes.changeState(keptBytes(aggregateId, before), keptBytes(aggregateId, kept));
    this.#section.set(`${TABLES.keptStates}${aggregateId}`, kept.length === 0 ? undefined : kept);
  }

  /** From which log offset on aggregates may be behind what an earlier binding of the same code made of them; 0: there was none. */
  position(reducer: ReducerLine): number {
    const { own } = this.#formerOf(reducer);
    return this.#complete(reducer.aggregateType).findLast(([generation]) => own.has(generation))?.[1] ?? 0;
  }

  /** Another binding takes over from one that has folded all commits below the position. */
  superseded(by: ReducerLine, generation: number, position: number): void {
    const { kept } = this.#formerOf(by);
    const all = [...this.#complete(by.aggregateType), [generation, position] as const].filter(([of]) => kept.has(of));
    this.#section.set(`${TABLES.keptBindings}${by.aggregateType}`, all.length === 0 ? undefined : all);
  }

  /** Bindings of the type whose states are kept. */
  generations(aggregateType: string): readonly number[] {
    return this.#complete(aggregateType).map(([generation]) => generation);
  }

  #formerOf(line: ReducerLine): Former {
    let former = this.#former.get(line);
    if (former === undefined) this.#former.set(line, (former = formerOf(line, this.#most)));
    return former;
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

  /** What is kept, and the last one: not where it stands at a fault. */
  #withStored(rows: readonly KeptRow[], stored: ReducerState | undefined): readonly KeptRow[] {
    return stored === undefined || stored.fault !== undefined ? rows : [...rows, keptRow(stored)];
  }
}
