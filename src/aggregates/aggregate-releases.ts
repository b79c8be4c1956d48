import { randomUUID } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import type { Fault } from '../core/event.js';
import type { ReleaseMode } from '../core/records.js';
import { within } from '../core/within.js';
import type { AggregateReads } from './aggregate-reads.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { Bindings } from './bindings.js';
import type { OwnedPartition, ReducerFaults } from './reducer-faults.js';
import type { AggregateRelease, AggregateReleaseQuery, AggregateState } from './aggregates.js';

export interface AggregateReleasesOptions {
  readonly reads: AggregateReads;
  readonly faults: ReducerFaults;
  readonly bindings: Bindings;
  readonly code: TenantCode;
  readonly partition: OwnedPartition;
  /** How long an answer waits for the fold, milliseconds. */
  readonly waitMs: number;
  readonly observer?:
    { released?(kind: 'reducer', mode: ReleaseMode, outcome: AggregateRelease['outcome']): void } | undefined;
}

/** Retries and skips of aggregates: each is a record of the aggregate's own partition, one after the other for one aggregate. */
export class AggregateReleases {
  readonly #options: AggregateReleasesOptions;
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor(options: AggregateReleasesOptions) {
    this.#options = options;
  }

  /** @throws StatefoldError NO_REDUCER_BOUND, NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, ARTEFACT_FAULTED, UNAVAILABLE */
  async release(query: AggregateReleaseQuery): Promise<AggregateRelease> {
    const { aggregateId } = query;
    const before = this.#underWay.get(aggregateId) ?? Promise.resolve();
    const mine = before.then(
      () => this.#release(query),
      () => this.#release(query),
    );
    this.#underWay.set(aggregateId, mine);
    try {
      return await mine;
    } finally {
      if (this.#underWay.get(aggregateId) === mine) this.#underWay.delete(aggregateId);
    }
  }

  async #release({
    aggregateType,
    aggregateId,
    mode,
    eventId,
    version,
  }: AggregateReleaseQuery): Promise<AggregateRelease> {
    const { reads, faults, bindings, code, partition, waitMs, observer } = this.#options;
    const state = await reads.state(aggregateType, aggregateId);
    const reducer = bindings.of(aggregateType);
    if (state.fault === undefined || reducer === undefined)
      throw notFaulted(`the aggregate ${aggregateId}`, { version: state.version });
    requireFault(state.fault, { eventId, version });
    if (code.isHalted(reducer.artefactId)) throw notRun();
    // A fault that this process found may not be in the log yet: the release comes after it.
    await faults.recorded(aggregateId);
    const { artefactId, className } = reducer;
    await partition.propose({
      kind: 'ReducerRelease',
      value: { aggregateId, artefactId, className, version: state.fault.version, mode, commandId: randomUUID() },
    });
    const after = await within(
      reads.state(aggregateType, aggregateId).catch(() => undefined),
      waitMs,
    );
    const released = outcomeOf(state, after);
    observer?.released?.('reducer', mode, released.outcome);
    return released;
  }
}

function outcomeOf(before: AggregateState, after: AggregateState | undefined): AggregateRelease {
  const { aggregateId, aggregateType, version } = before;
  if (after === undefined)
    return { aggregateId, aggregateType, outcome: 'pending', version, events: 0, fault: undefined };
  return {
    aggregateId,
    aggregateType,
    outcome: after.fault === undefined ? 'released' : 'faulted',
    version: after.version,
    events: after.version - version,
    fault: after.fault,
  };
}

export const notFaulted = (what: string, details: Readonly<Record<string, unknown>> = {}): StatefoldError =>
  new StatefoldError('NOT_FAULTED', `${what} is not faulted: there is nothing to retry or to skip`, {
    details,
  });

export const notRun = (): StatefoldError =>
  new StatefoldError(
    'ARTEFACT_FAULTED',
    'the code has too many strikes and is not run any more: upload it again, or revive it',
  );

/** The client may say which fault it means. @throws StatefoldError FAULT_MISMATCH */
export function requireFault(
  fault: Fault,
  expected: { readonly eventId: string | undefined; readonly version: number | undefined },
): void {
  if ((expected.eventId ?? fault.eventId) === fault.eventId && (expected.version ?? fault.version) === fault.version)
    return;
  throw new StatefoldError(
    'FAULT_MISMATCH',
    `another event stops it by now, ${fault.eventId} (version ${fault.version} of ${fault.aggregateId}): look at its fault, and send the request again for that one`,
    {
      details: { eventId: fault.eventId, aggregateId: fault.aggregateId, version: fault.version },
    },
  );
}
