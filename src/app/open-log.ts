import { join } from 'node:path';
import { DATA_FILES } from '../config/data-files.js';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import type { ThrottlingObserver } from '../kafka/throttling.js';
import { loadCodecs } from '../log/codec/codec.js';
import { BUILT_IN_SCHEMA_IDS, readSchemas } from '../log/codec/schemas.js';
import { LmdbLog, LOG_DATABASES } from '../log/embedded/lmdb-log.js';
import { markForRewrite, rewriteIfDue, type Environment } from '../log/embedded/rewrite-environment.js';
import { isErasable } from '../log/topics.js';
import { SoleOwner } from '../placement/sole-owner.js';
import { abandonProcess } from './end-of-process.js';
import type { LogSetup } from './log-setup.js';

/** What the data directory has in lmdb. */
export const environments = ({
  dataDirectory,
}: Pick<Settings, 'dataDirectory'>): Record<'log' | 'store', Environment> => ({
  log: { path: join(dataDirectory, DATA_FILES.log), databases: LOG_DATABASES, keyBytes: 16 },
  store: { path: join(dataDirectory, DATA_FILES.store) },
});

/**
 * Opens the log in the data directory, or on Kafka. The caller closes `log`. Clients of Kafka and of a schema registry are half of
 * all the code there is to load: a start that uses neither doesn't wait for it.
 */
export async function openLog(
  settings: Settings,
  root: string,
  logger: Logger,
  observer?: ThrottlingObserver,
): Promise<LogSetup> {
  const directory = join(root, 'schemas', 'avro');
  const schemas = readSchemas(directory);
  const { schemaRegistryUrl: url, schemaRegistryUsername: username, schemaRegistryPassword: password } = settings;
  const schemaIds =
    url === undefined
      ? BUILT_IN_SCHEMA_IDS
      : await (await import('../log/confluent/registry.js')).registerSchemas({ url, username, password, schemas });
  const common = { schemas, schemaIds, codecs: loadCodecs(directory, schemaIds) };
  if (settings.kafkaBrokers !== undefined) {
    const { openKafkaLog } = await import('./open-kafka-log.js');
    return { ...common, shared: true, ...openKafkaLog(settings, settings.kafkaBrokers, logger, observer) };
  }
  const { log: inLog, store: inStore } = environments(settings);
  await rewriteIfDue(inLog, logger);
  const log = new LmdbLog({
    path: inLog.path,
    onLost: (error) => abandonProcess(logger, error, 'the log can not be written any more by this process'),
    onDropped: (topic) => {
      if (isErasable(topic)) for (const one of [inLog, inStore]) markForRewrite(one);
    },
  });
  return {
    ...common,
    shared: false,
    replication: undefined,
    log,
    openOwnership: () => Promise.resolve({ ownership: new SoleOwner(), join: () => Promise.resolve() }),
  };
}
