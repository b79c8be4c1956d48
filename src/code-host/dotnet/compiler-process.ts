import { StatefoldError } from '../../core/errors.js';
import type { CompileRequest, CompileResult } from '../code-host.js';
import type { PackedSources } from '../packed-sources.js';
import { decodeCompiled, encodeCompile } from './compile-codec.js';
import { FrameWriter } from './frame-writer.js';
import { HostProcess, type ProcessEnd } from './host-process.js';
import type { KeptCompilations } from './kept-compilations.js';
import { within } from '../../core/within.js';
import { launchOf } from '../../jail/launch.js';
import type { ResolvedOptions } from './options.js';
import { excessOf, processorMsOf, usageOf, waitsForLeftovers } from '../../jail/process-usage.js';
import { type Frame, FrameTooLargeError, Tag, WireError } from './wire.js';

export interface Compilation {
  readonly result: CompileResult;
  /** The compiler did not come to an end with the code: it was killed, or ended, over it. */
  readonly gaveUp: boolean;
  /** Processor time that it took, milliseconds; where the kernel doesn't tell it, how long. 0: it was known, or given up. */
  readonly usedMs: number;
}

interface Job {
  readonly request: CompileRequest;
  readonly resolve: (compilation: Compilation) => void;
  readonly reject: (error: Error) => void;
  /** It was in the compiler when someone killed that; once is no fault of the code. */
  readonly retried: boolean;
  /** Under which its outcome is kept. */
  key?: string;
}

/** What others leave of the processors is too little when a job has less than this share of one, after so many milliseconds. */
const STARVED = { share: 0.1, afterMs: 2_000 };
/** A job that is over its deadline with less than this share of a processor is over it for want of one. */
const ENOUGH = 0.5;
/** After that it has a share of its own for so long, milliseconds: who keeps the processors so busy does so for a while. */
const OWN_SHARE_MS = 600_000;
/** What was killed on what others leave may take its time to die; nobody waits longer for it, milliseconds. */
const LEAVING_MS = 1_000;

/**
 * One compiler: a resident process, one compilation at a time. It starts again after it ended. It has what others leave of the processors:
 * a compilation of a second would hold up each append of all tenants, and nobody waits for it so urgently. Where that is too little it is
 * started once more, with a share of its own, and begins anew.
 */
export class CompilerProcess {
  readonly #options: ResolvedOptions;
  readonly #writer = new FrameWriter();
  #process: HostProcess | undefined;
  #job: Job | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  /** Why the process was killed from here. */
  #killedFor: string | undefined;
  #requestId = 0;
  #closed = false;
  /** Until then processes are started with a share of their own. */
  #ownShareUntil = -Infinity;
  /** Of the process: it has what others leave, where there is a launcher and more than one processor. */
  #isSpare = false;
  /** What the process had used when it was asked for the job. */
  #asked: { readonly at: number; readonly usedMs: number } | undefined;
  /** Processes that were replaced, and have not ended yet. */
  readonly #leaving = new Set<HostProcess>();

  constructor(options: ResolvedOptions) {
    this.#options = options;
  }

  get busy(): boolean {
    return this.#job !== undefined;
  }

  /** It has a process, which the first compilation need not wait for. */
  get started(): boolean {
    return this.#process?.alive === true;
  }

  start(): void {
    if (!this.#closed) void this.#running().ready;
  }

  /** Not while it is busy. @throws StatefoldError UNAVAILABLE when no process can be started */
  compile(request: CompileRequest): Promise<Compilation> {
    return new Promise((resolve, reject) => {
      this.#job = { request, resolve, reject, retried: false };
      void this.#send(this.#job);
    });
  }

  /** What it was at is left unanswered. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#idle();
    this.#process?.kill('closed');
    await this.#process?.ended;
    await within(Promise.all([...this.#leaving].map(({ ended }) => ended)), LEAVING_MS);
  }

  async #send(job: Job): Promise<void> {
    if (this.#options.kept !== undefined && job.key === undefined) {
      const known = await this.#known(job, this.#options.kept);
      if (this.#job !== job) return;
      if (known !== undefined) {
        this.#finish({ result: known, gaveUp: false, usedMs: 0 });
        return;
      }
    }
    const process = this.#running();
    const { compileDeadlineMs, pollMs, startDeadlineMs } = this.#options;
    this.#ask(process);
    this.#watch = setInterval(() => this.#look(process), pollMs).unref();
    this.#arm(startDeadlineMs, 'it did not start in time');
    const isAt = (): boolean => this.#job === job && process === this.#process;
    if (!(await process.ready) || !isAt()) return;
    clearTimeout(this.#deadline);
    this.#asked = undefined;
    const sources = await this.#sourcesOf(job);
    if (sources === undefined || !isAt()) return;
    try {
      encodeCompile(this.#writer, ++this.#requestId, { ...job.request, sources }, this.#options.determinismChecks);
    } catch (error) {
      if (!(error instanceof FrameTooLargeError)) throw error;
      this.#finish({ result: gaveUp('the sources are too large'), gaveUp: false, usedMs: 0 });
      return;
    }
    this.#ask(process);
    this.#arm(compileDeadlineMs, `it took longer than ${compileDeadlineMs.toLocaleString('en-US')} ms`);
    process.send(this.#writer.end());
  }

  /** What came of the same code before. */
  async #known(job: Job, kept: KeptCompilations): Promise<CompileResult | undefined> {
    const sources = await this.#sourcesOf(job);
    if (sources === undefined) return undefined;
    try {
      job.key = await kept.keyOf(job.request, sources);
      return await kept.find(job.key, job.request.kind);
    } catch (err) {
      this.#options.logger.warn({ err }, 'it is not known whether the code was compiled before');
      return undefined;
    }
  }

  /** Undefined: they can't be read, or are not wanted any more. The job is rejected then. */
  async #sourcesOf(job: Job): Promise<PackedSources | undefined> {
    try {
      const { sources } = job.request;
      return typeof sources === 'function' ? await sources() : sources;
    } catch (error) {
      if (this.#job === job) {
        this.#idle();
        job.reject(error as Error);
      }
      return undefined;
    }
  }

  #running(): HostProcess {
    if (this.#process?.alive === true) return this.#process;
    const { observer, workDir, compilerHeapLimitBytes, logger } = this.#options;
    this.#isSpare = this.#mayBeSpare;
    const launch = launchOf('compiler', this.#options, compilerHeapLimitBytes, [], this.#isSpare);
    const process = new HostProcess(launch, workDir, {
      onFrame: (frame) => this.#receive(frame),
      expects: () => this.#job !== undefined,
      onUnexpected: (err) => logger.error({ err }, 'what the compiler said could not be read'),
      onStart: (pid) => observer.onProcessStart?.({ role: 'compiler', tenantId: undefined, pid }),
      onEnd: (end) => {
        observer.onProcessEnd?.({ role: 'compiler', tenantId: undefined, pid: process.pid, reason: end.reason });
        const hasLeft = this.#leaving.delete(process);
        if (!this.#closed && !hasLeft)
          logger.warn({ pid: process.pid, reason: end.reason, stderr: end.stderr }, 'the compiler ended');
        this.#ended(process, end);
      },
    });
    this.#process = process;
    return process;
  }

  #look(process: HostProcess): void {
    const { pid } = process;
    const { compilerMaxResidentBytes, maxThreads, observer } = this.#options;
    // Nothing is said of it once more while it dies.
    if (!process.alive) return;
    if (this.#lacks(STARVED.share, STARVED.afterMs)) return this.#starve();
    const usage = pid === undefined ? undefined : usageOf(pid);
    const excess = usage && excessOf(usage, compilerMaxResidentBytes, maxThreads);
    if (excess === undefined) return;
    observer.onExceeded?.({ role: 'compiler', tenantId: undefined, reason: excess });
    this.#kill(`it ${excess}`);
  }

  #receive(frame: Frame): undefined {
    const job = this.#job;
    if (job === undefined || frame.tag !== Tag.Compiled || frame.requestId !== this.#requestId)
      throw new WireError('an answer that nobody asked for');
    const result = decodeCompiled(frame.payload, job.request.kind);
    const usedMs = this.#usedMs();
    // A copy: the frame's memory is another's soon.
    if (job.key !== undefined) void this.#options.kept?.keep(job.key, Buffer.from(frame.payload));
    this.#finish({ result, gaveUp: false, usedMs });
  }

  #ended(process: HostProcess, end: ProcessEnd): void {
    if (this.#process !== process) return;
    this.#process = undefined;
    const job = this.#job;
    if (job === undefined) return;
    if (end.killedFromOutside && !job.retried) {
      this.#again({ ...job, retried: true });
    } else if (end.neverReady) {
      this.#idle();
      job.reject(
        new StatefoldError('UNAVAILABLE', `The compiler of tenants' code could not be started (${end.reason}).`),
      );
    } else {
      const why = this.#killedFor ?? this.#whyEnded(end.reason);
      // Warm again before someone waits for it.
      this.start();
      this.#finish({ result: gaveUp(why), gaveUp: true, usedMs: 0 });
    }
  }

  #whyEnded(reason: string): string {
    if (reason === 'out of memory')
      return `it ran out of its ${Math.round(this.#options.compilerHeapLimitBytes / 1024 / 1024)} MiB of memory`;
    if (reason === 'stack overflow') return 'the code is nested too deeply';
    return `its process ended (${reason})`;
  }

  #arm(milliseconds: number, why: string): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => {
      if (this.#process?.alive !== true) return;
      if (this.#lacks(ENOUGH)) this.#starve();
      else this.#kill(why);
    }, milliseconds);
  }

  get #mayBeSpare(): boolean {
    return this.#options.compilersGiveWay && this.#leaving.size === 0 && performance.now() >= this.#ownShareUntil;
  }

  #ask({ pid }: HostProcess): void {
    this.#asked = { at: performance.now(), usedMs: (pid === undefined ? undefined : processorMsOf(pid)) ?? 0 };
  }

  /** Since the process was asked for the job. */
  #usedMs(): number {
    if (this.#asked === undefined) return 0;
    const { pid } = this.#process ?? {};
    const used = pid === undefined ? undefined : processorMsOf(pid);
    return used === undefined ? performance.now() - this.#asked.at : used - this.#asked.usedMs;
  }

  /** It was asked so long ago, has what others leave, wants more, and had less than this share of a processor since. */
  #lacks(share: number, afterMs = 0): boolean {
    const { pid } = this.#process ?? {};
    if (!this.#isSpare || this.#asked === undefined || pid === undefined) return false;
    const passedMs = performance.now() - this.#asked.at;
    return passedMs >= afterMs && this.#usedMs() < share * passedMs && waitsForLeftovers(pid);
  }

  /** The job is begun anew by a process that has a share of its own: at once, since on what others leave a process takes its time to die, too. */
  #starve(): void {
    const [job, process] = [this.#job, this.#process];
    if (process === undefined) return;
    this.#ownShareUntil = performance.now() + OWN_SHARE_MS;
    this.#leave(process, 'others left it too little of the processors');
    this.#options.logger.info(
      { pid: process.pid },
      'others left the compiler too little of the processors: it is started again, with a share of its own for a while',
    );
    if (job !== undefined) this.#again({ ...job });
  }

  #leave(process: HostProcess, why: string): void {
    if (this.#process === process) this.#process = undefined;
    this.#leaving.add(process);
    process.kill(why);
  }

  /** A job of its own: what is still under way of the former one, a read of its sources say, belongs to that. */
  #again(job: Job): void {
    this.#idle();
    this.#job = job;
    void this.#send(job);
  }

  #kill(why: string): void {
    this.#killedFor = why;
    this.#process?.kill(why);
  }

  #finish(compilation: Compilation): void {
    const job = this.#job;
    this.#idle();
    const former = this.#process;
    // What others leave may be enough again.
    if (!this.#isSpare && former?.alive === true && this.#mayBeSpare) {
      this.#process = undefined;
      this.start();
      this.#leave(former, 'it is replaced by one that has what others leave of the processors');
    }
    job?.resolve(compilation);
  }

  #idle(): void {
    clearTimeout(this.#deadline);
    clearInterval(this.#watch);
    this.#killedFor = undefined;
    this.#asked = undefined;
    this.#job = undefined;
  }
}

function gaveUp(why: string): CompileResult {
  const message = `The compiler gave up: ${why}.`;
  const diagnostic = { severity: 'error', code: 'SF0006', message, file: null, line: null, column: null } as const;
  return { ok: false, compilationError: `error SF0006: ${message}`, diagnostics: [diagnostic] };
}
