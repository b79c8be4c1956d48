import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { within } from '../../src/core/within.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { Log } from '../../src/log/log.js';
import type { CrashPoint } from './faulty-service.js';
import { FAULTY_SERVICE, programOf, startService, until, type Service } from './service.js';

/** Where clients find the service, whichever process that is at the moment. */
export interface Served {
  /** A service that runs, or the next one that does. */
  up(): Promise<Pick<Service, 'url'>>;
  /** No service comes any more. */
  readonly ended: boolean;
}

/** What a scenario is played in: one process, or several. */
export interface Stage extends Served {
  /** One that runs; where there are several, any of them. */
  readonly service: Service;
  /** Starts what doesn't run; a fuse waits for `light`. */
  start(fuse?: `${CrashPoint}:${number}`): Promise<Service>;
  light(): void;
  end(how?: 'SIGKILL' | 'SIGTERM' | 'its own', deadlineMs?: number): Promise<void>;
  /** The log as it is, while nothing is written. */
  openLog(): Promise<Log>;
}

/** A service that is ended and started again on one data directory, and clients that go on through all of it. */
export class World implements Stage {
  readonly dataDirectory: string;
  readonly #t: Pick<TestContext, 'after' | 'diagnostic'>;
  readonly #env: Readonly<Record<string, string>>;
  readonly #readStore: boolean;
  #service: Service | undefined;
  #up: Promise<Service>;
  #isUp: (service: Service) => void = () => undefined;
  #ended = false;

  constructor(
    t: Pick<TestContext, 'after' | 'diagnostic'>,
    options: {
      readonly dataDirectory?: string;
      readonly env?: Readonly<Record<string, string>>;
      /** Rows of the read store are looked at, so that there has to be one. */
      readonly rows?: boolean;
    } = {},
  ) {
    this.#t = t;
    this.#readStore = options.rows === true;
    this.#env = options.env ?? {};
    this.dataDirectory = options.dataDirectory ?? mkdtempSync(join(tmpdir(), 'statefold-faults-'));
    this.#up = this.#next();
    t.after(async () => {
      this.#ended = true;
      await this.#service?.kill();
      if (options.dataDirectory === undefined)
        rmSync(this.dataDirectory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    });
  }

  #next(): Promise<Service> {
    return new Promise((resolve) => (this.#isUp = resolve));
  }

  /** The service that runs, or the next one that does. */
  up(): Promise<Service> {
    return this.#up;
  }

  /** No service comes any more. */
  get ended(): boolean {
    return this.#ended;
  }

  get service(): Service {
    if (this.#service === undefined) throw new Error('no service runs');
    return this.#service;
  }

  /** Starts the service; with a fuse it waits for `light`. */
  async start(fuse?: `${CrashPoint}:${number}`): Promise<Service> {
    const env = { ...this.#env, ...(fuse === undefined ? {} : { FUSE: fuse }) };
    this.#service = await startService(this.#t, {
      dataDirectory: this.dataDirectory,
      readStore: this.#readStore,
      program: programOf(FAULTY_SERVICE),
      env,
    });
    this.#isUp(this.#service);
    return this.#service;
  }

  /** From now on the crash point counts. */
  light(): void {
    process.kill(this.service.pid, 'SIGUSR2');
  }

  /** Ends the process (or waits for the end that it finds itself). */
  async end(how: 'SIGKILL' | 'SIGTERM' | 'its own' = 'its own', deadlineMs = 60_000): Promise<void> {
    const { service } = this;
    await endedWithin(service, how, deadlineMs, 'the process');
    this.#service = undefined;
    this.#up = this.#next();
  }

  /** The log as it is, while no service runs. */
  openLog(): Promise<Log> {
    return Promise.resolve(new LmdbLog({ path: this.copyOf('log') }));
  }

  /** A copy of a folder of the data directory, for whoever looks into it while no service runs. */
  copyOf(folder: 'log' | 'store'): string {
    const copy = mkdtempSync(join(tmpdir(), 'statefold-copy-'));
    this.#t.after(() => rmSync(copy, { recursive: true, force: true }));
    cpSync(join(this.dataDirectory, folder), copy, { recursive: true });
    return copy;
  }

  /** Process ids of the service's children whose command line holds the text. */
  children(commandLine: string): number[] {
    return childrenOf(this.service.pid).filter((pid) => commandLineOf(pid).includes(commandLine));
  }

  /** Waits until the service has such a child, other than those. */
  async child(commandLine: string, not: readonly number[] = []): Promise<number> {
    let found: number | undefined;
    await until(() => (found = this.children(commandLine).find((pid) => !not.includes(pid))) !== undefined);
    return found ?? 0;
  }
}

/** Ends the service (or waits for the end that it finds itself); `who` is it, for the error, which has what it said. */
export async function endedWithin(
  service: Service,
  how: 'SIGKILL' | 'SIGTERM' | 'its own',
  deadlineMs: number,
  who: string,
): Promise<void> {
  const ended = (how === 'its own' ? service.exited() : service.kill(how)).then(() => true);
  if ((await within(ended, deadlineMs)) === undefined)
    throw new Error(`${who} did not end within ${deadlineMs} ms:\n${service.output}`);
}

/** Its own children, and those that it has started by way of its fork server. */
export const childrenOf = (pid: number): number[] =>
  startedBy(pid).flatMap((child) => [
    child,
    ...(commandLineOf(child).includes('fork-server-process') ? startedBy(child) : []),
  ]);

function startedBy(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return []; // it has ended
  }
}

export function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
