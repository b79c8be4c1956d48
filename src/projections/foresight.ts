import type { ProjectChange, Runner } from '../code-host/code-host.js';
import { firstEventId, type StoredCommit } from '../core/event.js';
import type { Input } from '../feed/inputs.js';
import type { RevisionUnit } from './projection-unit.js';

export interface Foreseen {
  readonly commits: readonly StoredCommit[];
  readonly units: readonly RevisionUnit[];
  readonly given: Promise<ProjectChange[]>;
}

/**
 * The one batch that is folded while its commits are on their way into the log: a push then waits for the log alone. What came of
 * it is taken when just these commits are the next inputs, of these projections; else it is forgotten, in the runner too.
 */
export class Foresight {
  readonly #runner: Pick<Runner, 'forget'>;
  #batch: Foreseen | undefined;

  constructor(runner: Pick<Runner, 'forget'>) {
    this.#runner = runner;
  }

  /** One that is there already is to be claimed first. */
  begin(
    commits: readonly StoredCommit[],
    units: readonly RevisionUnit[],
    project: () => Promise<ProjectChange[]>,
  ): void {
    if (this.#batch !== undefined) return;
    const given = project();
    given.catch(() => undefined); // whoever takes it is told
    this.#batch = { commits, units, given };
  }

  get pending(): boolean {
    return this.#batch !== undefined;
  }

  /** What came of the first of the inputs, where just they were foreseen; else undefined, and the runner knows nothing of it any more. */
  async claim(inputs: readonly Input[], units: readonly RevisionUnit[]): Promise<Foreseen | undefined> {
    const batch = this.#batch;
    this.#batch = undefined;
    if (batch === undefined) return undefined;
    const { commits, given } = batch;
    if (
      commits.every((commit, i) => this.isInput(commit, inputs[i])) &&
      batch.units.length === units.length &&
      batch.units.every((unit, i) => unit === units[i])
    )
      return batch;
    // It may not have come to the runner yet: what is to be forgotten is known when it has.
    await given.catch(() => undefined);
    for (const { id } of batch.units) this.#runner.forget(id);
    return undefined;
  }

  /** Ids of events are made once: where they are the same, so is all else. */
  isInput(commit: StoredCommit, input: Input | undefined): boolean {
    return (
      input?.kind === 'commit' &&
      input.commit.offset === commit.offset &&
      firstEventId(input.commit) === firstEventId(commit)
    );
  }
}
