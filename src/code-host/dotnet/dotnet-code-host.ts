import { mkdirSync } from 'node:fs';
import { StatefoldError } from '../../core/errors.js';
import type { CodeHost, CompileRequest, CompileResult, Runner } from '../code-host.js';
import { Compiler } from './compiler.js';
import { DotnetRunner } from './dotnet-runner.js';
import { type DotnetCodeHostOptions, resolveOptions, type ResolvedOptions } from './options.js';
import { RunnerPool } from './runner-pool.js';

export type { CodeHostObserver, DotnetCodeHostOptions } from './options.js';

/** Tenants' C#: compiled by one resident process, run by a process a tenant. */
export class DotnetCodeHost implements CodeHost {
  readonly #options: ResolvedOptions;
  readonly #compiler: Compiler;
  readonly #pool: RunnerPool;
  readonly #runners = new Map<string, DotnetRunner>();
  #closed = false;

  constructor(options: DotnetCodeHostOptions) {
    this.#options = resolveOptions(options);
    mkdirSync(this.#options.workDir, { recursive: true });
    this.#compiler = new Compiler(this.#options);
    this.#pool = new RunnerPool(this.#options);
  }

  /** Starts the warm compilers, so that the first uploads don't wait for them. */
  start(): void {
    this.#compiler.start();
  }

  compile(request: CompileRequest): Promise<CompileResult> {
    return this.#compiler.compile(request);
  }

  runner(tenantId: string): Runner {
    if (this.#closed) throw new StatefoldError('UNAVAILABLE', 'The code host is closed.');
    let runner = this.#runners.get(tenantId);
    if (runner === undefined)
      this.#runners.set(tenantId, (runner = new DotnetRunner(tenantId, this.#options, this.#pool)));
    return runner;
  }

  /** Processes that run tenants' code, tenants that wait for one, and what the processes take. */
  get runners(): RunnerPool['figures'] {
    return this.#pool.figures;
  }

  async dispose(tenantId: string): Promise<void> {
    const runner = this.#runners.get(tenantId);
    this.#runners.delete(tenantId);
    await runner?.close();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const runners = [...this.#runners.values()];
    this.#runners.clear();
    await Promise.all([this.#compiler.close(), ...runners.map((runner) => runner.close())]);
    this.#options.marks?.close();
  }
}
