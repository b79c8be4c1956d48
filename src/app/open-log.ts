import { join } from 'node:path';
import type { Ownership } from '../placement/ownership.js';
import { SoleOwner } from '../placement/sole-owner.js';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import { loadCodecs, type Codecs } from '../log/codec/codec.js';
import { LmdbLog } from '../log/embedded/lmdb-log.js';
import type { Replication } from '../log/kafka/replication.js';
import type { Log } from '../log/log.js';
import type { LocalStore } from '../store/local-store.js';
import {
  BUILT_IN_SCHEMA_IDS,
  readSchemas,
  type SchemaIds,
  type SchemaName,
  type TopicSchema,
} from '../log/codec/schemas.js';

/** The log of the settings, and what goes with it. */
export interface LogSetup {
  readonly log: Log;
  readonly codecs: Codecs;
  readonly schemas: Readonly<Record<SchemaName, TopicSchema>>;
  readonly schemaIds: SchemaIds;
  /** Other processes may write it too. */
  readonly shared: boolean;
  /** In how many places its records are; undefined where that is this machine. */
  readonly replication: Replication | undefined;
  /** Who serves which tenant. `url`: where others reach this process. Of the tenants in `store` it has state when it joins. */
  openOwnership(
    owner: string,
    url: string,
    store: Pick<LocalStore, 'sections'>,
  ): Promise<{ readonly ownership: Ownership; readonly join: () => Promise<void> }>;
}

/**
 * Opens the log in the data directory, or on Kafka. The caller closes `log`. Clients of Kafka and of a schema registry are half of
 * all the code there is to load: a start that uses neither doesn't wait for it.
 */
export async function openLog(settings: Settings, root: string, logger: Logger): Promise<LogSetup> {
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
    return { ...common, shared: true, ...openKafkaLog(settings, settings.kafkaBrokers, logger) };
  }
  const log = new LmdbLog({ path: join(settings.dataDirectory, 'log') });
  return {
    ...common,
    shared: false,
    replication: undefined,
    log,
    openOwnership: () => Promise.resolve({ ownership: new SoleOwner(), join: () => Promise.resolve() }),
  };
}
