import { StatefoldError } from '../../core/errors.js';
import type { CompileRequest, CompileResult } from '../code-host.js';
import { type Compilation, CompilerProcess } from './compiler-process.js';
import type { ResolvedOptions } from './options.js';

interface Job {
  readonly request: CompileRequest;
  readonly resolve: (result: CompileResult) => void;
  readonly reject: (error: Error) => void;
  /** Until its turn comes. */
  readonly overdue: NodeJS.Timeout | undefined;
}

/** Tenants whose last compilation took long; past it the oldest is forgotten. */
const MAX_SLOW = 10_000;
/** Of a processor: what is compiled in a tenth of a second mostly; a large project takes so long. */
const LONG_MS = 2_000;
const RETRY_AFTER_SECONDS = 5;

/**
 * The resident compilers and who is next: a tenant has one compilation at a time, tenants take turns, and one whose last
 * compilation took long, or had to be given up, comes after all others; such tenants never have all compilers. So no tenant's code
 * keeps another's waiting.
 */
export class Compiler {
  readonly #processes: readonly CompilerProcess[];
  readonly #warm: number;
  readonly #queue: Job[] = [];
  readonly #running = new Map<Job, string | undefined>();
  /** When a tenant that has more waiting was last served. */
  readonly #served = new Map<string, number>();
  readonly #slow = new Set<string>();
  #turn = 0;
  #closed = false;

  constructor(options: ResolvedOptions) {
    this.#warm = options.compilersWarm;
    this.#processes = Array.from({ length: Math.max(1, options.compilers) }, () => new CompilerProcess(options));
  }

  /** Starts the warm processes, so that the first uploads don't wait for them; the others start when they are needed. */
  start(): void {
    for (const process of this.#processes.slice(0, this.#warm)) process.start();
  }

  compile(request: CompileRequest): Promise<CompileResult> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      const { waitMs } = request;
      const job: Job = {
        request,
        resolve,
        reject,
        overdue: waitMs === undefined ? undefined : setTimeout(() => this.#giveUp(job), waitMs),
      };
      this.#queue.push(job);
      this.#next();
    });
  }

  #giveUp(job: Job): void {
    this.#queue.splice(this.#queue.indexOf(job), 1);
    job.reject(
      new StatefoldError(
        'RATE_LIMITED',
        'The compilers are at other code, of this tenant first; nothing was compiled. Send the request again when uploads of the tenant are compiled.',
        { retryAfterSeconds: RETRY_AFTER_SECONDS },
      ),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const job of [...this.#running.keys(), ...this.#queue.splice(0)]) {
      clearTimeout(job.overdue);
      job.reject(closedError());
    }
    await Promise.all(this.#processes.map((process) => process.close()));
  }

  #next(): void {
    while (!this.#closed) {
      const idle = this.#processes.filter((process) => !process.busy);
      const process = idle.find(({ started }) => started) ?? idle[0];
      const job = process === undefined ? undefined : this.#take();
      if (process === undefined || job === undefined) return;
      clearTimeout(job.overdue);
      const { tenantId } = job.request;
      this.#running.set(job, tenantId);
      process
        .compile(job.request)
        .then(
          (compilation) => this.#done(job, compilation),
          (error: Error) => job.reject(error),
        )
        .finally(() => {
          this.#running.delete(job);
          this.#next();
        });
    }
  }

  #done({ request: { tenantId }, resolve }: Job, { result, gaveUp, usedMs }: Compilation): void {
    if (tenantId !== undefined) {
      this.#slow.delete(tenantId);
      if (gaveUp || usedMs > LONG_MS) this.#slow.add(tenantId);
      for (const oldest of this.#slow) {
        if (this.#slow.size <= MAX_SLOW) break;
        this.#slow.delete(oldest);
      }
    }
    resolve(result);
  }

  #take(): Job | undefined {
    let best: { readonly index: number; readonly rank: readonly [number, number] } | undefined;
    const running = new Set(this.#running.values());
    const slowRunning = [...running].filter((tenantId) => this.#isSlow(tenantId)).length;
    const roomForSlow = slowRunning < Math.max(1, this.#processes.length - 1);
    for (const [
      index,
      {
        request: { tenantId },
      },
    ] of this.#queue.entries()) {
      const slow = this.#isSlow(tenantId);
      if ((tenantId !== undefined && running.has(tenantId)) || (slow && !roomForSlow)) continue;
      const rank = [slow ? 1 : 0, this.#served.get(tenantId ?? '') ?? 0] as const;
      if (best === undefined || rank[0] < best.rank[0] || (rank[0] === best.rank[0] && rank[1] < best.rank[1]))
        best = { index, rank };
    }
    if (best === undefined) return undefined;
    const [job] = this.#queue.splice(best.index, 1);
    const tenantId = job?.request.tenantId;
    if (tenantId === undefined) return job;
    if (this.#queue.some(({ request }) => request.tenantId === tenantId)) this.#served.set(tenantId, ++this.#turn);
    else this.#served.delete(tenantId);
    return job;
  }

  #isSlow(tenantId: string | undefined): boolean {
    return tenantId !== undefined && this.#slow.has(tenantId);
  }
}

const closedError = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'The code host is closed.');
