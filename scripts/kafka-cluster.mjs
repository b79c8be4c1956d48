// A real Apache Kafka on this machine, in KRaft mode: `npm run kafka` and the tests start it here. Plain Node without packages.
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ROOT, SetupError } from './setup.mjs';

const HOST = '127.0.0.1';
const JAVA = 17;
const SERVES_MS = 90_000;
const ARCHIVES = join(ROOT, '.build', 'kafka');
/** Below the ports that the system gives to clients: a broker that is down for a while must find its own port free. */
const PORTS = [20_000, 32_000];
/** The features that a formatted directory begins with, as records. */
const BOOTSTRAP = 'bootstrap.checkpoint';
const WHERE = 'unpack a binary release from https://kafka.apache.org/downloads and let KAFKA_HOME name its folder';

/** @throws {SetupError} with what to do, when there is no Kafka or no Java for it */
export function findKafka(home = process.env['KAFKA_HOME']) {
  if (!home) throw new SetupError(`KAFKA_HOME is not set: ${WHERE}.`);
  const libs = join(home, 'libs');
  const jar = existsSync(libs) ? readdirSync(libs).find((name) => /^kafka-clients-[\d.]+\.jar$/.test(name)) : undefined;
  if (jar === undefined)
    throw new SetupError(`KAFKA_HOME is ${home}, and there is no libs/kafka-clients-*.jar in it: ${WHERE}.`);
  const java = process.env['JAVA_HOME'] ? join(process.env['JAVA_HOME'], 'bin', 'java') : 'java';
  const answer = spawnSync(java, ['-version'], { encoding: 'utf8' });
  const [, release, found] = /version "((\d+)[^"]*)"/.exec(answer.stderr ?? '') ?? [];
  if (found === undefined || Number(found) < JAVA)
    throw new SetupError(
      `Kafka needs Java ${JAVA} or newer, and ${found === undefined ? `\`${java}\` does not run` : `\`${java}\` is Java ${found}`}: install one from https://adoptium.net.`,
    );
  const version = /-([\d.]+)\.jar$/.exec(jar)[1];
  const key = createHash('sha256')
    .update(`${resolve(home)}\0${java}\0${release}`)
    .digest('hex')
    .slice(0, 12);
  const made = join(ARCHIVES, `${version}-${key}`);
  return { home, java, version, classPath: join(libs, '*'), archive: `${made}.jsa`, formatted: `${made}.${BOOTSTRAP}` };
}

/**
 * Loading and verifying classes is half of what a short-lived broker costs. `archiveClasses` leaves them on the disk as the JVM
 * has them in memory, and every later start maps them. A JVM that finds the archive made of other jars goes on without it.
 */
const archived = ({ archive }) =>
  existsSync(archive) ? [`-XX:SharedArchiveFile=${archive}`, '-Xlog:disable', '-Xlog:all=error:stderr'] : [];

/** Makes the archive of this Kafka's classes where there is none: starts a broker once, and ends it in order. */
export async function archiveClasses(kafka = findKafka()) {
  if (existsSync(kafka.archive)) return;
  mkdirSync(ARCHIVES, { recursive: true });
  const fresh = `${kafka.archive}.${process.pid}`;
  try {
    const cluster = await startKafka({ home: kafka.home, jvm: [`-XX:ArchiveClassesAtExit=${fresh}`] });
    await Promise.all(cluster.nodes.map((node) => node.stop()));
    await cluster.close();
    renameSync(fresh, kafka.archive);
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** Runs one of Kafka's own tools by its class. Resolves with what it wrote; rejects when it fails. */
export async function runTool(kafka, main, args, { input = '', timeoutMs = 60_000 } = {}) {
  const child = spawn(
    kafka.java,
    [
      '-Xmx128m',
      ...archived(kafka),
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '-cp',
      kafka.classPath,
      main,
      ...args,
    ],
    { timeout: timeoutMs, killSignal: 'SIGKILL' },
  );
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) child[name].setEncoding('utf8').on('data', (chunk) => (text[name] += chunk));
  child.stdin.on('error', () => undefined).end(input); // a tool that reads nothing may be gone already
  const [code, signal] = await once(child, 'close');
  if (code !== 0)
    throw new Error(`${main} ${args.join(' ')} ended with ${code ?? signal}:\n${text.stdout}${text.stderr}`);
  return text.stdout;
}

/** A file a port that is spoken for, with the process that it is for. */
const RESERVATIONS = join(tmpdir(), 'statefold-ports');
const reserved = new Set();

const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
};

/** A reservation of a process that was killed: the next who asks may have the port. */
function forgetKilled(file) {
  try {
    const pid = Number(readFileSync(file, 'utf8'));
    if (pid > 0 && !isAlive(pid)) rmSync(file, { force: true });
  } catch {
    // It was given back just now.
  }
}

/**
 * Until this process ends no other one is given the port. Between the look whether it is free and the broker that listens on it there are
 * seconds: with some sixty brokers a run, a few at a time, one in thirty runs would give a port away twice.
 */
function reserve(port) {
  const file = join(RESERVATIONS, String(port));
  mkdirSync(RESERVATIONS, { recursive: true });
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
  } catch (error) {
    // The folder went with the last of its files: the next port will do.
    if (error.code !== 'EEXIST' && error.code !== 'ENOENT') throw error;
    forgetKilled(file);
    return false;
  }
  if (reserved.size === 0) process.once('exit', release);
  reserved.add(port);
  return true;
}

function release() {
  for (const port of reserved) rmSync(join(RESERVATIONS, String(port)), { force: true });
  try {
    rmdirSync(RESERVATIONS);
  } catch {
    // Others have theirs in it.
  }
}

/** A TCP port that nobody listens on, and that is this process's from now on. */
export async function freePort() {
  for (;;) {
    const candidate = randomInt(PORTS[0], PORTS[1]);
    if (!reserve(candidate)) continue;
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false)).listen(candidate, HOST, () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return candidate;
  }
}

/** The ids of the brokers that the one on this port takes for alive, by a Metadata request (version 1, no topics). */
function aliveBrokers(port, timeoutMs) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, HOST);
    const failed = (reason) => {
      socket.destroy();
      reject(reason);
    };
    socket.setTimeout(timeoutMs, () => failed(new Error(`no answer on port ${port}`)));
    socket.once('error', failed).once('close', () => failed(new Error(`port ${port} was closed`)));
    const request = Buffer.from([0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]);
    let answer = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      answer = Buffer.concat([answer, chunk]);
      if (answer.length < 4 || answer.length < 4 + answer.readInt32BE(0)) return;
      let at = 12; // past size, correlation id and the number of brokers
      const ids = Array.from({ length: answer.readInt32BE(8) }, () => {
        const id = answer.readInt32BE(at);
        at += 6 + answer.readInt16BE(at + 4) + 4; // host and port
        at += 2 + Math.max(0, answer.readInt16BE(at)); // rack
        return id;
      });
      resolve(ids);
      socket.destroy();
    });
    socket.write(request);
  });
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

class Node {
  #kafka;
  #options;
  #child;
  #files;

  constructor(kafka, id, port, files, options) {
    this.#kafka = kafka;
    this.id = id;
    this.port = port;
    this.#files = files;
    this.#options = options;
  }

  get pid() {
    return this.#child?.pid;
  }

  get logFile() {
    return this.#files.log;
  }

  /**
   * Formats its directory where that was not done yet. Kafka's tool does it once a release: what it writes differs in the ids alone,
   * and the start of its JVM is a quarter of a broker's.
   */
  async format(clusterId) {
    const { data, properties } = this.#files;
    const meta = join(data, 'meta.properties');
    if (existsSync(meta)) return;
    const made = join(data, BOOTSTRAP);
    const { formatted } = this.#kafka;
    if (existsSync(formatted)) {
      mkdirSync(data, { recursive: true });
      copyFileSync(formatted, made);
      const ids = { version: 1, 'cluster.id': clusterId, 'node.id': this.id, 'directory.id': newId() };
      writeFileSync(meta, textOf(ids));
      return;
    }
    await runTool(this.#kafka, 'kafka.tools.StorageTool', ['format', '-t', clusterId, '-c', properties]);
    mkdirSync(ARCHIVES, { recursive: true });
    const fresh = `${formatted}.${process.pid}-${this.id}`;
    copyFileSync(made, fresh);
    renameSync(fresh, formatted);
  }

  /** Resolves when it serves: it answers, and is not fenced. */
  async start() {
    if (this.#child !== undefined) throw new Error(`broker ${this.id} runs already`);
    const { java, classPath } = this.#kafka;
    const output = openSync(this.#files.log, 'a');
    const args = [
      ...this.#options.heap,
      ...(this.#options.jvm ?? archived(this.#kafka)),
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      `-Dlog4j2.configurationFile=${this.#files.log4j2}`,
      `-Dlog4j.configuration=file:${this.#files.log4j}`,
    ];
    // A group of its own: Ctrl-C in a terminal goes to whoever started it, which then ends it in order.
    const child = spawn(java, [...args, '-cp', classPath, 'kafka.Kafka', this.#files.properties], {
      stdio: ['ignore', output, output],
      detached: true,
    });
    closeSync(output);
    this.#child = child;
    child.once('error', () => (this.#child = undefined));
    if (child.pid === undefined) throw new Error(`${java} could not be started`);
    const warden = watchOver(child.pid);
    child.once('exit', () => {
      warden.kill('SIGKILL');
      if (this.#child === child) this.#child = undefined;
    });
    await this.serves();
  }

  /** Resolves when the broker answers and counts itself among those alive. Rejects when its process ends, or after `deadlineMs`. */
  async serves(deadlineMs = SERVES_MS) {
    const end = performance.now() + deadlineMs;
    for (;;) {
      if (this.#child === undefined) throw new Error(`broker ${this.id} has ended:\n${this.logTail()}`);
      const ids = await aliveBrokers(this.port, 2_000).catch(() => []);
      if (ids.includes(this.id)) return;
      if (performance.now() > end)
        throw new Error(`broker ${this.id} did not serve within ${deadlineMs} ms:\n${this.logTail()}`);
      await wait(50);
    }
  }

  /** Sends the signal; resolves when the process has ended, or at once for one that only pauses it or lets it go on. */
  async kill(signal = 'SIGKILL') {
    const child = this.#child;
    if (child === undefined) return;
    const ends = signal !== 'SIGSTOP' && signal !== 'SIGCONT';
    const exited = ends ? once(child, 'exit') : undefined;
    child.kill(signal);
    await exited;
  }

  /** Ends it in order, as an operator would. A paused one goes on first. */
  async stop() {
    this.#child?.kill('SIGCONT');
    await this.kill('SIGTERM');
  }

  logTail(lines = 40) {
    const text = existsSync(this.#files.log) ? readFileSync(this.#files.log, 'utf8') : '';
    return text.split('\n').slice(-lines).join('\n');
  }
}

/** Kills the broker when this process is gone, however it went: the pipe's end tells. */
function watchOver(pid) {
  const warden = spawn('sh', ['-c', 'read -r _; kill -9 "$0"', `${pid}`], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  warden.on('error', () => undefined);
  warden.stdin?.on('error', () => undefined);
  warden.unref();
  warden.stdin?.unref?.();
  return warden;
}

const LOG4J2 = `status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
`;
const LOG4J = `log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
`;

/** What every node of a cluster of so many brokers has. From three on each is a controller too, so that any one may be killed. */
function commonProperties(brokers) {
  const replicas = Math.min(3, brokers);
  const insync = brokers >= 3 ? 2 : 1;
  return {
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'INTERNAL',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'auto.create.topics.enable': 'false',
    'default.replication.factor': replicas,
    'min.insync.replicas': insync,
    'offsets.topic.num.partitions': 1,
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': insync,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': insync,
    'group.min.session.timeout.ms': 1000,
    'group.initial.rebalance.delay.ms': 0,
    // A follower is waited for until it is fenced: appends stand still that long when one is killed.
    'broker.heartbeat.interval.ms': 500,
    'broker.session.timeout.ms': 4_000,
    'log.cleaner.dedupe.buffer.size': 16 * 1024 * 1024,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'background.threads': 2,
  };
}

/** As Kafka has ids in its files. One that begins with a dash would be taken for an option. */
const newId = () => `A${randomBytes(16).toString('base64url').slice(1)}`;

const textOf = (properties) =>
  Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');

/** Starts a broker, or a cluster of them, and resolves when all serve. The types and options are in `kafka-cluster.d.mts`. */
export async function startKafka({
  home,
  brokers = 1,
  dataDirectory,
  ports = [],
  heap = ['-Xms128m', '-Xmx384m'],
  jvm,
  properties = {},
  advertised = (_, port) => `${HOST}:${port}`,
} = {}) {
  const kafka = findKafka(home);
  const directory = dataDirectory ?? mkdtempSync(join(tmpdir(), 'statefold-kafka-'));
  const clusterFile = join(directory, 'cluster-id');
  const log4j2 = join(directory, 'log4j2.properties');
  const log4j = join(directory, 'log4j.properties');
  mkdirSync(directory, { recursive: true });
  if (!existsSync(clusterFile)) writeFileSync(clusterFile, newId());
  writeFileSync(log4j2, LOG4J2);
  writeFileSync(log4j, LOG4J);

  const controllers = new Map();
  for (let id = 1; id <= (brokers >= 3 ? brokers : 1); id++) controllers.set(id, await freePort());
  const nodes = [];
  for (let id = 1; id <= brokers; id++) {
    const port = ports[id - 1] ?? (await freePort());
    const own = join(directory, `broker-${id}`);
    const files = {
      data: join(own, 'data'),
      properties: join(own, 'server.properties'),
      log: join(own, 'server.log'),
      log4j,
      log4j2,
    };
    const internal = `INTERNAL://${HOST}:${await freePort()}`;
    const controller = controllers.has(id) ? [`CONTROLLER://${HOST}:${controllers.get(id)}`] : [];
    mkdirSync(own, { recursive: true });
    const all = {
      ...commonProperties(brokers),
      'process.roles': controllers.has(id) ? 'broker,controller' : 'broker',
      'node.id': id,
      'controller.quorum.voters': [...controllers].map(([voter, at]) => `${voter}@${HOST}:${at}`).join(','),
      listeners: [`PLAINTEXT://${HOST}:${port}`, internal, ...controller].join(','),
      'advertised.listeners': [`PLAINTEXT://${advertised(id, port)}`, internal].join(','),
      'log.dirs': files.data,
      ...properties,
    };
    writeFileSync(files.properties, textOf(all));
    nodes.push(new Node(kafka, id, port, files, { heap, jvm }));
  }

  const close = async () => {
    // What is thrown away needs no order; what is kept is closed, so that the next start needs no recovery.
    await Promise.all(nodes.map((node) => (dataDirectory === undefined ? node.kill('SIGKILL') : node.stop())));
    if (dataDirectory === undefined) rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const clusterId = readFileSync(clusterFile, 'utf8');
    await Promise.all(nodes.map((node) => node.format(clusterId)));
    await Promise.all(nodes.map((node) => node.start()));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    kafka,
    version: kafka.version,
    directory,
    nodes,
    brokers: nodes.map(({ id, port }) => advertised(id, port)),
    close,
  };
}
