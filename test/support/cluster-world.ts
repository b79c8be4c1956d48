import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import type { CrashPoint } from './faulty-service.js';
import { freshPrefix } from './kafka.js';
import { endedWithin, type Stage } from './load-world.js';
import { endUsersOf, FAULTY_SERVICE, programOf, startService, until, type Service } from './service.js';
import { MASTER_KEY } from './peers.js';

export interface ClusterOptions {
  /** host:port each. */
  readonly brokers: readonly string[];
  readonly processes: number;
  /** The one that clients go to; any that runs unless given. */
  readonly entry?: number;
  /** Of all processes, and of some. */
  readonly env?: Readonly<Record<string, string>>;
  readonly envOf?: (process: number) => Readonly<Record<string, string>>;
}

interface Member {
  readonly dataDirectory: string;
  service: Service | undefined;
  paused: boolean;
}

/** How soon a process that is gone is known to be: as short as the test's broker allows. */
export const SESSION_MS = 2000;
/** A clean end waits for the answers under way, which have a deadline of their own. */
const END_MS = 90_000;
const FUSE_FILE = 'fuse';

/** Several processes of one service on one Kafka, ended, paused and started again; clients go to any that runs. */
export class ClusterWorld implements Stage {
  readonly prefix = freshPrefix();
  readonly #t: Pick<TestContext, 'after'>;
  readonly #options: ClusterOptions;
  readonly #members: Member[];
  readonly #waiting = new Set<() => void>();
  readonly #programs = new Map<number, string>();
  #turn = 0;
  #ended = false;

  constructor(t: Pick<TestContext, 'after'>, options: ClusterOptions) {
    this.#t = t;
    this.#options = options;
    this.#members = Array.from({ length: options.processes }, () => ({
      dataDirectory: mkdtempSync(join(tmpdir(), 'statefold-cluster-')),
      service: undefined,
      paused: false,
    }));
    t.after(async () => {
      this.#ended = true;
      for (const { dataDirectory } of this.#members) await endUsersOf(dataDirectory);
      await until(() => this.#members.every(({ dataDirectory }) => removed(dataDirectory)));
    });
  }

  get ended(): boolean {
    return this.#ended;
  }

  get service(): Service {
    const running = this.#running();
    const member = running[this.#turn++ % running.length];
    if (member?.service === undefined) throw new Error('no process runs');
    return member.service;
  }

  /** A process by its number. */
  at(i: number): Service {
    const service = this.#members[i]?.service;
    if (service === undefined) throw new Error(`process ${i} does not run`);
    return service;
  }

  #running(): Member[] {
    const { entry } = this.#options;
    return this.#members.filter(
      ({ service, paused }, i) => service !== undefined && !paused && (entry === undefined || entry === i),
    );
  }

  /** One that runs, each in its turn; or the next that does. */
  async up(): Promise<Service> {
    while (this.#running().length === 0) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    return this.service;
  }

  async start(fuse?: `${CrashPoint}:${number}`): Promise<Service> {
    await Promise.all(
      this.#members.map(async ({ service }, i) => (service === undefined ? this.startOne(i, fuse) : service)),
    );
    return this.service;
  }

  async startOne(i: number, fuse?: `${CrashPoint}:${number}`): Promise<Service> {
    const member = this.#member(i);
    const { brokers, env, envOf } = this.#options;
    const service = await startService(this.#t, {
      dataDirectory: member.dataDirectory,
      readStore: true,
      program: this.#programs.get(i) ?? programOf(FAULTY_SERVICE),
      env: {
        KAFKA_BROKERS: brokers.join(','),
        KAFKA_TOPIC_PREFIX: this.prefix,
        KAFKA_SESSION_TIMEOUT_MS: String(SESSION_MS),
        // Nobody is there: what the log and its owners do must not need the read store, and each process of its own would start one.
        CLICKHOUSE_URL: 'http://127.0.0.1:9',
        STATEFOLD_MASTER_KEY: MASTER_KEY,
        ...(fuse === undefined ? { FUSE_FILE: join(member.dataDirectory, FUSE_FILE) } : { FUSE: fuse }),
        ...env,
        ...envOf?.(i),
      },
    });
    member.service = service;
    member.paused = false;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
    // One that finds its own end leaves no process behind that clients would be sent to.
    void service.exited().then(() => {
      if (member.service === service) member.service = undefined;
    });
    return service;
  }

  /** What the process is from its next start on; undefined: the build of this tree. */
  becomes(i: number, program: string | undefined): void {
    if (program === undefined) this.#programs.delete(i);
    else this.#programs.set(i, program);
  }

  light(): void {
    for (const [i, { service }] of this.#members.entries()) if (service !== undefined) this.lightOne(i);
  }

  /** From now on this crash point of the process counts. */
  lightOne(i: number, fuse?: `${CrashPoint}:${number}`): void {
    if (fuse !== undefined) writeFileSync(join(this.#member(i).dataDirectory, FUSE_FILE), fuse);
    process.kill(this.at(i).pid, 'SIGUSR2');
  }

  async endOne(i: number, how: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    const member = this.#member(i);
    const { service } = member;
    member.service = undefined;
    if (service === undefined) return;
    await endedWithin(service, how, END_MS, `process ${i}`);
    if (service.output.includes('did not end in time'))
      throw new Error(`process ${i} did not end by itself:\n${service.output.slice(-20_000)}`);
  }

  /** Stopped as by a long pause of the machine; clients go elsewhere. */
  pause(i: number): void {
    this.#member(i).paused = true;
    process.kill(this.at(i).pid, 'SIGSTOP');
  }

  resume(i: number): void {
    process.kill(this.at(i).pid, 'SIGCONT');
    this.#member(i).paused = false;
  }

  async end(how: 'SIGKILL' | 'SIGTERM' | 'its own' = 'SIGTERM'): Promise<void> {
    if (how === 'its own') await until(() => this.#members.some(({ service }) => service === undefined));
    else await Promise.all(this.#members.map((_, i) => this.endOne(i, how)));
  }

  /** The number of the process that owns the tenant of the tests' key, as its peers see it. */
  async owner(): Promise<number> {
    let found = -1;
    await until(async () => {
      for (const [i, { service, paused }] of this.#members.entries()) {
        if (service === undefined || paused) continue;
        const answer = await service.get('/events/nothing-of-that-name', { asPeer: true });
        if (answer.status === 404) found = i;
      }
      return found >= 0;
    });
    return found;
  }

  openLog(): Promise<Log> {
    return Promise.resolve(new KafkaLog({ brokers: this.#options.brokers, prefix: this.prefix }));
  }

  #member(i: number): Member {
    const member = this.#members[i];
    if (member === undefined) throw new Error(`there is no process ${i}`);
    return member;
  }
}

function removed(directory: string): boolean {
  try {
    rmSync(directory, { recursive: true, force: true });
    return true;
  } catch {
    return false;
  }
}
