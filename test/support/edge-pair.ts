// Two processes' worth of the edge over one log: each with its own catalog, tenants, local store and channels of notification, and
// its own idea of who owns a tenant, which the test tells it.
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { LogArtefactStore } from '../../src/catalog/artefacts.js';
import { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { quotasOf } from '../../src/catalog/tenant-quotas.js';
import { createTenant } from '../../src/catalog/tenants.js';
import type { Owner, Ownership, SlotShare } from '../../src/placement/ownership.js';
import { openTasks } from '../../src/app/open-tasks.js';
import type { CodeHost } from '../../src/code-host/code-host.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import type { Deployments } from '../../src/deployments/deployments.js';
import type { SourceFile } from '../../src/deployments/source-file.js';
import { Admission } from '../../src/http/admission.js';
import { Channels } from '../../src/http/channels.js';
import { Tickets } from '../../src/http/tickets.js';
import { createEdge, type Edge } from '../../src/http/edge.js';
import type { ForwardOutcome } from '../../src/http/gateway/gateway.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { Log } from '../../src/log/log.js';
import { followDeletions } from '../../src/app/follow-deletions.js';
import { FeedHub } from '../../src/feed/hub.js';
import { NO_ACTIVITY } from '../../src/tenancy/activity.js';
import { Assignment } from '../../src/tenancy/assignment.js';
import { NotifiedTenants } from '../../src/tenancy/notified-tenants.js';
import type { AggregateHome } from '../../src/aggregates/aggregates.js';
import type { AggregateHomes, Tenants } from '../../src/tenancy/tenant.js';
import type { TenantFeed } from '../../src/feed/tenant-feeds.js';
import type { TenantRegistry } from '../../src/tenancy/tenant-registry.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { NO_PROCESSES } from './no-processes.js';
import { NO_SQL } from './no-sql.js';
import { NO_SQL_ACCOUNTS } from './no-sql-accounts.js';
import { bindAll, codecs, compiled, openRunners, openStore, testGround, type TestGround } from './ground.js';
import { temporaryDirectory } from './service.js';
import { NO_AUDIT } from './no-audit.js';
import { noEndpoints } from './no-endpoints.js';
import { noEventTypes } from './no-event-types.js';
import { noInspections } from './no-inspections.js';
import { schemaRegistryOf } from './edge-parts.js';
import { MASTER_KEY, peers } from './peers.js';

export const ADMIN_KEY = 'an-admin-key-of-the-test';
export const TENANT = 'acme';
export const PROJECTION = 'p1';
/** Keeps each aggregate's number of events. */
const TALLY = `public record Tally(long Total);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.AggregateType == "tally" ? e.AggregateId : null;
    public Tally? Apply(Tally? s, Event e) => new((s?.Total ?? 0) + 1);
}`;

/** An assignment that is what the test says. */
export class ToldOwnership implements Ownership {
  readonly slots = 64;
  #owner: Owner | ((slotKey: string) => Owner);
  #notifier: Owner;
  readonly #listeners = new Set<() => void>();

  ownerOf(slotKey = ''): Owner {
    return typeof this.#owner === 'function' ? this.#owner(slotKey) : this.#owner;
  }

  tell(owner: Owner | ((slotKey: string) => Owner)): void {
    this.#owner = owner;
    for (const listener of [...this.#listeners]) listener();
  }

  owns(slotKey?: string): boolean {
    return this.ownerOf(slotKey) === 'self';
  }

  standsBy(): boolean {
    return false;
  }

  notifies(): boolean {
    return this.notifierOf() === 'self';
  }

  notifierOf(slotKey = ''): Owner {
    return this.#notifier ?? this.ownerOf(slotKey);
  }

  notifiedElsewhere(slotKey = ''): boolean {
    const notifier = this.notifierOf(slotKey);
    return notifier !== undefined && notifier !== 'self';
  }

  /** Another process than the owner notifies; undefined: the owner does. */
  tellNotifier(notifier: Owner): void {
    this.#notifier = notifier;
    for (const listener of [...this.#listeners]) listener();
  }

  shares(): readonly SlotShare[] {
    return [];
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  changed(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#listeners.delete(done);
        resolve();
      };
      const timer = setTimeout(done, withinMs);
      this.#listeners.add(done);
    });
  }

  leave(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export interface EdgeNode {
  readonly edge: Edge;
  readonly url: string;
  readonly ownership: ToldOwnership;
  readonly registry: TenantRegistry;
  readonly catalog: FencedCatalog;
  readonly hub: FeedHub;
  /** Sources of the uploads that came to this process. */
  readonly uploads: (readonly SourceFile[])[];
  /** Tenants whose data this process was told to remove. */
  readonly removed: string[];
  readonly forwarded: ForwardOutcome[];
  readonly retries: string[];
  readonly counts: { tunnels: number; appends: number; catalogQueries: number };
  /** Called when the tenant of this process has stored an append, before it is answered. */
  afterAppend: (() => Promise<void> | void) | undefined;
  /** Queries of the catalog's end wait for it. */
  /** So does what comes by itself to a copy that follows. */
  readonly hold: { queries: Promise<void> | undefined; following: Promise<void> | undefined };
  /** As a kill looks from outside: all connections are cut, and no new ones are taken. */
  kill(): void;
}

export interface EdgePair {
  readonly a: EdgeNode;
  readonly b: EdgeNode;
  readonly apiKey: string;
  /** Tells both that this one owns the tenant. */
  own(node: EdgeNode): void;
}

export interface EdgePairOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Of the one node alone. */
  readonly envOf?: Readonly<Record<'a' | 'b', Readonly<Record<string, string>>>>;
  /** With a compiled projection, `PROJECTION`, of aggregates of the type `tally`. */
  readonly projection?: boolean;
  readonly rate?: number;
  /** Tasks are brought in line with what is told of the ownership, as in a service. */
  readonly aligned?: boolean;
}

export async function edgePair(t: Pick<TestContext, 'after'>, options: EdgePairOptions = {}): Promise<EdgePair> {
  const directory = temporaryDirectory(t);
  const log = new LmdbLog({ path: join(directory, 'log') });
  const ground = testGround({ directory });
  ground.shutdown.add('log', () => log.close());
  const codeHost = openRunners(ground);
  t.after(() => ground.close());
  const [assembly] = options.projection === true ? await compiled(t, ['projection', TALLY]) : [];
  const definitions: TenantDefinitions = {
    bindAll: bindAll(),
    projections: () =>
      assembly === undefined
        ? []
        : [{ projectionId: PROJECTION, revision: 1, artefactId: 'a', classNames: ['TallyProjection'] }],
    projectionExists: () => true,
    assembly: () =>
      assembly === undefined ? Promise.reject(new Error('there is no code')) : Promise.resolve(assembly),
  };
  const node = (name: 'a' | 'b'): Promise<EdgeNode> => {
    const env = {
      PORT: '0',
      TENANT_CONNECTIONS: '100',
      FOLD_DEADLINE_MS: '1000',
      ...options.env,
      ...options.envOf?.[name],
    };
    const ofNode = testGround({ directory: join(directory, name), env, owner: name });
    // They end before what they share.
    ground.shutdown.add(`node ${name}`, () => ofNode.close());
    return edgeNode(name, { ground: ofNode, log, codeHost, definitions, aligned: options.aligned === true });
  };
  const [a, b] = [await node('a'), await node('b')];
  const { apiKey } = await createTenant(a.catalog, { tenantId: TENANT });
  if (assembly !== undefined) {
    const artefact = { tenantId: TENANT, createdAt: '2026-01-01T00:00:00.000Z', artefactId: 'a' };
    await a.catalog.put('projection', PROJECTION, 0, {
      ...artefact,
      projectionId: PROJECTION,
      status: 'compiled',
      revision: 1,
      sse: true,
    });
  }
  const own = (owner: EdgeNode): void => {
    for (const each of [a, b]) each.ownership.tell(each === owner ? 'self' : { url: owner.url });
  };
  own(b);
  return { a, b, apiKey, own };
}

interface Shared {
  readonly ground: TestGround;
  readonly log: Log;
  readonly codeHost: CodeHost;
  readonly definitions: TenantDefinitions;
  readonly aligned: boolean;
}

async function edgeNode(name: string, { ground, log, codeHost, definitions, aligned }: Shared): Promise<EdgeNode> {
  const { settings, shutdown } = ground;
  const counts = { tunnels: 0, appends: 0, catalogQueries: 0 };
  const hold: EdgeNode['hold'] = { queries: undefined, following: undefined };
  const counted = new Proxy(log, {
    get: (target, property: keyof Log) => {
      if (property !== 'endOffset') return bound(target, property);
      return async (...asked: Parameters<Log['endOffset']>) => {
        counts.catalogQueries++;
        await hold.queries;
        return target.endOffset(...asked);
      };
    },
  });
  const held = new Proxy(log, {
    get: (target, property: keyof Log) => {
      if (property !== 'read') return bound(target, property);
      return async (...asked: Parameters<Log['read']>) => {
        const records = await target.read(...asked);
        if (asked[3] !== undefined) await hold.following;
        return records;
      };
    },
  });
  const catalog = await FencedCatalog.open({
    log: counted,
    codec: codecs.catalog,
    artefacts: await LogArtefactStore.open({ log }),
    owner: name,
    logger: silentLogger,
    shared: true,
  });
  shutdown.add('catalog', () => catalog.close());
  const ownership = new ToldOwnership();
  const registry = openTasks(ground, { log: held, codecs, store: openStore(ground), ownership }, codeHost, {
    definitionsOf: () => definitions,
    partitionsOf: () => 1,
  });
  const tenants: Tenants & AggregateHomes = {
    open: (tenantId) => registry.open(tenantId),
    active: (tenantId) => registry.active(tenantId),
    onActivated: (listener) => registry.onActivated(listener),
    partitionsOf: () => 1,
    home: async (tenantId) => watchedHome((await registry.open(tenantId)).first),
  };
  const homes = new WeakMap<AggregateHome, AggregateHome>();
  const watchedHome = (home: AggregateHome): AggregateHome => {
    let seen = homes.get(home);
    if (seen === undefined) {
      seen = {
        append: async (command) => {
          const result = await home.append(command);
          counts.appends++;
          await node.afterAppend?.();
          return result;
        },
        transact: async (command) => {
          const result = await home.transact(command);
          counts.appends++;
          await node.afterAppend?.();
          return result;
        },
        import: (command) => home.import(command),
        erase: (aggregateId, reason) => home.erase(aggregateId, reason),
        events: (query) => home.events(query),
        state: (aggregateType, aggregateId) => home.state(aggregateType, aggregateId),
        release: (query) => home.release(query),
      };
      homes.set(home, seen);
    }
    return seen;
  };
  const follows = {
    standby: (id: string) => registry.standby(id),
    standBy: (id: string) => registry.standBy(id),
    onFollowed: (listener: (feed: TenantFeed) => void) => registry.onFollowed(listener),
  };
  const notified = new NotifiedTenants({
    tenants: { ...tenants, ...follows },
    ownership,
    activity: NO_ACTIVITY,
    idleMs: settings.tenantIdleMs,
  });
  shutdown.add('notified tenants', () => notified.close());
  const hub = new FeedHub({ notified });
  shutdown.add('hub', () => hub.close());
  followDeletions(catalog, hub);
  const reassign = (): void => hub.reassign((tenantId) => ownership.notifiedElsewhere(tenantId));
  const assignment = aligned
    ? new Assignment({
        ownership,
        tenants: registry.slots,
        notified,
        activity: { keys: () => [] },
        standbys: false,
        logger: silentLogger,
        onReassigned: reassign,
      })
    : undefined;
  shutdown.add('assignment', () => assignment?.close());
  if (!aligned) ownership.onChange(reassign);
  const admission = new Admission({
    catalog,
    quotaOf: quotasOf(catalog, settings),
    limits: settings,
    tickets: new Tickets(MASTER_KEY),
  });
  const uploads: (readonly SourceFile[])[] = [];
  const removed: string[] = [];
  const forwarded: ForwardOutcome[] = [];
  const retries: string[] = [];
  const deployments: Partial<Deployments> = {
    requireFewerUploads: () => undefined,
    uploadReducer: async (tenantId, sources) => {
      uploads.push(sources);
      const reducer = {
        tenantId,
        reducerId: `r-${name}-${uploads.length}`,
        createdAt: '2026-01-01T00:00:00.000Z',
        artefactId: 'a',
        status: 'pending_compilation',
      } as const;
      await catalog.put('reducer', reducer.reducerId, 0, reducer);
      return reducer;
    },
    rotateTenantSecret: async () => {
      await node.afterAppend?.();
      return 'whsec_x';
    },
  };
  const channels = new Channels({
    ...{ hub, notified, catalog, admission, logger: silentLogger },
    drainMs: 50,
    answerDeadlineMs: 10_000,
  });
  const edge = createEdge({
    settings,
    catalog,
    tenants,
    ownership,
    peers,
    deployments: deployments as Deployments,
    ...noEndpoints,
    removeTenantData: ({ tenantId }) => Promise.resolve(void removed.push(tenantId)),
    seenIds: () => ({ add: () => Promise.resolve(true), close: () => Promise.resolve() }),
    admission,
    audit: NO_AUDIT,
    adminKey: ADMIN_KEY,
    inspections: noInspections,
    ...noEventTypes,
    sql: NO_SQL,
    sqlAccounts: NO_SQL_ACCOUNTS,
    readStoreAccess: () => Promise.reject(new StatefoldError('UNAVAILABLE', 'there is none')),
    rebuildReadStore: () => Promise.resolve(),
    cancelReadStoreRebuild: () => Promise.resolve(),
    probes: [],
    processes: NO_PROCESSES,
    metrics: () => Promise.resolve({ contentType: 'text/plain', text: '' }),
    logger: silentLogger,
    observer: {
      answered: () => undefined,
      forwarded: (outcome) => void forwarded.push(outcome),
      forwardRetried: (why) => void retries.push(why),
      tunnels: (open) => void (counts.tunnels = open),
    },
    channels,
    schemaRegistry: schemaRegistryOf(catalog, admission, settings),
  });
  const url = `http://127.0.0.1:${await edge.listen()}`;
  const kill = (): void => {
    edge.server.close();
    for (const socket of connections) socket.destroy();
  };
  const connections = new Set<Socket>();
  edge.server.on('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  const node: EdgeNode = {
    edge,
    url,
    ownership,
    registry,
    catalog,
    hub,
    uploads,
    removed,
    forwarded,
    retries,
    counts,
    afterAppend: undefined,
    hold,
    kill,
  };
  shutdown.add('edge', async () => {
    const closing = edge.close();
    edge.server.closeAllConnections();
    await closing;
  });
  return node;
}

function bound(log: Log, property: keyof Log): unknown {
  const value: unknown = Reflect.get(log, property);
  return typeof value === 'function' ? (value as () => unknown).bind(log) : value;
}
