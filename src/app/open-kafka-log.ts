import { readFileSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import { slotOf } from '../core/slots.js';
import { StartupError } from '../core/startup-error.js';
import { UnsentError } from '../kafka/kafka-error.js';
import { KafkaLog } from '../log/kafka/kafka-log.js';
import { SlotGroup } from '../placement/kafka/slot-group.js';
import type { LogSetup } from './open-log.js';

const SLOTS_TOPIC = 'statefold.slots';
const CONNECT_MS = 3000;
const REACHABLE_MS = 60_000;
const AGAIN_MS = 500;
const DAY_MS = 24 * 3600 * 1000;

/** The log on the Kafka of the settings, and the group of processes that share it. */
export function openKafkaLog(
  settings: Settings,
  brokers: readonly string[],
  logger: Logger,
): Pick<LogSetup, 'log' | 'openOwnership'> {
  const { kafkaTopicPrefix: prefix, kafkaMinInsyncReplicas: insync, slots } = settings;
  const connection = {
    brokers,
    prefix,
    clientId: 'statefold',
    connectTimeoutMs: Math.min(CONNECT_MS, settings.kafkaRequestTimeoutMs),
    ...security(settings),
  };
  const log = new KafkaLog({
    ...connection,
    replicationFactor: settings.kafkaReplicationFactor,
    ...(insync === 'auto' ? {} : { minInsyncReplicas: insync }),
    requestTimeoutMs: settings.kafkaRequestTimeoutMs,
    logger,
  });
  return {
    log,
    openOwnership: async (owner, url, store) => {
      await reachable(
        () =>
          log.ensureTopics([
            { topic: SLOTS_TOPIC, partitions: slots, cleanup: { policy: 'delete', retentionMs: DAY_MS } },
          ]),
        brokers,
        logger,
      );
      const group: SlotGroup = await SlotGroup.open({
        ...connection,
        processId: owner,
        url,
        tasks: settings.roles.includes('tasks'),
        notifier: settings.roles.includes('notifier'),
        warmSlots: () => [...new Set([...store.sections()].map((tenantId) => slotOf(tenantId, group.slots)))],
        sessionTimeoutMs: settings.kafkaSessionTimeoutMs,
        logger,
      });
      return { ownership: group, join: () => group.join() };
    },
  };
}

/** Kafka may be starting too, and is waited for. @throws StartupError */
async function reachable(ask: () => Promise<void>, brokers: readonly string[], logger: Logger): Promise<void> {
  const until = performance.now() + REACHABLE_MS;
  for (let told = false; ; told = true) {
    try {
      return await ask();
    } catch (error) {
      const { message } = error as Error;
      if (!(error instanceof UnsentError))
        throw new StartupError(`The topics on Kafka are not as they must be: ${message}`, { cause: error });
      if (performance.now() > until)
        throw new StartupError(
          `Kafka can not be reached: ${message}. KAFKA_BROKERS is ${brokers.join(',')}; are they up, and is it their listener for clients?`,
          { cause: error },
        );
      if (!told) logger.warn({ reason: message }, 'Kafka can not be reached yet, trying again');
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

function security(settings: Settings): Pick<ConstructorParameters<typeof KafkaLog>[0], 'ssl' | 'sasl'> {
  const {
    kafkaSsl,
    kafkaSslCa,
    kafkaSslCert,
    kafkaSslKey,
    kafkaSaslMechanism: mechanism,
    kafkaSaslUsername,
    kafkaSaslPassword,
  } = settings;
  const named = {
    ca: ['KAFKA_SSL_CA', kafkaSslCa],
    cert: ['KAFKA_SSL_CERT', kafkaSslCert],
    key: ['KAFKA_SSL_KEY', kafkaSslKey],
  } as const;
  const files = Object.entries(named).flatMap(([name, [setting, path]]) =>
    path === undefined ? [] : [[name, readPem(setting, path)] as const],
  );
  return {
    ...(kafkaSsl ? { ssl: files.length === 0 ? true : Object.fromEntries(files) } : {}),
    ...(mechanism === undefined
      ? {}
      : { sasl: { mechanism, username: kafkaSaslUsername ?? '', password: kafkaSaslPassword ?? '' } }),
  };
}

function readPem(setting: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new StartupError(
      `The file ${path} can't be read (${(error as NodeJS.ErrnoException).code ?? String(error)}): set ${setting} to a PEM file that this user may read.`,
      { cause: error },
    );
  }
}
