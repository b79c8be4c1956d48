import { StatefoldError } from '../core/errors.js';
import type { Runner } from './code-host.js';

/** Nothing names the code any more, and it has left the log: it is not run again, however often it is tried. */
export class ForgottenCodeError extends StatefoldError {
  constructor(artefactId: string) {
    super('UNAVAILABLE', `the code of artefact ${artefactId} is not kept any more`);
  }
}

/** What is known of a tenant's compiled code. */
export interface CodeSource {
  /** @throws ForgottenCodeError */
  assembly(artefactId: string): Promise<Buffer>;
  /** Of a reducer's artefact, or of `<projectionId>@<revision>`: it has too many strikes, its code is not to be run. */
  halted?(unitId: string): boolean;
}

/** Assemblies on their way into a runner, which all tasks of a tenant share. */
const LOADING = new WeakMap<Runner, Map<string, Promise<void>>>();

/** A tenant's code as its folds have it: the process that runs it, with what they need loaded there. */
export class TenantCode {
  readonly runner: Runner;
  readonly #source: CodeSource;
  readonly #loading: Map<string, Promise<void>>;
  readonly #forgotten = new Set<string>();

  constructor(runner: Runner, source: CodeSource) {
    this.runner = runner;
    this.#source = source;
    this.#loading = LOADING.get(runner) ?? new Map<string, Promise<void>>();
    LOADING.set(runner, this.#loading);
  }

  isHalted(unitId: string): boolean {
    return this.#source.halted?.(unitId) === true;
  }

  /** The code was asked for, and is not kept any more. */
  isForgotten(artefactId: string): boolean {
    return this.#forgotten.has(artefactId);
  }

  /** Resolves when the artefact's classes are callable, with false where the code is not kept any more. */
  async loads(artefactId: string): Promise<boolean> {
    try {
      await this.load(artefactId);
      return true;
    } catch (error) {
      if (!(error instanceof ForgottenCodeError)) throw error;
      this.#forgotten.add(artefactId);
      return false;
    }
  }

  /** Makes an artefact's classes callable in the runner; undefined when they are. */
  load(artefactId: string): Promise<void> | undefined {
    if (this.runner.has(artefactId)) return undefined;
    const underWay = this.#loading.get(artefactId);
    if (underWay !== undefined) return underWay;
    const loading = this.#load(artefactId).finally(() => this.#loading.delete(artefactId));
    this.#loading.set(artefactId, loading);
    return loading;
  }

  async #load(artefactId: string): Promise<void> {
    this.runner.load(artefactId, await this.#source.assembly(artefactId));
  }
}
