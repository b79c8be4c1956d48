import { join } from 'node:path';
import { StatefoldError } from '../core/errors.js';
import { DATA_FILES } from '../config/data-files.js';
import type { Settings } from '../config/settings.js';
import { EmbeddedEngine } from '../read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../read-store/endpoint.js';
import { launchOfEngine } from '../jail/launch.js';
import { JailedSql, type JailedLaunch } from '../read-store/embedded/jailed-sql.js';
import { TenantCopies } from '../read-store/embedded/tenant-copies.js';
import { ServerSql } from '../read-store/clickhouse/server-sql.js';
import { ServerAccounts } from '../read-store/clickhouse/server-accounts.js';
import { noAccounts, type SqlAccounts } from '../read-store/sql-accounts.js';
import type { SqlLimits, TenantSql } from '../read-store/tenant-sql.js';
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
  const engine =
    settings.clickhouseUrl === undefined
      ? embedded(ground, shared, jail)
      : onServer(settings, settings.clickhouseUrl, { shared, catalog, masterKey });
  const { endpoint, isStarting, cluster, isWrittenByOthers } = engine;
  shutdown.add('read store engine', () => engine.stop());
  const schemaDirectory = join(ground.root, 'schemas', 'clickhouse');
  const limits = {
    seconds: settings.sqlMaxSeconds,
    rows: settings.sqlMaxRows,
    bytes: settings.sqlMaxBytes,
    memoryBytes: settings.sqlMemoryBytes,
  };
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
  const removeIdle = (): void => void copies.removeIdle().catch(() => undefined);
  // What could not be removed is looked at again.
  const looks = setInterval(removeIdle, idleMs / 4).unref();
  shutdown.add('copies for SQL', () => clearInterval(looks));
  clickHouse.onRemoved((tenantId) => copies.drop(tenantId));
  const parts = { ensureSchema, limits, copies };
  const sqlAccounts = engine.sqlAccounts(parts);
  const tenantSql = engine.tenantSql(parts);
  shutdown.add('SQL of tenants', () => tenantSql.close());
  const readStore = tracedReadStore(decorate.readStore?.(clickHouse) ?? clickHouse, tracing.tracer);
  const sink = new RebuildableSink({
    store: readStore,
    logger,
    observer: {
      ...metrics.sink,
      storeAvailable: (isAvailable) => {
        metrics.sink.storeAvailable?.(isAvailable);
        if (isAvailable && engine.hasCopies) removeIdle();
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
      engine.start();
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

interface SqlParts {
  readonly ensureSchema: () => Promise<void>;
  readonly limits: SqlLimits;
  readonly copies: TenantCopies;
}

/** The engine behind the read store, and what of it differs by whether it is a server or embedded. */
interface Engine {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  readonly isStarting: () => boolean;
  /** Of servers that share the tables; undefined where one has them. */
  readonly cluster: string | undefined;
  readonly isWrittenByOthers: boolean;
  /** Tenants' statements run on copies of their rows in it. */
  readonly hasCopies: boolean;
  readonly sqlAccounts: (parts: SqlParts) => SqlAccounts;
  readonly tenantSql: (parts: SqlParts) => TenantSql;
  start(): void;
  stop(): Promise<void>;
}

/** The ClickHouse server of the settings. */
function onServer(
  settings: Settings,
  url: string,
  { shared, catalog, masterKey }: { readonly shared: boolean } & Pick<OpenedCatalog, 'catalog' | 'masterKey'>,
): Engine {
  const {
    clickhouseUser: user,
    clickhousePassword: password,
    clickhouseDatabase: database,
    clickhouseCluster: cluster,
  } = settings;
  const endpoint = (): ClickHouseEndpoint => ({ url, user, password, database });
  return {
    ...{ endpoint, cluster, isWrittenByOthers: shared, hasCopies: false },
    isStarting: () => false,
    sqlAccounts: ({ ensureSchema, limits }) => new ServerAccounts({ endpoint, ensureSchema, limits, cluster }),
    tenantSql: ({ ensureSchema, limits }) =>
      new ServerSql({
        ...{ endpoint, ensureSchema, limits, cluster, secret: masterKey },
        isTenant: async (tenantId) => {
          await catalog.caughtUp();
          return catalog.get('tenant', tenantId) !== undefined;
        },
      }),
    start: () => undefined,
    stop: () => Promise.resolve(),
  };
}

function embedded(ground: Ground, shared: boolean, jail: OpenedCodeHost['jail']): Engine {
  const { settings, logger } = ground;
  if (shared)
    logger.warn(
      {},
      'CLICKHOUSE_URL is not set: the read store of this process has the tenants that it serves itself; with several processes let one ClickHouse be the read store of all',
    );
  const directory = join(settings.dataDirectory, DATA_FILES.clickhouse);
  const engine = new EmbeddedEngine({
    directory,
    port: settings.readStorePort,
    password: undefined,
    memoryLimitBytes: settings.readStoreMemoryBytes,
    logger,
  });
  return {
    endpoint: () => engine.endpoint(),
    isStarting: () => engine.isStarting,
    ...{ cluster: undefined, isWrittenByOthers: false, hasCopies: true },
    sqlAccounts: () => noAccounts(notOnEmbedded),
    tenantSql: ({ limits, copies }) =>
      new JailedSql({
        directory: join(directory, 'sql'),
        copies,
        launch:
          jail.kind === 'jailed'
            ? jailedLaunch(ground)
            : { refused: jail.kind === 'refused' ? jail.reason : 'UNSAFE_NO_SANDBOX is set' },
        limits,
        processes: settings.sqlStatements,
        logger,
      }),
    start: () => engine.start(),
    stop: () => engine.stop(),
  };
}
