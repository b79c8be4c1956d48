import type { Fault } from '../core/event.js';
import type { Logger } from '../core/logger.js';
import type { Control, ReducerControl } from '../core/records.js';
import type { Code, ReducerMarks } from '../store/fault-tables.js';
import type { PartitionTables } from '../store/partition-tables.js';

export interface ReducerFaultsOptions {
  readonly tables: PartitionTables;
  /** The partition that faults are written to, by its owner. */
  readonly partition: OwnedPartition;
  readonly logger: Logger;
}

/** The partition of the log that aggregates lie in. */
export interface OwnedPartition {
  /** This process is its owner, as far as it knows. */
  readonly owned: boolean;
  /** Writes a record of the tenant's order that is no commit; resolves with its offset. */
  propose(control: Control): Promise<number>;
}

/** The fault before which an aggregate's fold stops. */
export interface Stop {
  readonly fault: Fault;
  /** The fault is in the log, where every reader finds it. Else it is about to be, or is a standby's own. */
  readonly recorded: boolean;
}

interface Pending {
  readonly code: Code;
  readonly fault: Fault;
  /** Resolves when the fault is in the log, or will not be. */
  readonly written: Promise<void>;
}

/** A standby whose code was stopped tries again after this, unless the owner's record comes first. */
const STANDBY_TRIES_AGAIN_MS = 60_000;

/**
 * What the log says of faults of reducers. An event that throws does so for every reader, and needs no record. An event on which the
 * process was stopped may pass the next time: so the fault is recorded, and every reader stops before it until a release.
 */
export class ReducerFaults {
  readonly #options: ReducerFaultsOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #rowsChanged = 0;

  constructor(options: ReducerFaultsOptions) {
    this.#options = options;
  }

  /** Rows of states that what the log says has changed, ever. */
  get rowsChanged(): number {
    return this.#rowsChanged;
  }

  marks(aggregateId: string, code: Code): ReducerMarks {
    return this.#options.tables.faults.marks(aggregateId, code);
  }

  stopOf(aggregateId: string, code: Code): Stop | undefined {
    const { stop } = this.marks(aggregateId, code);
    if (stop !== undefined) return { fault: stop, recorded: true };
    const pending = this.#pending.size === 0 ? undefined : this.#pending.get(aggregateId);
    return pending !== undefined && sameCode(pending.code, code)
      ? { fault: pending.fault, recorded: false }
      : undefined;
  }

  /** The process was stopped on an event of the aggregate, which is not tried again before the fault is in the log. */
  stopped(aggregateId: string, code: Code, fault: Fault): void {
    const { artefactId, className } = code;
    const value = {
      aggregateId,
      artefactId,
      className,
      version: fault.version,
      fault: Buffer.from(JSON.stringify(fault)),
    };
    const { partition } = this.#options;
    const written = partition.owned ? partition.propose({ kind: 'ReducerFault', value }) : undefined;
    const ended = written?.then(
      () => undefined,
      (error: unknown) =>
        this.#options.logger.warn({ err: error, aggregateId }, 'a fault was not written; its event is folded again'),
    );
    const pending: Pending = { code: { artefactId, className }, fault, written: ended ?? Promise.resolve() };
    this.#pending.set(aggregateId, pending);
    const forget = (): void => void (this.#pending.get(aggregateId) === pending && this.#pending.delete(aggregateId));
    if (ended !== undefined) return void ended.then(forget);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      forget();
    }, STANDBY_TRIES_AGAIN_MS).unref();
    this.#timers.add(timer);
  }

  /** Resolves when the fault that is known here of the aggregate is in the log. */
  recorded(aggregateId: string): Promise<void> {
    return this.#pending.get(aggregateId)?.written ?? Promise.resolve();
  }

  /** Folds an accepted record of the partition, in log order. Who asks for the state has it folded on. */
  fold({ kind, value }: ReducerControl): void {
    const { tables } = this.#options;
    const { aggregateId, version } = value;
    const marks = this.marks(aggregateId, value);
    const row = tables.reducerState(aggregateId);
    if (kind === 'ReducerFault') {
      if (marks.skipped.includes(version)) return;
      const fault = JSON.parse(value.fault.toString()) as Fault;
      tables.faults.setMarks(aggregateId, value, { ...marks, stop: fault });
      // The row may be of other code, and is folded again.
      if (row !== undefined && row.version >= version) this.#setRow(aggregateId, undefined);
      else if (row?.version === version - 1 && this.#pending.get(aggregateId)?.fault.eventId === fault.eventId)
        this.#setRow(aggregateId, fault);
      return;
    }
    const passes = value.mode === 'skip' && !marks.skipped.includes(version);
    const skipped = passes ? [...marks.skipped, version].sort((a, b) => a - b) : marks.skipped;
    tables.faults.setMarks(aggregateId, value, {
      skipped,
      stop: marks.stop?.version === version ? undefined : marks.stop,
    });
    // Another process may have found the fault, and know nothing of a state that was folded and kept here, with the event in it.
    if (passes) tables.dropKeptStates(aggregateId);
    if (row?.fault?.version === version) this.#setRow(aggregateId, row.fault, true);
    else if (passes && row !== undefined && row.version >= version) this.#setRow(aggregateId, undefined);
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #setRow(aggregateId: string, fault: Fault | undefined, released = false): void {
    const { tables } = this.#options;
    const row = tables.reducerState(aggregateId);
    const type = tables.head(aggregateId)?.type;
    const stands = fault !== undefined && !released;
    if (type !== undefined) tables.faults.setAggregate(type, aggregateId, stands);
    if (row === undefined) return;
    this.#rowsChanged++;
    if (fault === undefined) tables.dropReducerState(aggregateId);
    else tables.setReducerState(aggregateId, { ...row, fault: stands ? fault : undefined });
  }
}

const sameCode = (a: Code, b: Code): boolean => a.artefactId === b.artefactId && a.className === b.className;
