// A real Kafka Connect worker for tests, with one sink of ours (RowsConnector) compiled against its own jars.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT } from '../service.js';
import { freePort } from '../kafka.js';

const home = process.env['KAFKA_HOME'];
const jdk = (name: string): string =>
  process.env['JAVA_HOME'] === undefined ? name : join(process.env['JAVA_HOME'], 'bin', name);

/** Why a Connect worker can't run here, or false. */
export const needsConnect: string | false =
  home === undefined
    ? 'KAFKA_HOME is not set: it names the folder of a Kafka release'
    : !readdirSync(join(home, 'libs')).some((name) => name.startsWith('connect-runtime-'))
      ? 'KAFKA_HOME has no libs/connect-runtime-*.jar'
      : spawnSync(jdk('javac'), ['-version']).status !== 0
        ? 'there is no javac: a JDK compiles the sink of the test'
        : false;

export interface ConnectWorker {
  readonly url: string;
  close(): Promise<void>;
}

export interface ConnectOptions {
  /** Where its files go. */
  readonly directory: string;
  readonly brokers: readonly string[];
  /** First part of the names of its group and topics. */
  readonly prefix: string;
}

const STARTS_MS = 90_000;

export async function startConnect({ directory, brokers, prefix }: ConnectOptions): Promise<ConnectWorker> {
  const libs = join(home ?? '', 'libs', '*');
  const classes = join(directory, 'classes');
  mkdirSync(classes, { recursive: true });
  const compiled = spawnSync(
    jdk('javac'),
    ['-d', classes, '-cp', libs, join(ROOT, 'test', 'support', 'connect', 'RowsConnector.java')],
    { encoding: 'utf8' },
  );
  if (compiled.status !== 0) throw new Error(`javac: ${compiled.stderr}`);
  const port = await freePort();
  const properties = {
    'bootstrap.servers': brokers.join(','),
    'group.id': `${prefix}-connect`,
    'config.storage.topic': `${prefix}.connect-configs`,
    'offset.storage.topic': `${prefix}.connect-offsets`,
    'status.storage.topic': `${prefix}.connect-status`,
    'config.storage.replication.factor': 1,
    'offset.storage.replication.factor': 1,
    'offset.storage.partitions': 1,
    'status.storage.replication.factor': 1,
    'status.storage.partitions': 1,
    'key.converter': 'org.apache.kafka.connect.converters.ByteArrayConverter',
    'value.converter': 'org.apache.kafka.connect.converters.ByteArrayConverter',
    'offset.flush.interval.ms': 500,
    listeners: `http://127.0.0.1:${port}`,
    'plugin.discovery': 'only_scan',
    'config.providers': 'env',
    'config.providers.env.class': 'org.apache.kafka.common.config.provider.EnvVarConfigProvider',
  };
  const file = join(directory, 'connect.properties');
  writeFileSync(
    file,
    Object.entries(properties)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
  const logFile = join(directory, 'connect.log');
  const log = openSync(logFile, 'a');
  const java = [
    '-Xms64m',
    '-Xmx256m',
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
    '-cp',
    `${classes}:${libs}`,
    'org.apache.kafka.connect.cli.ConnectDistributed',
    file,
  ];
  const child = spawn(jdk('java'), java, { stdio: ['ignore', log, log] });
  const url = `http://127.0.0.1:${port}`;
  const close = (): Promise<void> => ended(child);
  for (const deadline = Date.now() + STARTS_MS; ; await delay(100)) {
    // Its interface answers before its group has a leader; connectors can be listed when it has.
    const ready = await fetch(`${url}/connectors`, { signal: AbortSignal.timeout(5000) })
      .then(({ ok }) => ok)
      .catch(() => false);
    if (ready) return { url, close };
    if (child.exitCode === null && Date.now() < deadline) continue;
    await close();
    throw new Error(`Connect did not start: ${existsSync(logFile) ? readFileSync(logFile, 'utf8').slice(-3000) : ''}`);
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
