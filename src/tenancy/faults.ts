import { randomUUID } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import { within } from '../core/within.js';
import { revisionUnit } from '../core/ids.js';
import { notFaulted, notRun, requireFault } from '../aggregates/aggregate-releases.js';
import { decodeCursor, encodeCursor } from '../core/cursor.js';
import type { KeyState, LiveProjection, PartitionTables } from '../store/partition-tables.js';
import type { ExpectedFault } from '../aggregates/aggregates.js';
import type { Fault } from '../core/event.js';
import { fitting, jsonBytes, LIST_BYTES } from '../core/reads.js';
import type { ReleaseMode } from '../core/records.js';
import { RELEASE_WAIT_MS } from '../aggregates/partition.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { TenantProjections } from '../projections/tenant-projections.js';
import type { TenantInput } from './tenant-input.js';

/** What of a tenant is faulted, and how it goes on. */
export interface Faults {
  /** Aggregates of a type, ascending by id. */
  ofType(aggregateType: string, query: FaultsQuery): Promise<AggregateFaultsPage>;
  countOfType(aggregateType: string): Promise<number>;
  /** Keys of a projection, ascending by (key, class). */
  ofProjection(projectionId: string, query: FaultsQuery): Promise<KeyFaultsPage>;
  countOfProjection(projectionId: string): Promise<number>;
  /** Takes on the faulted keys. @throws StatefoldError NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, FAULT_WITHOUT_KEY, ARTEFACT_FAULTED */
  releaseKeys(query: KeyReleaseQuery): Promise<readonly KeyRelease[]>;
}

export interface FaultsQuery {
  readonly limit: number;
  readonly cursor: string | undefined;
}

export interface AggregateFaultsPage {
  readonly faults: readonly Fault[];
  readonly nextCursor: string | undefined;
}

export interface KeyFaultsPage {
  readonly faults: readonly KeyFault[];
  readonly nextCursor: string | undefined;
}

export interface KeyFault {
  readonly key: string;
  readonly fault: Fault;
}

export interface KeyReleaseQuery extends ExpectedFault {
  readonly projectionId: string;
  /** Undefined: all that stand, up to a bound. */
  readonly key: string | undefined;
  /** Undefined: all classes of the projection in which the key stands. */
  readonly className: string | undefined;
  readonly mode: ReleaseMode;
}

export interface KeyRelease {
  readonly key: string;
  readonly className: string;
  /** As of an aggregate; `superseded`: by the time it came to it, another revision was live, or it stood at another event. */
  readonly outcome: 'released' | 'faulted' | 'superseded' | 'pending';
  /** Changes of the state that were told. */
  readonly changes: number;
  readonly fault: Fault | undefined;
}

export interface TenantFaultsOptions {
  readonly tables: PartitionTables;
  readonly code: TenantCode;
  readonly input: TenantInput;
  readonly projections: TenantProjections;
}

/** Of so many keys one request takes on all that stand. */
const KEYS_PER_REQUEST = 1000;

interface Held {
  readonly key: string;
  readonly classIndex: number;
  readonly row: KeyState & { readonly fault: NonNullable<KeyState['fault']> };
}

/** What of a tenant is faulted, and how it goes on. */
export class TenantFaults implements Faults {
  readonly #options: TenantFaultsOptions;

  constructor(options: TenantFaultsOptions) {
    this.#options = options;
  }

  async ofType(aggregateType: string, query: FaultsQuery): Promise<AggregateFaultsPage> {
    const after = query.cursor === undefined ? '' : decodeCursor(query.cursor, ['string'])[0];
    const pages = await Promise.all(
      (await this.#options.input.all()).map(({ reads }) => reads.faults(aggregateType, after, query.limit)),
    );
    const all = pages.flatMap(({ faults }) => faults).sort((a, b) => (a.aggregateId < b.aggregateId ? -1 : 1));
    const { shown: faults, more: left } = fitting(all, query.limit, jsonBytes);
    const more = left || pages.some((page) => page.more);
    const last = faults.at(-1);
    return { faults, nextCursor: more && last !== undefined ? encodeCursor([last.aggregateId]) : undefined };
  }

  async countOfType(aggregateType: string): Promise<number> {
    return (await this.#options.input.all()).reduce((sum, { reads }) => sum + reads.faultCount(aggregateType), 0);
  }

  async ofProjection(projectionId: string, query: FaultsQuery): Promise<KeyFaultsPage> {
    await Promise.resolve();
    this.#options.projections.mustServe();
    const cursor = query.cursor === undefined ? undefined : decodeCursor(query.cursor, ['string', 'number']);
    const faults: KeyFault[] = [];
    let last: readonly [string, number] = ['', 0];
    let bytes = 0;
    for (const { key, classIndex, row } of this.#held(projectionId, cursor)) {
      if (faults.length === query.limit || bytes >= LIST_BYTES) return { faults, nextCursor: encodeCursor(last) };
      last = [key, classIndex];
      faults.push({ key, fault: row.fault });
      bytes += jsonBytes(row.fault);
    }
    return { faults, nextCursor: undefined };
  }

  async countOfProjection(projectionId: string): Promise<number> {
    await Promise.resolve();
    this.#options.projections.mustServe();
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    return live === undefined ? 0 : tables.faults.keyCount(projectionId, live.revision);
  }

  async releaseKeys(query: KeyReleaseQuery): Promise<readonly KeyRelease[]> {
    await Promise.resolve();
    const { tables, code, projections } = this.#options;
    projections.mustServe();
    const { projectionId, key, className } = query;
    const live = tables.liveProjection(projectionId);
    const held: Held[] = [];
    if (live === undefined) throw notFaulted(`the projection ${projectionId}`);
    if (key === undefined) {
      for (const one of this.#held(projectionId)) if (held.push(one) === KEYS_PER_REQUEST) break;
    } else held.push(...this.#classes(live, projectionId, key));
    const meant = held.filter(({ classIndex }) => className === undefined || live.classNames[classIndex] === className);
    if (meant.length === 0)
      throw key === undefined
        ? notFaulted(`the projection ${projectionId}`)
        : notFaulted(`the key '${key}' of projection ${projectionId}`);
    for (const { row } of meant) requireFault(row.fault, query);
    if (code.isHalted(revisionUnit(projectionId, live.revision))) throw notRun();
    const able = meant.filter((one) => one.key !== '' || query.mode === 'skip');
    if (able.length === 0)
      throw new StatefoldError(
        'FAULT_WITHOUT_KEY',
        'the event stopped the code before it gave a key, and the keys that it may have are further on by now: rebuild the projection, or skip the event',
      );
    // Written at once, so that they stand side by side in the order.
    return Promise.all(able.map((one) => this.#release(query, live, one)));
  }

  /** All of them are known. */
  #classes(live: LiveProjection, projectionId: string, key: string): Held[] {
    const { tables } = this.#options;
    const rows = live.classNames.map((_, classIndex) => ({
      key,
      classIndex,
      row: tables.keyState(projectionId, live.revision, key, classIndex),
    }));
    if (rows.every(({ row }) => row === undefined))
      throw new StatefoldError('NOT_FOUND', `projection ${projectionId} has no state of the key ${key}`);
    return rows.flatMap(({ classIndex, row }) =>
      row?.fault === undefined ? [] : [{ key, classIndex, row: { ...row, fault: row.fault } }],
    );
  }

  *#held(projectionId: string, cursor?: readonly [string, number]): Generator<Held> {
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    if (live === undefined) return;
    for (const [key, classIndex] of tables.faults.keys(projectionId, live.revision, cursor)) {
      const row = tables.keyState(projectionId, live.revision, key, classIndex);
      if (row?.fault !== undefined) yield { key, classIndex, row: { ...row, fault: row.fault } };
    }
  }

  async #release(
    { projectionId, mode }: KeyReleaseQuery,
    live: LiveProjection,
    { key, classIndex, row }: Held,
  ): Promise<KeyRelease> {
    const { input, projections } = this.#options;
    const commandId = randomUUID();
    const className = live.classNames[classIndex] ?? '';
    const told = projections.releases.outcomeOf(commandId);
    try {
      await input.first.propose({
        kind: 'ProjectionRelease',
        value: { projectionId, revision: live.revision, className, key, eventId: row.fault.eventId, mode, commandId },
      });
      const outcome = await within(told.outcome, RELEASE_WAIT_MS);
      return { key, className, changes: 0, fault: undefined, ...(outcome ?? { outcome: 'pending' }) };
    } finally {
      told.forget();
    }
  }
}
