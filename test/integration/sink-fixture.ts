import { randomUUID } from 'node:crypto';
import type { Change } from '../../src/core/change.js';
import type { AggregateCommit } from '../../src/core/event.js';
import type { FollowedFeed, Page } from '../../src/feed/feed.js';
import { commitsOf, type Input } from '../../src/feed/inputs.js';
import type { SinkProjectionState, SinkProjectionStates, SinkSource } from '../../src/read-store/sink-source.js';

class ListedChanges implements Pick<FollowedFeed<Change>, 'head' | 'read' | 'recent' | 'start'> {
  constructor(readonly log: ListedLog) {}

  get head(): number {
    return this.log.changesEnd;
  }

  read(from: number): Promise<Page<Change>> {
    this.log.reads.changes.push(from);
    return Promise.resolve(this.#from(from));
  }

  recent(from: number): Page<Change> | undefined {
    return from < this.head && from < this.log.trimmedTo ? undefined : this.#from(from);
  }

  start(): Promise<number> {
    return Promise.resolve(this.log.trimmedTo);
  }

  #from(from: number): Page<Change> {
    const { written, trimmedTo } = this.log;
    return {
      items: written.filter(({ sequence }) => sequence >= Math.max(from, trimmedTo)),
      end: Math.max(from, written.length === 0 ? 0 : this.head),
    };
  }
}

/** A tenant's accepted log as a list: what the sink reads in these tests. States are the count of the aggregate's events. */
export class ListedLog implements SinkSource {
  readonly tenantId: string;
  readonly commits: AggregateCommit[] = [];
  /** Changes. */
  readonly written: Change[] = [];
  readonly reads = {
    commits: [] as number[],
    changes: [] as number[],
    states: [] as number[],
    projectionStates: [] as number[],
  };
  /** Of each state, about. */
  stateBytes = 0;
  /** Rejects, or never answers, the reads of states. */
  statesFault: 'reject' | 'hang' | undefined;
  /** The revision of the bindings: states hold it, as if each binding brought other code. */
  revision = 0;
  /** Changes before it are dropped, as by retention. */
  trimmedTo = 0;
  /** Where a catch-up stands. */
  statesTo = Infinity;
  readonly #versions = new Map<string, number>();
  #offset = 0;
  readonly #listeners = new Set<() => void>();

  constructor(
    tenantId: string,
    readonly incarnation?: string,
  ) {
    this.tenantId = tenantId;
  }

  get end(): number {
    return this.#offset;
  }

  get changesEnd(): number {
    return (this.written.at(-1)?.sequence ?? 0) + 1;
  }

  append(aggregateId: string, payloads: readonly string[], metadata?: string): void {
    const baseVersion = this.#versions.get(aggregateId) ?? 0;
    // Offsets have gaps: other records of the log lie between.
    this.#offset += 2;
    this.commits.push({
      offset: this.#offset - 1,
      commandId: randomUUID(),
      aggregateId,
      aggregateType: 'account',
      baseVersion,
      timestamp: 1_700_000_000_000 + this.#offset,
      correlationId: undefined,
      causationId: undefined,
      metadata: metadata === undefined ? undefined : Buffer.from(metadata),
      events: payloads.map((data) => ({ eventId: randomUUID(), eventType: 'changed', data: Buffer.from(data) })),
    });
    this.#versions.set(aggregateId, baseVersion + payloads.length);
  }

  change(key: string, state: string, fault = false): void {
    const sequence = this.changesEnd;
    this.written.push({
      sequence,
      projectionId: 'p',
      revision: 1,
      className: 'P',
      key,
      eventId: randomUUID(),
      aggregateId: 'a',
      aggregateType: 'account',
      version: sequence,
      state: Buffer.from(state),
      timestamp: 1_700_000_000_000 + sequence,
      cause: undefined,
      fault: fault
        ? {
            eventId: 'e',
            aggregateId: 'a',
            version: sequence,
            className: 'P',
            message: 'no',
            file: null,
            line: null,
            at: '2026-01-01T00:00:00.000Z',
          }
        : undefined,
    });
  }

  announce(): void {
    for (const listener of this.#listeners) listener();
  }

  readonly inputs: SinkSource['inputs'] = {
    read: (from, { bytes: maxBytes = Infinity }) => {
      this.reads.commits.push(from);
      const items: Input[] = [];
      let bytes = 0;
      for (const commit of this.commits) {
        if (commit.offset < from) continue;
        if (bytes >= maxBytes) break;
        items.push({ kind: 'commit', commit });
        bytes += commit.events.reduce((sum, event) => sum + event.data.length + 64, 64);
      }
      const [last] = commitsOf(items).slice(-1);
      const end = last === undefined || last === this.commits.at(-1) ? Math.max(from, this.#offset) : last.offset + 1;
      return Promise.resolve({ items, end });
    },
  };

  readonly changes = new ListedChanges(this);

  /** Those that the changes came to, by key; `from` is a key. */
  projectionStates(from: string | undefined, bytes: number): Promise<SinkProjectionStates> {
    const keys = new Map<string, SinkProjectionState>();
    for (const { fault, projectionId, className, key, state, sequence, timestamp } of this.written)
      if (fault === undefined)
        keys.set(key, { projectionId, className, key, state, sequence, lastModified: timestamp });
    const left = [...keys.values()].sort((a, b) => (a.key < b.key ? -1 : 1)).filter(({ key }) => key >= (from ?? ''));
    let taken = 0;
    for (let size = 0; taken < left.length && size < bytes; taken++) size += 256 + (left[taken]?.state?.length ?? 0);
    this.reads.projectionStates.push(taken);
    return Promise.resolve({ states: left.slice(0, taken), next: left[taken]?.key });
  }

  projectionExists(): boolean {
    return true;
  }

  aggregateStates(
    aggregateIds: readonly string[],
    end: number,
    lastOnly = false,
  ): ReturnType<SinkSource['aggregateStates']> {
    if (this.statesFault === 'hang') return new Promise(() => undefined);
    if (this.statesFault === 'reject') return Promise.reject(new Error('the fold is away'));
    this.reads.states.push(aggregateIds.length);
    const filling = this.stateBytes === 0 ? '' : `,"filling":"${'x'.repeat(this.stateBytes)}"`;
    const later = new Set(
      lastOnly ? this.commits.filter(({ offset }) => offset >= end).map(({ aggregateId }) => aggregateId) : [],
    );
    return Promise.resolve(
      aggregateIds
        .filter((aggregateId) => !later.has(aggregateId))
        .map((aggregateId) => {
          const version = this.#versions.get(aggregateId) ?? 0;
          return {
            aggregateId,
            aggregateType: 'account',
            version,
            state: Buffer.from(`{"count":${version},"revision":${this.revision}${filling}}`),
            lastModified: 1,
            logOffset: this.revision * 2 ** 40 + end,
          };
        }),
    );
  }

  statesEnd(): number {
    return this.statesTo;
  }

  statesRevision(): number {
    return this.revision;
  }

  commitsEnd(): number {
    return this.end;
  }

  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
