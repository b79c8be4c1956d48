import { exactText } from '../core/exact-json.js';
import type { CaseOutcome, Failure } from '../fixtures/fixture-run.js';
import type { Fixture } from '../fixtures/fixtures.js';

/** Characters of the failures that one run tells: as many are in memory, and in its answer. */
const MAX_TOLD = 1024 * 1024;

/** A state that there is no room for is named by its key. */
export type ToldFailure = Failure | { readonly kind: 'state'; readonly key: string; readonly shown: false };

export interface ToldCase {
  readonly file: string;
  readonly name: string;
  readonly status: CaseOutcome['status'];
  readonly milliseconds: number;
  /** Of a case that failed: in their order, those that there was room for. */
  readonly failures?: readonly ToldFailure[];
  /** Failures for which there was no room. */
  readonly omitted?: number;
}

/** What a run of fixtures has come to so far: of states and messages a bounded part. */
export class FixturesTally {
  readonly cases: ToldCase[] = [];
  readonly #total: number;
  #left: number;

  /** @param total cases that are to be run */
  constructor(total: number, maxTold = MAX_TOLD) {
    this.#total = total;
    this.#left = maxTold;
  }

  get reached(): string {
    return `after ${this.cases.length} of ${this.#total} cases`;
  }

  add({ file, name }: Pick<Fixture, 'file' | 'name'>, outcome: CaseOutcome): void {
    const { status, milliseconds } = outcome;
    if (outcome.status === 'passed') return void this.cases.push({ file, name, status, milliseconds });
    const failures = outcome.failures.map((failure) => this.#told(failure)).filter((one) => one !== undefined);
    const omitted = outcome.failures.length - failures.length;
    this.cases.push({ file, name, status, milliseconds, failures, ...(omitted > 0 && { omitted }) });
  }

  /** Undefined: there is no room for it. */
  #told(failure: Failure): ToldFailure | undefined {
    if (this.#takes(failure)) return failure;
    if (failure.kind !== 'state') return undefined;
    const named = { kind: 'state', key: failure.key, shown: false } as const;
    return this.#takes(named) ? named : undefined;
  }

  #takes(failure: ToldFailure): boolean {
    const { length } = exactText(failure);
    if (length > this.#left) return false;
    this.#left -= length;
    return true;
  }
}
