// A real Kafka for tests: the one of the whole run (scripts/test.mjs), or of KAFKA_BROKERS, or one of this file's own.
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Kafka, logLevel } from 'kafkajs';
import type * as scripts from '../../scripts/kafka-cluster.mjs';
import { ROOT } from './service.js';

export type { KafkaCluster, KafkaNode, KafkaOptions } from '../../scripts/kafka-cluster.mjs';

// By its path at run time: the compiled tests lie elsewhere than the scripts.
const { findKafka, freePort, runTool, startKafka } = (await import(
  pathToFileURL(join(ROOT, 'scripts', 'kafka-cluster.mjs')).href
)) as typeof scripts;
export { freePort, startKafka };

const running = process.env['STATEFOLD_TEST_KAFKA'] ?? process.env['KAFKA_BROKERS'];
const home = process.env['KAFKA_HOME'];
const NO_HOME = 'KAFKA_HOME is not set: it names the folder of a Kafka release';

/** For `{ skip: needsKafka }` of tests that use any Kafka: why they can't run, or false. */
export const needsKafka: string | false =
  running === undefined && home === undefined ? `${NO_HOME}; or KAFKA_BROKERS one that runs` : false;
/** Likewise of tests that start, kill or pause brokers of their own. */
export const needsKafkaHome: string | false = home === undefined ? NO_HOME : false;
/** Likewise of tests that use Kafka's own tools. */
export const needsKafkaTools: string | false =
  home !== undefined && !hasTools(home) ? 'KAFKA_HOME has no libs/kafka-tools-*.jar' : needsKafkaHome;

function hasTools(folder: string): boolean {
  const libs = join(folder, 'libs');
  return (
    existsSync(libs) &&
    readdirSync(libs).some((name) => name.startsWith('kafka-tools-') && !name.startsWith('kafka-tools-api'))
  );
}

export interface TestKafka {
  /** Each as host:port. */
  readonly brokers: readonly string[];
  /** Runs one of Kafka's own tools on the brokers, with `--bootstrap-server` in front of `args`. See `needsKafkaTools`. */
  tool(name: keyof typeof TOOLS, args: readonly string[], input?: string): Promise<string>;
}

/** Kafka's command line tools, by the names of their scripts. */
const TOOLS = {
  'kafka-topics': 'org.apache.kafka.tools.TopicCommand',
  'kafka-configs': 'kafka.admin.ConfigCommand',
  'kafka-consumer-groups': 'org.apache.kafka.tools.consumer.group.ConsumerGroupCommand',
  'kafka-console-consumer': 'org.apache.kafka.tools.consumer.ConsoleConsumer',
  'kafka-console-producer': 'org.apache.kafka.tools.ConsoleProducer',
} as const;

/** Runs a tool of Kafka on these brokers. Resolves with its standard output. */
export const kafkaTool = (
  brokers: readonly string[],
  name: keyof typeof TOOLS,
  args: readonly string[],
  input = '',
): Promise<string> =>
  runTool(findKafka(home), TOOLS[name], ['--bootstrap-server', brokers.join(','), ...args], { input });

/** What `kafka-dump-log` says of segment files. */
export const dumpLog = (files: readonly string[]): Promise<string> =>
  runTool(findKafka(home), 'org.apache.kafka.tools.DumpLogSegments', ['--print-data-log', '--files', files.join(',')]);

let shared: Promise<TestKafka> | undefined;
const prefixes: string[] = [];
const closing: (() => Promise<void>)[] = [];

/** The Kafka of this run. Several files may use it at one time: topics and groups go under a `freshPrefix`. */
export function kafkaForTests(): Promise<TestKafka> {
  return (shared ??= open());
}

async function open(): Promise<TestKafka> {
  const brokers = running?.split(',') ?? (await startOwn());
  // What the others have to live with is tidied up; a broker of our own goes with all it holds.
  if (running !== undefined) closing.push(() => dropTopics(brokers));
  return { brokers, tool: (name, args, input) => kafkaTool(brokers, name, args, input) };
}

async function startOwn(): Promise<readonly string[]> {
  if (needsKafka !== false) throw new Error(needsKafka);
  const cluster = await startKafka();
  closing.push(() => cluster.close());
  return cluster.brokers;
}

/** A prefix of topics and groups that nobody else has; all topics under it are dropped at the end of the file. */
export function freshPrefix(): string {
  const prefix = `t${randomBytes(5).toString('hex')}`;
  prefixes.push(prefix);
  return prefix;
}

async function dropTopics(brokers: readonly string[]): Promise<void> {
  const admin = new Kafka({ clientId: 'tests', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const topics = (await admin.listTopics()).filter((topic) =>
      prefixes.some((prefix) => topic.startsWith(`${prefix}.`)),
    );
    if (topics.length > 0) await admin.deleteTopics({ topics });
  } finally {
    await admin.disconnect();
  }
}

// Of the whole file, as this is the top of it.
after(async () => {
  for (const close of closing) await close();
});
