import { join } from 'node:path';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import { EmbeddedEngine } from '../read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../read-store/endpoint.js';

/** The ClickHouse of the settings, or the embedded one. */
export function readStoreEndpoint(
  settings: Settings,
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
  if (settings.kafkaBrokers !== undefined)
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
