import { StatefoldError } from '../../core/errors.js';
import type { CodeHost, CompileRequest, CompileResult, Runner } from '../code-host.js';
import { refusalOf } from '../../jail/jail.js';

/** Stands in where no code may run: an upload fails to compile, a state can't be had, and both say why. Everything else goes on. */
export class RefusingCodeHost implements CodeHost {
  readonly #refusal: string;
  readonly runners = { runners: 0, waiting: 0, residentBytes: 0 };

  constructor(reason: string) {
    this.#refusal = refusalOf(reason);
  }

  start(): void {
    // There is nothing to start.
  }

  compile(_request: CompileRequest): Promise<CompileResult> {
    const diagnostic = {
      severity: 'error',
      code: 'SF0007',
      message: this.#refusal,
      file: null,
      line: null,
      column: null,
    } as const;
    return Promise.resolve({
      ok: false,
      compilationError: `error SF0007: ${this.#refusal}`,
      diagnostics: [diagnostic],
    });
  }

  runner(): Runner {
    const loaded = new Set<string>();
    const refuse = (): Promise<never> => Promise.reject(new StatefoldError('UNAVAILABLE', this.#refusal));
    return {
      load: (artefactId) => void loaded.add(artefactId),
      has: (artefactId) => loaded.has(artefactId),
      unload: (artefactId) => void loaded.delete(artefactId),
      forget: () => undefined,
      fold: refuse,
      project: refuse,
    };
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
