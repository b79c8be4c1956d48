import type { CodeHost, FoldItem, FoldOutcome, ProjectChange, ProjectRequest, Runner } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import { nextTurn } from '../core/slices.js';

export interface ScratchRunnerOptions {
  readonly codeHost: Pick<CodeHost, 'runner' | 'dispose'>;
  /** Of the runner; no tenant's id. */
  readonly name: string;
  /** After how long without use its process ends, milliseconds. */
  readonly idleMs: number;
  /** Its process has ended so: another use may begin with a new one of these. */
  readonly onIdle: () => void;
}

/** Makes a unit's classes callable under a name; `assembly` is asked where they are not. */
type Load = (artefactId: string, assembly: () => Promise<Buffer>) => Promise<void>;

/** How much longer than its deadline work may take to end, where it waits for something else than the code. */
const GRACE_MS = 5_000;
/** Artefacts that are kept loaded. */
const LOADED = 8;

/** Of what waits for the log. @throws StatefoldError UNAVAILABLE when it takes longer */
export async function inTime<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new StatefoldError('UNAVAILABLE', 'the log does not answer; send the request again')),
      ms,
    );
  });
  try {
    return await Promise.race([work, overdue]);
  } finally {
    clearTimeout(timer);
  }
}

/** The time is over: what is under way in the runner is lost. */
export class DeadlinePassedError extends Error {
  override readonly name = 'DeadlinePassedError';
}

/** A runner of a tenant's code apart from the live one: what it does, takes or breaks is no concern of the live states. One use at a time. */
export class ScratchRunner {
  readonly #options: ScratchRunnerOptions;
  #last: Promise<void> = Promise.resolve();
  #uses = 0;
  #loaded: string[] = [];
  #idle: NodeJS.Timeout | undefined;

  constructor(options: ScratchRunnerOptions) {
    this.#options = options;
  }

  /** Waits for its turn. @throws StatefoldError RATE_LIMITED where that did not come in time; what `work` throws */
  async use<T>(deadlineMs: number, work: (bench: Bench) => Promise<T>): Promise<T> {
    const until = performance.now() + deadlineMs;
    const before = this.#last;
    let end = (): void => undefined;
    this.#last = new Promise((resolve) => (end = resolve));
    this.#uses++;
    clearTimeout(this.#idle);
    try {
      await before;
      const left = until - performance.now();
      if (left <= 0)
        throw new StatefoldError(
          'RATE_LIMITED',
          'others of the same kind are under way for this tenant; send the request again',
          { retryAfterSeconds: 2 },
        );
      return await this.#inTime(left, work);
    } finally {
      end();
      if (--this.#uses === 0) this.#idle = setTimeout(() => this.#end(), this.#options.idleMs).unref();
    }
  }

  async #inTime<T>(ms: number, work: (bench: Bench) => Promise<T>): Promise<T> {
    const bench = new Bench(this.#options.codeHost.runner(this.#options.name), (artefactId, assembly) =>
      this.#load(artefactId, assembly),
    );
    const timer = setTimeout(() => {
      bench.late = true;
      // What the code is at can't be called off otherwise.
      void this.close();
    }, ms);
    try {
      return await inTime(ms + GRACE_MS, work(bench));
    } finally {
      clearTimeout(timer);
    }
  }

  async #load(artefactId: string, assembly: () => Promise<Buffer>): Promise<void> {
    const runner = this.#options.codeHost.runner(this.#options.name);
    if (runner.has(artefactId)) return;
    runner.load(artefactId, await assembly());
    this.#loaded = [...this.#loaded.filter((one) => one !== artefactId), artefactId];
    if (this.#loaded.length > LOADED) runner.unload(this.#loaded.shift() ?? '');
  }

  #end(): void {
    this.#options.onIdle();
    void this.close();
  }

  /** Ends the process. */
  async close(): Promise<void> {
    clearTimeout(this.#idle);
    this.#loaded = [];
    await this.#options.codeHost.dispose(this.#options.name);
  }
}

/** One use of a scratch runner, with its deadline. */
export class Bench {
  late = false;
  readonly load: Load;
  readonly #runner: Runner;

  constructor(runner: Runner, load: Load) {
    this.#runner = runner;
    this.load = load;
  }

  /** @throws DeadlinePassedError */
  async fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    return this.#run(() => this.#runner.fold(items));
  }

  /** @throws DeadlinePassedError */
  async project(request: ProjectRequest): Promise<ProjectChange[]> {
    return this.#run(() => this.#runner.project(request));
  }

  unload(artefactId: string): void {
    this.#runner.unload(artefactId);
  }

  /** What the runner holds of the unit id; without one, of aggregates. */
  forget(unitId?: string): void {
    this.#runner.forget(unitId);
  }

  /** Lets others have the thread. @throws DeadlinePassedError */
  async breathe(): Promise<void> {
    await nextTurn();
    if (this.late) throw new DeadlinePassedError('the time is over');
  }

  async #run<T>(call: () => Promise<T>): Promise<T> {
    await this.breathe();
    try {
      return await call();
    } catch (error) {
      if (this.late) throw new DeadlinePassedError('the time is over', { cause: error });
      throw error;
    }
  }
}
