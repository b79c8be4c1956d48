import { StatefoldError } from '../../core/errors.js';
import type { CompileRequest, CompileResult } from '../code-host.js';
import { decodeCompiled, encodeCompile } from './compile-codec.js';
import { FrameWriter } from './frame-writer.js';
import { HostProcess, type ProcessEnd } from './host-process.js';
import { launchOf } from './launch.js';
import type { ResolvedOptions } from './options.js';
import { type Frame, FrameTooLargeError, Tag, WireError } from './wire.js';

interface Job {
  readonly request: CompileRequest;
  readonly resolve: (result: CompileResult) => void;
  readonly reject: (error: Error) => void;
  /** It was in the compiler when someone killed that; once is no fault of the code. */
  retried: boolean;
}

/** The resident compiler: one process, one compilation at a time. It starts again after it ended. */
export class Compiler {
  readonly #options: ResolvedOptions;
  readonly #writer = new FrameWriter();
  readonly #queue: Job[] = [];
  #process: HostProcess | undefined;
  #current: Job | undefined;
  #deadline: NodeJS.Timeout | undefined;
  /** Why the process was killed from here. */
  #overran: string | undefined;
  #requestId = 0;
  #closed = false;

  constructor(options: ResolvedOptions) {
    this.#options = options;
  }

  /** Starts the process, so that the first upload finds it warm. */
  start(): void {
    if (!this.#closed) void this.#started().ready;
  }

  compile(request: CompileRequest): Promise<CompileResult> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      this.#queue.push({ request, resolve, reject, retried: false });
      void this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const jobs = this.#current === undefined ? this.#queue : [this.#current, ...this.#queue];
    for (const job of jobs.splice(0)) job.reject(closedError());
    this.#queue.length = 0;
    this.#settled();
    this.#process?.kill('closed');
    await this.#process?.ended;
  }

  async #next(): Promise<void> {
    if (this.#current !== undefined || this.#closed) return;
    const job = this.#queue.shift();
    if (job === undefined) return;
    this.#current = job;
    const process = this.#started();
    this.#arm(this.#options.startDeadlineMs, 'did not start in time');
    if (!(await process.ready) || this.#current !== job || process !== this.#process) return;
    try {
      encodeCompile(this.#writer, ++this.#requestId, job.request);
    } catch (error) {
      if (!(error instanceof FrameTooLargeError)) throw error;
      this.#finish(gaveUp('the sources are too large'));
      return;
    }
    this.#arm(this.#options.compileDeadlineMs, `took longer than ${this.#options.compileDeadlineMs.toLocaleString('en-US')} ms`);
    process.send(this.#writer.end());
  }

  #started(): HostProcess {
    if (this.#process?.alive === true) return this.#process;
    const { observer, workDir, compilerHeapLimitBytes, logger } = this.#options;
    const process = new HostProcess(launchOf('compiler', this.#options, compilerHeapLimitBytes), workDir, {
      onFrame: (frame) => this.#receive(frame),
      onEnd: (end) => {
        observer.onProcessEnd?.({ role: 'compiler', tenantId: undefined, pid: process.pid, reason: end.reason });
        if (!this.#closed) logger.warn({ pid: process.pid, reason: end.reason, stderr: end.stderr }, 'the compiler ended');
        this.#ended(process, end);
      },
    });
    this.#process = process;
    if (process.pid !== undefined) observer.onProcessStart?.({ role: 'compiler', tenantId: undefined, pid: process.pid });
    return process;
  }

  #receive(frame: Frame): void {
    const job = this.#current;
    if (job === undefined || frame.tag !== Tag.Compiled || frame.requestId !== this.#requestId) throw new WireError('an answer that nobody asked for');
    this.#finish(decodeCompiled(frame.payload, job.request.kind));
  }

  #ended(process: HostProcess, end: ProcessEnd): void {
    if (this.#process !== process) return;
    this.#process = undefined;
    const job = this.#current;
    if (job === undefined) return;
    if (end.killedFromOutside && !job.retried) {
      job.retried = true;
      this.#settled();
      this.#queue.unshift(job);
      void this.#next();
    } else if (end.neverReady) {
      this.#settled();
      job.reject(new StatefoldError('UNAVAILABLE', `The compiler of tenants' code could not be started (${end.reason}).`));
      void this.#next();
    } else {
      this.#finish(gaveUp(this.#overran ?? `its process ended (${end.reason})`));
    }
  }

  #arm(milliseconds: number, what: string): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => {
      this.#overran = `it ${what}`;
      this.#process?.kill(what);
    }, milliseconds);
  }

  #finish(result: CompileResult): void {
    const job = this.#current;
    this.#settled();
    job?.resolve(result);
    void this.#next();
  }

  #settled(): void {
    clearTimeout(this.#deadline);
    this.#overran = undefined;
    this.#current = undefined;
  }
}

const closedError = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'The code host is closed.');

function gaveUp(why: string): CompileResult {
  const message = `The compiler gave up: ${why}.`;
  const diagnostic = { severity: 'error', code: 'SF0006', message, file: null, line: null, column: null } as const;
  return { ok: false, compilationError: `error SF0006: ${message}`, diagnostics: [diagnostic] };
}
