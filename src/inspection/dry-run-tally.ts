import type { State } from '../code-host/code-host.js';
import type { Fault } from '../core/event.js';
import { sameState } from '../projections/projection-unit.js';
import type { DryRunClass, DryRunReport, ShownChange } from './dry-run.js';
import { patchText } from './json-patch.js';

/** States of the changes that one report shows. */
const SHOWN_BYTES = 4 * 1024 * 1024;

interface Outcome {
  readonly state: State;
  readonly fault: Fault | undefined;
}

/** What a dry run has come to so far. */
export class DryRunTally {
  readonly changes: ShownChange[] = [];
  readonly faults: DryRunReport['faults'][number][] = [];
  readonly #show: number;
  readonly #classes: ClassTally[] = [];
  #shownBytes = 0;
  events = 0;
  /** How far it is, where its time is over before anything could be compared. */
  reached?: string;

  constructor(show: number) {
    this.#show = show;
  }

  class(of: Pick<DryRunClass, 'className' | 'aggregateType' | 'comparedWith' | 'total'>): ClassTally {
    const one = new ClassTally(
      of,
      (change) => this.#shown(change),
      (fault) => void (this.faults.length < this.#show && this.faults.push(fault)),
    );
    this.#classes.push(one);
    return one;
  }

  get classes(): readonly DryRunClass[] {
    return this.#classes.map((one) => one.report);
  }

  #shown({ className, key, version, before, after }: Omit<ShownChange, 'patch'>): void {
    const bytes = (before?.length ?? 0) + (after?.length ?? 0);
    if (this.changes.length >= this.#show || this.#shownBytes + bytes > SHOWN_BYTES) return;
    this.#shownBytes += bytes;
    this.changes.push({ className, key, version, before, after, patch: patchText(before, after) });
  }
}

class ClassTally {
  readonly #of: Pick<DryRunClass, 'className' | 'aggregateType' | 'comparedWith' | 'total'>;
  readonly #onChange: (change: Omit<ShownChange, 'patch'>) => void;
  readonly #onFault: (fault: DryRunReport['faults'][number]) => void;
  #folded = 0;
  #changed = 0;
  #unchanged = 0;
  #added = 0;
  #removed = 0;
  #faulted = 0;
  #faultedBefore = 0;

  constructor(
    of: Pick<DryRunClass, 'className' | 'aggregateType' | 'comparedWith' | 'total'>,
    onChange: (change: Omit<ShownChange, 'patch'>) => void,
    onFault: (fault: DryRunReport['faults'][number]) => void,
  ) {
    this.#of = of;
    this.#onChange = onChange;
    this.#onFault = onFault;
  }

  get report(): DryRunClass {
    return {
      ...this.#of,
      folded: this.#folded,
      changed: this.#changed,
      unchanged: this.#unchanged,
      added: this.#added,
      removed: this.#removed,
      faulted: this.#faulted,
      faultedBefore: this.#faultedBefore,
    };
  }

  /** A key that was folded, though it is not known yet what to compare it with. */
  folded(count: number): void {
    this.#folded += count;
  }

  fault(key: string, fault: Fault): void {
    this.#faulted++;
    this.#onFault({ ...fault, key });
  }

  /** Undefined: it is not there. */
  compare(key: string, version: number | undefined, before: Outcome | undefined, after: Outcome | undefined): void {
    const [old, now] = [before?.state ?? null, after?.state ?? null];
    if (before?.fault !== undefined) this.#faultedBefore++;
    if (sameState(old, now)) {
      this.#unchanged++;
      return;
    }
    if (old === null) this.#added++;
    else if (now === null) this.#removed++;
    else this.#changed++;
    this.#onChange({ className: this.#of.className, key, version, before: old, after: now });
  }
}
