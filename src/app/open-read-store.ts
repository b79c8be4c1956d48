import { join } from 'node:path';
import { StatefoldError } from '../core/errors.js';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import { EmbeddedEngine } from '../read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../read-store/endpoint.js';
import { launchOfEngine } from '../jail/launch.js';
import { JailedSql, type JailedLaunch } from '../read-store/embedded/jailed-sql.js';
import { TenantCopies } from '../read-store/embedded/tenant-copies.js';
import { ServerSql } from '../read-store/clickhouse/server-sql.js';
import { ServerAccounts } from '../read-store/clickhouse/server-accounts.js';
import { noAccounts, type SqlAccounts } from '../read-store/sql-accounts.js';
import type { TenantSql } from '../read-store/tenant-sql.js';
import type { OpenedCatalog } from './open-catalog.js';
import { codeHostOptions, type OpenedCodeHost } from './open-code-host.js';
import {
  ClickHouseReadStore,
  type ClickHouseReadStoreOptions,
} from '../read-store/clickhouse/clickhouse-read-store.js';
import type { Check } from '../http/probes.js';
import type { ReadStore } from '../read-store/read-store.js';
import type { RebuildReach } from '../read-store/rebuild.js';
import { ClickHouseConnection } from '../read-store/clickhouse/connection.js';
import { ClickHouseSecondTables, COPY_MS } from '../read-store/clickhouse/clickhouse-second-tables.js';
import { TableDefinitions } from '../read-store/clickhouse/table-definitions.js';
import { RebuildableSink, type RebuildableSinkOptions } from '../read-store/rebuildable-sink.js';
import { tracing } from '../core/tracing.js';
import { tracedReadStore } from './open-tracing.js';
import type { Ground } from './ground.js';
import type { Storage } from './open-storage.js';

/** For a statement to be started and read to its end, beside the time that it may run. */
const SPARE_SECONDS = 60;

/** Of a statement on the tables of a rebuild. */
const SECOND_TABLES_MS = 30_000;

/** The analysts' copy, and what fills it. */
export interface OpenedReadStore {
  readonly readStore: Pick<ReadStore, 'query'>;
  /** How it is now. */
  readonly check: () => Promise<Check>;
  /** Undefined where the settings say that there is no read store. */
  readonly sink: RebuildableSink | undefined;
  /** For tenants: each reaches its own rows. */
  readonly tenantSql: TenantSql;
  /** With which tenants' tools connect to the server. */
  readonly sqlAccounts: SqlAccounts;
  /** How analysts reach it, once its tables are there. @throws StatefoldError UNAVAILABLE while it is away, READ_STORE_DISABLED where there is none */
  readonly access: () => Promise<ClickHouseEndpoint>;
  /** Other processes write rows of their tenants to the same tables. */
  readonly isWrittenByOthers: boolean;
  readonly start: (reach: RebuildReach) => void;
}

const noReadStore = (): StatefoldError =>
  new StatefoldError('READ_STORE_DISABLED', 'this service keeps no read store: READ_STORE is none');

const notOnEmbedded = (): StatefoldError =>
  new StatefoldError(
    'SQL_NOT_ISOLATED',
    'accounts for SQL are users of a ClickHouse server with row policies, which the embedded engine does not have: let a server be the read store (CLICKHOUSE_URL), or ask by POST /sql',
  );

/** @throws StatefoldError READ_STORE_DISABLED */
export const refuseReadStore = (): Promise<never> => Promise.reject(noReadStore());

const NONE: OpenedReadStore = {
  readStore: { query: refuseReadStore },
  check: () => Promise.resolve('down'),
  sink: undefined,
  tenantSql: { query: refuseReadStore, close: () => Promise.resolve() },
  sqlAccounts: noAccounts(noReadStore),
  access: refuseReadStore,
  isWrittenByOthers: false,
  start: () => undefined,
};

export function openReadStore(
  ground: Ground,
  { shared }: Storage,
  { jail }: OpenedCodeHost,
  { catalog, masterKey }: Pick<OpenedCatalog, 'catalog' | 'masterKey'>,
): OpenedReadStore {
  const { settings, logger, metrics, decorate, shutdown } = ground;
  if (settings.readStore === 'none') return NONE;
  const isWrittenByOthers = settings.clickhouseUrl !== undefined && shared;
  const { endpoint, isStarting, start, stop } = engineOf(settings, shared, logger);
  shutdown.add('read store engine', stop);
  const schemaDirectory = join(ground.root, 'schemas', 'clickhouse');
  const limits = {
    seconds: settings.sqlMaxSeconds,
    rows: settings.sqlMaxRows,
    bytes: settings.sqlMaxBytes,
    memoryBytes: settings.sqlMemoryBytes,
  };
  const cluster = settings.clickhouseUrl === undefined ? undefined : settings.clickhouseCluster;
  const options: ClickHouseReadStoreOptions = {
    endpoint,
    schemaDirectory,
    cluster,
    keptDays: { events: settings.readStoreEventDays, notifications: settings.readStoreNotificationDays },
    logger,
    onRowRejected: metrics.rowRejected,
  };
  const clickHouse = new ClickHouseReadStore(options);
  const ensureSchema = (): Promise<void> => clickHouse.ensureSchema();
  const idleMs = Math.max(settings.sqlCopyIdleMs, (settings.sqlMaxSeconds + SPARE_SECONDS) * 1000);
  const copies = new TenantCopies({ endpoint, schemaDirectory, idleMs, ensureSchema });
  // What could not be removed is looked at again.
  const looks = setInterval(() => void copies.removeIdle().catch(() => undefined), idleMs / 4).unref();
  shutdown.add('copies for SQL', () => clearInterval(looks));
  clickHouse.onRemoved((tenantId) => copies.drop(tenantId));
  const sqlAccounts =
    settings.clickhouseUrl === undefined
      ? noAccounts(notOnEmbedded)
      : new ServerAccounts({ endpoint, ensureSchema, limits, cluster });
  const tenantSql =
    settings.clickhouseUrl !== undefined
      ? new ServerSql({
          ...{ endpoint, ensureSchema, limits, cluster, secret: masterKey },
          isTenant: async (tenantId) => {
            await catalog.caughtUp();
            return catalog.get('tenant', tenantId) !== undefined;
          },
        })
      : new JailedSql({
          directory: join(settings.dataDirectory, 'clickhouse', 'sql'),
          copies,
          launch:
            jail.kind === 'jailed'
              ? jailedLaunch(ground)
              : { refused: jail.kind === 'refused' ? jail.reason : 'UNSAFE_NO_SANDBOX is set' },
          limits,
          processes: settings.sqlStatements,
          logger,
        });
  shutdown.add('SQL of tenants', () => tenantSql.close());
  const readStore = tracedReadStore(decorate.readStore?.(clickHouse) ?? clickHouse, tracing.tracer);
  const sink = new RebuildableSink({
    store: readStore,
    logger,
    observer: {
      ...metrics.sink,
      storeAvailable: (isAvailable) => {
        metrics.sink.storeAvailable?.(isAvailable);
        if (isAvailable && settings.clickhouseUrl === undefined) void copies.removeIdle().catch(() => undefined);
      },
    },
    // Tables that several processes write to, or several servers have, can't be exchanged with what one process filled.
    second: isWrittenByOthers || cluster !== undefined ? undefined : secondOf(ground, options),
  });
  shutdown.add('sink', async () => {
    await sink.close();
    await readStore.close();
  });
  metrics.watch('read_store_behind_tenants', () => sink.status().behind);
  metrics.watch('read_store_refused_tenants', () => sink.status().refused);
  metrics.watch('read_store_rebuild_failing', () => (sink.rebuildStatus()?.failure === undefined ? 0 : 1));
  return {
    ...{ readStore, sink, tenantSql, sqlAccounts, isWrittenByOthers },
    check: async () => {
      if (isStarting()) return 'starting';
      if (!(await readStore.ping())) return 'down';
      return sink.status().refused > 0 ? 'degraded' : 'up';
    },
    access: async () => {
      await sink.ready();
      const reached = endpoint();
      if (reached === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is away');
      return reached;
    },
    start: (reach) => {
      start();
      sink.start(reach);
    },
  };
}

/** What a rebuild fills beside the live tables. */
function secondOf(
  { decorate, shutdown }: Ground,
  options: ClickHouseReadStoreOptions,
): NonNullable<RebuildableSinkOptions['second']> {
  const { endpoint, schemaDirectory: directory, keptDays } = options;
  const connection = new ClickHouseConnection({ endpoint, deadlineMs: SECOND_TABLES_MS, silenceMs: COPY_MS });
  const tables = new ClickHouseSecondTables({ connection, definitions: new TableDefinitions({ directory, keptDays }) });
  const store = new ClickHouseReadStore({ ...options, set: 'second' });
  shutdown.add('second set of the read store', () => store.close());
  return {
    tables: decorate.secondTables?.(tables) ?? tables,
    store: tracedReadStore(decorate.readStore?.(store) ?? store, tracing.tracer),
  };
}

const jailedLaunch =
  ({ settings, root }: Ground): JailedLaunch =>
  (jailed, program, args) =>
    launchOfEngine(codeHostOptions(settings, root), jailed, program, args);

interface Engine {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  readonly isStarting: () => boolean;
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

/** The ClickHouse of the settings, or the embedded one. */
function engineOf(settings: Settings, shared: boolean, logger: Logger): Engine {
  const {
    clickhouseUrl: url,
    clickhouseUser: user,
    clickhousePassword: password,
    clickhouseDatabase: database,
  } = settings;
  if (url !== undefined)
    return {
      endpoint: () => ({ url, user, password, database }),
      isStarting: () => false,
      start: () => undefined,
      stop: () => Promise.resolve(),
    };
  if (shared)
    logger.warn(
      {},
      'CLICKHOUSE_URL is not set: the read store of this process has the tenants that it serves itself; with several processes let one ClickHouse be the read store of all',
    );
  const engine = new EmbeddedEngine({
    directory: join(settings.dataDirectory, 'clickhouse'),
    port: settings.readStorePort,
    password: undefined,
    memoryLimitBytes: settings.readStoreMemoryBytes,
    logger,
  });
  return {
    endpoint: () => engine.endpoint(),
    isStarting: () => engine.isStarting,
    start: () => engine.start(),
    stop: () => engine.stop(),
  };
}
