import { join } from 'node:path';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import { EmbeddedEngine } from '../read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../read-store/endpoint.js';
import { ClickHouseReadStore } from '../read-store/clickhouse/clickhouse-read-store.js';
import type { ReadStore } from '../read-store/read-store.js';
import { Sink } from '../read-store/sink.js';
import type { Ground } from './ground.js';
import type { Storage } from './open-storage.js';

/** The analysts' copy, and what fills it. */
export interface OpenedReadStore {
  readonly readStore: ReadStore;
  readonly sink: Sink;
  /** Where it is reached now; undefined while it is away. */
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  readonly start: () => void;
}

export function openReadStore(ground: Ground, { shared }: Storage): OpenedReadStore {
  const { settings, logger, metrics, decorate, shutdown } = ground;
  const { endpoint, start, stop } = engineOf(settings, shared, logger);
  shutdown.add('read store engine', stop);
  const clickHouse = new ClickHouseReadStore({
    endpoint,
    schemaDirectory: join(ground.root, 'schemas', 'clickhouse'),
    logger,
    onRowRejected: metrics.rowRejected,
  });
  const readStore = decorate.readStore?.(clickHouse) ?? clickHouse;
  const sink = new Sink({ store: readStore, logger, observer: metrics.sink });
  shutdown.add('sink', async () => {
    await sink.close();
    await readStore.close();
  });
  metrics.watch('read_store_behind_tenants', () => sink.status().behind);
  metrics.watch('read_store_refused_tenants', () => sink.status().refused);
  return { readStore, sink, endpoint, start };
}

/** The ClickHouse of the settings, or the embedded one. */
function engineOf(
  settings: Settings,
  shared: boolean,
  logger: Logger,
): { endpoint: () => ClickHouseEndpoint | undefined; start: () => void; stop: () => Promise<void> } {
  const {
    clickhouseUrl: url,
    clickhouseUser: user,
    clickhousePassword: password,
    clickhouseDatabase: database,
  } = settings;
  if (url !== undefined)
    return {
      endpoint: () => ({ url, user, password, database }),
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
  return { endpoint: () => engine.endpoint(), start: () => engine.start(), stop: () => engine.stop() };
}
