import { readFileSync } from 'node:fs';
import { CATALOG_TOPIC } from '../catalog/fenced-catalog.js';
import { pause } from '../core/pause.js';
import type { Settings } from '../config/settings.js';
import { DAY_MS } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import { slotKeyOfSection, slotOf } from '../core/slots.js';
import { StartupError } from '../core/startup-error.js';
import { CODE, KafkaCodeError, UnsentError } from '../kafka/kafka-error.js';
import { Throttling, type ThrottlingObserver } from '../kafka/throttling.js';
import { KafkaLog, type KafkaLogOptions } from '../log/kafka/kafka-log.js';
import { TooFewPartitionsError } from '../log/kafka/topics.js';
import { SlotGroup } from '../placement/kafka/slot-group.js';
import type { LogSetup } from './log-setup.js';

const SLOTS_TOPIC = 'statefold.slots';
const CONNECT_MS = 3000;
const REACHABLE_MS = 60_000;
const AGAIN_MS = 500;

/** The log on the Kafka of the settings, and the group of processes that share it. */
export function openKafkaLog(
  settings: Settings,
  brokers: readonly string[],
  logger: Logger,
  observer?: ThrottlingObserver,
): Pick<LogSetup, 'log' | 'openOwnership' | 'replication'> {
  const { slots } = settings;
  const throttling = new Throttling(logger, observer);
  const connection = { ...connectionOf(settings, brokers), throttling };
  const log = kafkaLog(settings, brokers, logger, throttling);
  return {
    log,
    replication: log.replication,
    openOwnership: async (owner, url, store, awaits) => {
      await reachable(
        async () => {
          const orphans = await log.tenantTopicsWithout(CATALOG_TOPIC);
          if (orphans.length > 0) throw noCatalog(settings, orphans);
          await log
            .ensureTopics([
              { topic: SLOTS_TOPIC, partitions: slots, cleanup: { policy: 'delete', retentionMs: DAY_MS } },
            ])
            .catch((error: unknown) => {
              throw error instanceof TooFewPartitionsError ? otherSlots(settings, error.found) : error;
            });
        },
        { brokers, logger, awaits },
      );
      const group: SlotGroup = await SlotGroup.open({
        ...connection,
        processId: owner,
        url,
        tasks: settings.roles.includes('tasks'),
        notifier: settings.roles.includes('notifier'),
        warmSlots: () => [
          ...new Set([...store.sections()].map((section) => slotOf(slotKeyOfSection(section), group.slots))),
        ],
        sessionTimeoutMs: settings.kafkaSessionTimeoutMs,
        logger,
      });
      if (group.slots !== slots) {
        await group.close();
        throw otherSlots(settings, group.slots);
      }
      return { ownership: group, join: () => group.join() };
    },
  };
}

/** A log on Kafka of its own, as the settings say. The caller closes it. */
export function kafkaLog(
  settings: Settings,
  brokers: readonly string[],
  logger: Logger,
  throttling?: Throttling,
): KafkaLog {
  const { kafkaMinInsyncReplicas: insync } = settings;
  return new KafkaLog({
    ...connectionOf(settings, brokers),
    replicationFactor: settings.kafkaReplicationFactor,
    ...(insync === 'auto' ? {} : { minInsyncReplicas: insync }),
    requestTimeoutMs: settings.kafkaRequestTimeoutMs,
    logger,
    ...(throttling !== undefined && { throttling }),
  });
}

const connectionOf = (
  settings: Settings,
  brokers: readonly string[],
): Pick<KafkaLogOptions, 'ssl' | 'sasl'> & {
  readonly brokers: readonly string[];
  readonly prefix: string;
  readonly clientId: string;
  readonly connectTimeoutMs: number;
} => ({
  brokers,
  prefix: settings.kafkaTopicPrefix,
  clientId: 'statefold',
  connectTimeoutMs: Math.min(CONNECT_MS, settings.kafkaRequestTimeoutMs),
  ...security(settings),
});

/** Nothing is ever written to that topic: that it is empty does not say that it may go, with processes that share its slots. */
const otherSlots = ({ slots, kafkaTopicPrefix: prefix }: Settings, found: number): StartupError =>
  new StartupError(
    `SLOTS is ${slots}, and this cluster has ${found}, as many as its topic ${prefix}.slots has partitions: set SLOTS=${found} in all of its processes.`,
  );

/** A new catalog would know none of the tenants, none of their keys and none of their code, and give their events to whoever has a tenant of such an id made. */
const noCatalog = ({ kafkaTopicPrefix: prefix }: Settings, orphans: readonly string[]): StartupError =>
  new StartupError(
    `Kafka has no topic ${prefix}.catalog, and has topics of tenants (${orphans.slice(0, 3).join(', ')}${orphans.length > 3 ? ', …' : ''}): the catalog of the tenants, their keys and their code was deleted. Restore Kafka from a back-up; or begin anew under another KAFKA_TOPIC_PREFIX.`,
  );

/** Kafka may be starting too, and is waited for. @throws StartupError */
async function reachable(
  ask: () => Promise<void>,
  { brokers, logger, awaits }: { brokers: readonly string[]; logger: Logger; awaits: (isAway: boolean) => void },
): Promise<void> {
  const until = performance.now() + REACHABLE_MS;
  for (let told = false; ; told = true) {
    try {
      await ask();
      return awaits(false);
    } catch (error) {
      if (error instanceof StartupError) throw error;
      const { message } = error as Error;
      const tooFew = error instanceof KafkaCodeError && error.code === CODE.INVALID_REPLICATION_FACTOR;
      if (tooFew && performance.now() > until)
        throw new StartupError(
          `Kafka has fewer brokers than KAFKA_REPLICATION_FACTOR wants copies of each topic: start the others, or set it lower. ${message}`,
          { cause: error },
        );
      if (!(error instanceof UnsentError || tooFew))
        throw new StartupError(`The topics on Kafka are not as they must be: ${message}`, { cause: error });
      if (performance.now() > until)
        throw new StartupError(
          `Kafka can not be reached: ${message}. KAFKA_BROKERS is ${brokers.join(',')}; are they up, and is it their listener for clients?`,
          { cause: error },
        );
      if (!told)
        logger.warn(
          { reason: message },
          tooFew ? 'Kafka has not enough brokers yet, trying again' : 'Kafka can not be reached yet, trying again',
        );
      awaits(true);
      await pause(AGAIN_MS, { ref: true });
    }
  }
}

function security(settings: Settings): Pick<KafkaLogOptions, 'ssl' | 'sasl'> {
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
