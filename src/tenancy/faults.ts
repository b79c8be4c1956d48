import { randomUUID } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import { within } from '../core/within.js';
import { revisionUnit } from '../core/ids.js';
import { notFaulted, notRun, requireFault } from '../aggregates/aggregate-releases.js';
import { decodeCursor, encodeCursor } from '../core/cursor.js';
import type { LiveProjection, PartitionTables } from '../store/partition-tables.js';
import type { ExpectedFault } from '../aggregates/aggregates.js';
import type { StorageRoom } from '../aggregates/events-writer.js';
import type { Fault } from '../core/event.js';
import { fitting, jsonBytes, LIST_BYTES, PAGE_BYTES, STATES_READ_BYTES } from '../core/reads.js';
import { overSlices } from '../core/slices.js';
import { costOfListed, LISTED_AT_ONCE, onTurns, type Turn } from '../core/turns.js';
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
  /** @throws NotOwnerError where this process does not serve it */
  countOfProjection(projectionId: string): number;
  /** Takes on the faulted keys. @throws StatefoldError NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, FAULT_WITHOUT_KEY, ARTEFACT_FAULTED, RATE_LIMITED */
  releaseKeys(query: KeyReleaseQuery): Promise<readonly KeyRelease[]>;
}

export interface FaultsQuery {
  readonly limit: number;
  readonly cursor: string | undefined;
  /** Awaited before each part that is read; all of them at once without it. */
  readonly turn?: Turn;
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
  /** As of `FaultsQuery`; awaited before each part that is written, too. */
  readonly turn?: Turn;
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
  /** Asked before all keys of a projection are retried, which may go on for ever; without it nothing is bounded. */
  readonly storage?: Pick<StorageRoom, 'refusal'> | undefined;
}

/** Of so many keys one request takes on all that stand. */
const KEYS_PER_REQUEST = 1000;
/** Of so many are the requests that are under way beside each other: each key waits in memory until the log has its record. */
const KEYS_UNDER_WAY = 2 * KEYS_PER_REQUEST;
const RETRY_SECONDS = 5;

const atOnce: Turn = () => Promise.resolve();

/** Key and class. */
type Place = readonly [string, number];

interface Held {
  readonly key: string;
  readonly classIndex: number;
  readonly fault: Fault;
  /** Bytes of the state that was read beside it, and is not kept. */
  readonly read: number;
}

/** What of a tenant is faulted, and how it goes on. */
export class TenantFaults implements Faults {
  readonly #options: TenantFaultsOptions;
  /** Keys that requests take on now, at most. */
  #underWay = 0;

  constructor(options: TenantFaultsOptions) {
    this.#options = options;
  }

  async ofType(aggregateType: string, { limit, cursor, turn = atOnce }: FaultsQuery): Promise<AggregateFaultsPage> {
    const after = cursor === undefined ? '' : decodeCursor(cursor, ['string'])[0];
    const pages = await Promise.all(
      (await this.#options.input.all()).map(({ reads }) => reads.faults({ aggregateType, after, limit, turn })),
    );
    // Behind the first of these a partition may have more.
    const [end] = pages.flatMap(({ upTo }) => upTo ?? []).sort();
    const all = pages
      .flatMap((page) => page.faults)
      .filter(({ aggregateId }) => end === undefined || aggregateId <= end)
      .sort((a, b) => (a.aggregateId < b.aggregateId ? -1 : 1));
    const { shown: faults, more } = fitting(all, limit, jsonBytes);
    const last = more ? faults.at(-1)?.aggregateId : end;
    return { faults, nextCursor: last === undefined ? undefined : encodeCursor([last]) };
  }

  async countOfType(aggregateType: string): Promise<number> {
    return (await this.#options.input.all()).reduce((sum, { reads }) => sum + reads.faultCount(aggregateType), 0);
  }

  async ofProjection(projectionId: string, { limit, cursor, turn = atOnce }: FaultsQuery): Promise<KeyFaultsPage> {
    const from = cursor === undefined ? undefined : decodeCursor(cursor, ['string', 'number']);
    const faults: KeyFault[] = [];
    let last: readonly [string, number] = ['', 0];
    let bytes = 0;
    let bytesRead = 0;
    // One more than the page may have says whether another one follows.
    for await (const part of this.#inParts(projectionId, { from, most: limit + 1, turn }))
      for (const { key, classIndex, fault, read } of part) {
        if (faults.length === limit || bytes >= LIST_BYTES || bytesRead >= PAGE_BYTES)
          return { faults, nextCursor: encodeCursor(last) };
        last = [key, classIndex];
        faults.push({ key, fault });
        bytes += jsonBytes(fault);
        bytesRead += read;
      }
    return { faults, nextCursor: undefined };
  }

  countOfProjection(projectionId: string): number {
    this.#options.projections.mustServe();
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    return live === undefined ? 0 : tables.faults.keyCount(projectionId, live.revision);
  }

  async releaseKeys(query: KeyReleaseQuery): Promise<readonly KeyRelease[]> {
    await Promise.resolve();
    const { tables, projections, storage } = this.#options;
    projections.mustServe();
    const refusal = query.key === undefined && query.mode === 'retry' ? storage?.refusal : undefined;
    if (refusal !== undefined) throw refusal;
    const live = tables.liveProjection(query.projectionId);
    if (live === undefined) throw notFaulted(`the projection ${query.projectionId}`);
    const most = query.key === undefined ? KEYS_PER_REQUEST : live.classNames.length;
    if (this.#underWay > 0 && this.#underWay + most > KEYS_UNDER_WAY)
      throw new StatefoldError(
        'RATE_LIMITED',
        'retries and skips of as many keys as the tenant may have at once are under way; send the request again when one has ended',
        { retryAfterSeconds: RETRY_SECONDS },
      );
    this.#underWay += most;
    try {
      return await this.#releaseKeys(query, live);
    } finally {
      this.#underWay -= most;
    }
  }

  async #releaseKeys(query: KeyReleaseQuery, live: LiveProjection): Promise<readonly KeyRelease[]> {
    const { code } = this.#options;
    const { projectionId, key, className } = query;
    const turn = query.turn ?? atOnce;
    const held = await (key === undefined
      ? this.#standing(projectionId, turn)
      : this.#classes(live, projectionId, key));
    const meant = held.filter(({ classIndex }) => className === undefined || live.classNames[classIndex] === className);
    if (meant.length === 0)
      throw key === undefined
        ? notFaulted(`the projection ${projectionId}`)
        : notFaulted(`the key '${key}' of projection ${projectionId}`);
    for (const { fault } of meant) requireFault(fault, query);
    if (code.isHalted(revisionUnit(projectionId, live.revision))) throw notRun();
    const able = meant.filter((one) => one.key !== '' || query.mode === 'skip');
    if (able.length === 0)
      throw new StatefoldError(
        'FAULT_WITHOUT_KEY',
        'the event stopped the code before it gave a key, and the keys that it may have are further on by now: rebuild the projection, or skip the event',
      );
    const releases: Promise<KeyRelease>[] = [];
    // What was begun is done whole, also where the client leaves meanwhile.
    const paced: Turn = (cost) => turn(cost).catch(() => undefined);
    for await (const part of onTurns(able, paced))
      for (const one of part) {
        const release = this.#release(query, live, one);
        // It is told below, by all of them together.
        release.catch(() => undefined);
        releases.push(release);
      }
    return Promise.all(releases);
  }

  /** The first of those that stand. */
  async #standing(projectionId: string, turn: Turn): Promise<readonly Held[]> {
    const held: Held[] = [];
    for await (const part of this.#inParts(projectionId, { from: undefined, most: KEYS_PER_REQUEST, turn }))
      held.push(...part);
    return held;
  }

  /** Those that stand, `most` at most: some on a turn, since their states are read with them. */
  async *#inParts(
    projectionId: string,
    { from, most, turn }: { readonly from: Place | undefined; readonly most: number; readonly turn: Turn },
  ): AsyncGenerator<readonly Held[]> {
    let after = from;
    let revision: number | undefined;
    for (let left = most, isEnd = false; left > 0 && !isEnd;) {
      const size = Math.min(left, LISTED_AT_ONCE);
      await turn(costOfListed(size));
      this.#options.projections.mustServe();
      const live = this.#options.tables.liveProjection(projectionId)?.revision;
      revision ??= live;
      if (live !== revision)
        throw new StatefoldError(
          'UNAVAILABLE',
          'another revision of the projection went live meanwhile; send the request again',
          { retryAfterSeconds: 1 },
        );
      const part: Held[] = [];
      isEnd = this.#part(projectionId, after, size, part);
      left -= part.length;
      const last = part.at(-1);
      after = last && [last.key, last.classIndex];
      yield part;
    }
  }

  /** Whether it has come to the end. */
  #part(projectionId: string, after: Place | undefined, size: number, part: Held[]): boolean {
    let read = 0;
    for (const one of this.#held(projectionId, after)) {
      part.push(one);
      read += one.read;
      if (part.length === size || read >= STATES_READ_BYTES) return false;
    }
    return true;
  }

  /** Those of one key. */
  async #classes(live: LiveProjection, projectionId: string, key: string): Promise<readonly Held[]> {
    const { tables } = this.#options;
    const held: Held[] = [];
    let known = 0;
    await overSlices('pages', [...live.classNames.keys()], (classIndex) => {
      const row = tables.keyState(projectionId, live.revision, key, classIndex);
      if (row !== undefined) known++;
      if (row?.fault !== undefined) held.push({ key, classIndex, fault: row.fault, read: 0 });
    });
    if (known === 0) throw new StatefoldError('NOT_FOUND', `projection ${projectionId} has no state of the key ${key}`);
    return held;
  }

  *#held(projectionId: string, cursor?: Place): Generator<Held> {
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    if (live === undefined) return;
    for (const [key, classIndex] of tables.faults.keys(projectionId, live.revision, cursor)) {
      const row = tables.keyState(projectionId, live.revision, key, classIndex);
      if (row?.fault !== undefined) yield { key, classIndex, fault: row.fault, read: row.state?.length ?? 0 };
    }
  }

  async #release(
    { projectionId, mode }: KeyReleaseQuery,
    live: LiveProjection,
    { key, classIndex, fault }: Pick<Held, 'key' | 'classIndex' | 'fault'>,
  ): Promise<KeyRelease> {
    const { input, projections } = this.#options;
    const commandId = randomUUID();
    const className = live.classNames[classIndex] ?? '';
    const told = projections.releases.outcomeOf(commandId);
    try {
      await input.first.propose({
        kind: 'ProjectionRelease',
        value: { projectionId, revision: live.revision, className, key, eventId: fault.eventId, mode, commandId },
      });
      const outcome = await within(told.outcome, RELEASE_WAIT_MS);
      return { key, className, changes: 0, fault: undefined, ...(outcome ?? { outcome: 'pending' }) };
    } finally {
      told.forget();
    }
  }
}
