import { exactText } from '../core/exact-json.js';
import { faultForClients } from '../core/event.js';
import type { CaseOutcome, Failure } from '../fixtures/fixture-run.js';
import type { Fixture } from '../fixtures/fixtures.js';

/** Characters of the failures that one run tells: as many are in memory, and in its answer. */
const MAX_TOLD = 1024 * 1024;

export interface ToldCase {
  readonly file: string;
  readonly name: string;
  readonly status: CaseOutcome['status'];
  readonly milliseconds: number;
  /**
   * Of a case that failed, in their order, those that there was room for: the JSON of each, with numbers as the code or the fixture
   * has them. Of a state that there was no room for its key, and `shown: false`.
   */
  readonly failures?: readonly string[];
  /** Failures for which there was no room. */
  readonly omitted?: number;
}

/** What a run of fixtures has come to so far: of states and messages a bounded part, as text. */
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
  #told(failure: Failure): string | undefined {
    const whole = this.#takes(exactText(forClients(failure)));
    if (whole !== undefined || failure.kind !== 'state') return whole;
    return this.#takes(JSON.stringify({ kind: 'state', key: failure.key, shown: false }));
  }

  #takes(text: string): string | undefined {
    if (text.length > this.#left) return undefined;
    this.#left -= text.length;
    return text;
  }
}

const forClients = (failure: Failure): object =>
  failure.kind === 'fault' && failure.fault !== undefined
    ? { ...failure, fault: faultForClients(failure.fault) }
    : failure;
