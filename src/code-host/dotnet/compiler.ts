import { StatefoldError } from '../../core/errors.js';
import type { CompileRequest, CompileResult } from '../code-host.js';
import { type Compilation, CompilerProcess } from './compiler-process.js';
import type { ResolvedOptions } from './options.js';

interface Job {
  readonly request: CompileRequest;
  readonly resolve: (result: CompileResult) => void;
  readonly reject: (error: Error) => void;
}

/** Tenants whose last compilation was given up; past it the oldest is forgotten. */
const MAX_SUSPECTS = 10_000;

/**
 * The resident compilers and who is next: a tenant has one compilation at a time, tenants take turns, and one whose last
 * compilation had to be given up comes after all others and never has all compilers. So no tenant's code keeps another's waiting.
 */
export class Compiler {
  readonly #processes: readonly CompilerProcess[];
  readonly #warm: number;
  readonly #queue: Job[] = [];
  readonly #running = new Map<Job, string | undefined>();
  /** When a tenant that has more waiting was last served. */
  readonly #served = new Map<string, number>();
  readonly #suspects = new Set<string>();
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
      this.#queue.push({ request, resolve, reject });
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const job of [...this.#running.keys(), ...this.#queue.splice(0)]) job.reject(closedError());
    await Promise.all(this.#processes.map((process) => process.close()));
  }

  #next(): void {
    while (!this.#closed) {
      const idle = this.#processes.filter((process) => !process.busy);
      const process = idle.find(({ started }) => started) ?? idle[0];
      const job = process === undefined ? undefined : this.#take();
      if (process === undefined || job === undefined) return;
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

  #done({ request: { tenantId }, resolve }: Job, { result, gaveUp }: Compilation): void {
    if (tenantId !== undefined) {
      this.#suspects.delete(tenantId);
      if (gaveUp) this.#suspects.add(tenantId);
      for (const oldest of this.#suspects) {
        if (this.#suspects.size <= MAX_SUSPECTS) break;
        this.#suspects.delete(oldest);
      }
    }
    resolve(result);
  }

  #take(): Job | undefined {
    let best: { readonly index: number; readonly rank: readonly [number, number] } | undefined;
    const running = new Set(this.#running.values());
    const suspectsRunning = [...running].filter((tenantId) => this.#isSuspect(tenantId)).length;
    const roomForSuspects = suspectsRunning < Math.max(1, this.#processes.length - 1);
    for (const [
      index,
      {
        request: { tenantId },
      },
    ] of this.#queue.entries()) {
      const suspect = this.#isSuspect(tenantId);
      if ((tenantId !== undefined && running.has(tenantId)) || (suspect && !roomForSuspects)) continue;
      const rank = [suspect ? 1 : 0, this.#served.get(tenantId ?? '') ?? 0] as const;
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

  #isSuspect(tenantId: string | undefined): boolean {
    return tenantId !== undefined && this.#suspects.has(tenantId);
  }
}

const closedError = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'The code host is closed.');
