import { createHash } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type {
  Catalog,
  CatalogChange,
  EndpointEntity,
  Entities,
  EntityKind,
  Entry,
  ProjectionEntity,
} from '../../src/catalog/catalog.js';
import type { Change } from '../../src/core/change.js';
import { StatefoldError } from '../../src/core/errors.js';
import type { Attempt, AttemptStore } from '../../src/webhooks/attempt-store.js';
import type { CursorStore, EndpointCheckpoint, Saved } from '../../src/webhooks/cursor-store.js';
import type { EventFeed } from '../../src/feed/events.js';
import type { FollowedFeed, Page } from '../../src/feed/feed.js';
import { Signal } from '../../src/feed/signal.js';
import type { Timers } from '../../src/feed/timers.js';
import type { TenantChanges } from '../../src/feed/changes.js';
import type { Tenant, Tenants } from '../../src/tenancy/tenant.js';

/** What the notifier stands on, in memory: feeds of generated changes, a catalog, time that tests move. */

export const change = (sequence: number, fields: Partial<Change> = {}): Change => ({
  sequence,
  projectionId: 'p1',
  revision: 1,
  className: 'Shop.Totals',
  key: `k${sequence % 3}`,
  eventId: `e${sequence}`,
  aggregateId: `order-${sequence}`,
  aggregateType: 'order',
  version: 1,
  state: Buffer.from(`{"n":${sequence},"big":90071992547409931,"f":1.0}`),
  timestamp: 1_700_000_000_000 + sequence,
  cause: undefined,
  fault: undefined,
  ...fields,
});

/** A feed whose tail holds the last `tailSize` changes; older ones are read from the "log", on a later turn. */
export class ListFeed implements TenantChanges {
  readonly changes: Change[] = [];
  #head = 0;
  trimmed = 0;
  reads = 0;
  unavailable = false;
  readonly #signals = new Map<string, Signal>();

  /** `deferred`: listeners are told in a microtask, after the head and the tail have moved. */
  constructor(
    private readonly tailSize = Number.POSITIVE_INFINITY,
    private readonly deferred = false,
  ) {}

  accept(...changes: Change[]): void {
    this.changes.push(...changes);
    this.#head = changes.at(-1)?.sequence ?? this.#head;
    if (this.deferred) queueMicrotask(() => this.#tell(changes));
    else this.#tell(changes);
  }

  #tell(changes: readonly Change[]): void {
    const first = new Map<string, number>();
    for (const { projectionId, sequence } of changes) if (!first.has(projectionId)) first.set(projectionId, sequence);
    for (const [projectionId, sequence] of first) this.#signals.get(projectionId)?.tell(sequence);
  }

  lastSequence(): number {
    return this.#head;
  }

  /** How many are told of changes. */
  get listeners(): number {
    return [...this.#signals.values()].reduce((sum, { listeners }) => sum + listeners, 0);
  }

  of(projectionId: string): FollowedFeed<Change> {
    const listed = (): number => this.#head + 1;
    return {
      get head() {
        return listed();
      },
      positionOf: ({ sequence }) => sequence,
      start: () => Promise.resolve(this.trimmed + 1),
      latest: () => Promise.resolve(this.#head),
      caughtUp: () => this.caughtUp(),
      subscribe: (advanced) => {
        const signal = this.#signals.get(projectionId) ?? new Signal();
        this.#signals.set(projectionId, signal);
        return signal.subscribe(advanced);
      },
      recent: (from, { items = Infinity }) => {
        const first = this.changes.length - this.tailSize;
        if (first > 0 && from < (this.changes[first] as Change).sequence) return undefined;
        return this.#page(projectionId, from, items, this.#head);
      },
      read: async (from, { items = Infinity }) => {
        this.reads++;
        const head = this.#head;
        await new Promise((resolve) => setImmediate(resolve));
        if (this.unavailable) throw new StatefoldError('UNAVAILABLE', 'the tenant is being restored');
        if (from <= this.trimmed && this.trimmed > 0)
          throw new StatefoldError('CURSOR_EXPIRED', 'trimmed', { details: { oldestSequence: this.trimmed + 1 } });
        const page = this.#page(projectionId, from, items, head);
        // What a log answers may be older than the answer.
        await new Promise((resolve) => setImmediate(resolve));
        return page;
      },
    };
  }

  #page(projectionId: string, from: number, most: number, head: number): Page<Change> {
    const items = this.#past(projectionId, from - 1, most);
    const behind = (items.at(-1)?.sequence ?? 0) + 1;
    return { items, end: items.length === most ? behind : Math.max(behind, from, head + 1) };
  }

  caughtUp(): Promise<void> {
    return Promise.resolve();
  }

  #past(projectionId: string, after: number, limit: number): Change[] {
    const page: Change[] = [];
    let low = 0;
    for (let high = this.changes.length; low < high;) {
      const middle = (low + high) >>> 1;
      if ((this.changes[middle] as Change).sequence <= Math.max(after, this.trimmed)) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < this.changes.length && page.length < limit; i++) {
      const each = this.changes[i] as Change;
      if (each.projectionId === projectionId && each.fault === undefined) page.push(each);
    }
    return page;
  }
}

export class ListTenants implements Tenants {
  readonly #active = new Map<string, Tenant>();
  readonly #listeners: ((tenant: Tenant) => void)[] = [];

  activate(tenantId: string, feed: TenantChanges, events?: EventFeed): void {
    const tenant = { tenantId, changes: feed, events } as Tenant;
    this.#active.set(tenantId, tenant);
    for (const listener of this.#listeners) listener(tenant);
  }

  passivate(tenantId: string): void {
    this.#active.delete(tenantId);
  }

  active(tenantId: string): Tenant | undefined {
    return this.#active.get(tenantId);
  }

  open(tenantId: string): Promise<Tenant> {
    const tenant = this.#active.get(tenantId);
    return tenant === undefined
      ? Promise.reject(new StatefoldError('UNAVAILABLE', 'not active'))
      : Promise.resolve(tenant);
  }

  keep(): () => void {
    return () => undefined;
  }

  onActivated(listener: (tenant: Tenant) => void): void {
    this.#listeners.push(listener);
  }
}

export class MapCatalog implements Catalog {
  readonly #entries = new Map<string, Entry<EntityKind>>();
  readonly #listeners: ((change: CatalogChange) => void)[] = [];

  set<K extends EntityKind>(kind: K, id: string, value: Entities[K] | undefined): void {
    const at = `${kind}/${id}`;
    const previous = this.#entries.get(at);
    if (value === undefined) this.#entries.delete(at);
    else this.#entries.set(at, { id, version: (previous?.version ?? 0) + 1, value });
    const change = { kind, id, value, previous: previous?.value } as CatalogChange;
    for (const listener of this.#listeners) listener(change);
  }

  get<K extends EntityKind>(kind: K, id: string): Entry<K> | undefined {
    return this.#entries.get(`${kind}/${id}`) as Entry<K> | undefined;
  }

  versionOf(kind: EntityKind, id: string): number {
    return this.get(kind, id)?.version ?? 0;
  }

  list<K extends EntityKind>(kind: K, tenantId?: string): readonly Entry<K>[] {
    return [...this.#entries].flatMap(([at, entry]) =>
      at.startsWith(`${kind}/`) && (tenantId === undefined || entry.value.tenantId === tenantId)
        ? [entry as Entry<K>]
        : [],
    );
  }

  past<K extends EntityKind>(kind: K, tenantId: string | undefined, after: string): readonly Entry<K>[] {
    return this.list(kind, tenantId).filter(({ id }) => id > after);
  }

  count(kind: EntityKind, tenantId: string | undefined): number {
    return this.list(kind, tenantId).length;
  }

  bytesOf(tenantId: string): number {
    const values = [...this.#entries.values()].map(({ value }) => value);
    return values.reduce((sum, one) => sum + (one.tenantId === tenantId ? JSON.stringify(one).length : 0), 0);
  }

  put<K extends EntityKind>(kind: K, id: string, expected: number, value: Entities[K]): Promise<void> {
    if ((this.get(kind, id)?.version ?? 0) !== expected)
      return Promise.reject(new StatefoldError('ALREADY_EXISTS', `${kind} ${id} is not at version ${expected}`));
    this.set(kind, id, value);
    return Promise.resolve();
  }

  delete(kind: EntityKind, id: string): Promise<void> {
    return this.remove(kind, id);
  }

  remove(kind: EntityKind, id: string): Promise<void> {
    if (this.get(kind, id) !== undefined) this.set(kind, id, undefined);
    return Promise.resolve();
  }

  upsert<K extends EntityKind>(
    kind: K,
    id: string,
    make: (had: Entities[K] | undefined) => Entities[K] | undefined,
  ): Promise<Entry<K> | undefined> {
    const value = make(this.get(kind, id)?.value);
    if (value !== undefined) this.set(kind, id, value);
    return Promise.resolve(this.get(kind, id));
  }

  async update<K extends EntityKind>(
    kind: K,
    id: string,
    make: (value: Entities[K]) => Entities[K] | undefined,
  ): Promise<Entities[K]> {
    const entry = await this.upsert(kind, id, (had) => had && make(had));
    if (entry === undefined) throw new StatefoldError('NOT_FOUND', id);
    return entry.value;
  }

  onChange(listener: (change: CatalogChange) => void): void {
    this.#listeners.push(listener);
  }

  caughtUp(): Promise<void> {
    return Promise.resolve();
  }

  get artefacts(): never {
    throw new Error('this catalog has no artefacts');
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  keyByHash(hash: string): Entities['key'] | undefined {
    return this.list('key').find(({ value }) => value.hash === hash)?.value;
  }

  /** A tenant with one API key, `key-of-<tenantId>`. */
  addTenant(tenantId: string, secrets: Entities['tenant']['webhookSecrets'] = []): void {
    const createdAt = '2026-01-01T00:00:00.000Z';
    this.set('tenant', tenantId, { tenantId, name: tenantId, createdAt, partitions: 1, webhookSecrets: secrets });
    const hash = createHash('sha256').update(`key-of-${tenantId}`).digest('hex');
    this.set('key', `id-${tenantId}`, { keyId: `id-${tenantId}`, tenantId, hash, prefix: 'key', createdAt });
  }

  /** The first endpoint of the projection. */
  addEndpoint(tenantId: string, projectionId: string, fields: Partial<EndpointEntity> = {}): void {
    this.set('endpoint', projectionId, {
      ...{ tenantId, endpointId: projectionId, source: { projectionId } },
      ...{ isolated: false, secrets: [], ...fields },
    });
  }

  addProjection(tenantId: string, projectionId: string, fields: Partial<ProjectionEntity> = {}): void {
    this.set('projection', projectionId, {
      tenantId,
      projectionId,
      createdAt: '2026-01-01T00:00:00.000Z',
      artefactId: 'a',
      status: 'compiled',
      revision: 1,
      sse: false,
      ...fields,
    });
  }
}

export class MapCursorStore implements CursorStore {
  caughtUp(): Promise<void> {
    return Promise.resolve();
  }

  readonly saved = new Map<string, EndpointCheckpoint>();
  load = (id: string): EndpointCheckpoint | undefined => this.saved.get(id);
  save = (id: string, checkpoint: Saved): void =>
    void this.saved.set(id, structuredClone(typeof checkpoint === 'function' ? checkpoint() : checkpoint));
  delete = (id: string): void => void this.saved.delete(id);
  flush = (): Promise<void> => Promise.resolve();
  close = (): Promise<void> => Promise.resolve();
}

export class MapAttemptStore implements AttemptStore {
  readonly added = new Map<string, Attempt[]>();
  #n = 0;
  add = (id: string, attempt: Omit<Attempt, 'n'>): void =>
    void this.added.set(id, [{ n: ++this.#n, ...attempt }, ...(this.added.get(id) ?? [])]);
  list = (id: string): Promise<readonly Attempt[]> => Promise.resolve(this.added.get(id) ?? []);
  release = (): void => undefined;
  delete = (id: string): void => void this.added.delete(id);
  close = (): Promise<void> => Promise.resolve();
}

/** Time that stands still until it is moved. */
export class ManualTimers implements Timers {
  #now = 0;
  readonly #timers = new Set<{ at: number; every: number | undefined; run: () => void }>();

  now(): number {
    return this.#now;
  }

  after(milliseconds: number, run: () => void): () => void {
    return this.#add(milliseconds, undefined, run);
  }

  every(milliseconds: number, run: () => void): () => void {
    return this.#add(milliseconds, milliseconds, run);
  }

  /** When the next timer is due; undefined: none is set. */
  get nextAt(): number | undefined {
    return this.#timers.size === 0 ? undefined : Math.min(...[...this.#timers].map(({ at }) => at));
  }

  advance(milliseconds: number): void {
    const end = this.#now + milliseconds;
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#now = Math.max(this.#now, due.at);
      if (due.every === undefined) this.#timers.delete(due);
      else due.at += due.every;
      due.run();
    }
    this.#now = end;
  }

  #add(milliseconds: number, every: number | undefined, run: () => void): () => void {
    const timer = { at: this.#now + milliseconds, every, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }
}

/** Waits until `condition` holds, turn by turn. */
export async function until(condition: () => boolean, what: string, deadlineMs = 20_000): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** A server on a free port of the loopback; the result is its port. */
export async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
