import { artefactsDropped, type Catalog } from '../catalog/catalog.js';
import type { Logger } from '../core/logger.js';
import { Retries } from '../core/retries.js';
import { Steps, type SteppedWork } from '../jobs/steps.js';

export interface UnusedCodeOptions {
  readonly catalog: Pick<Catalog, 'artefacts' | 'onChange'>;
  /** This process is the one that removes what the tenant doesn't use any more. */
  readonly serves: (tenantId: string) => boolean;
  /** Whether the tenant runs the artefact, or may at once: that which is live, being built, or kept for a rollback. */
  readonly runs: (tenantId: string, projectionId: string, artefactId: string) => Promise<boolean>;
  readonly logger: Logger;
}

interface Unused {
  readonly artefactId: string;
  /** Undefined: nothing can run it any more. */
  readonly of: { readonly tenantId: string; readonly projectionId: string } | undefined;
}

/**
 * Removes sources and assemblies from the log that the catalog names no more: those of what was deleted, and of revisions that were
 * forgotten. What a process leaves that ends meanwhile stays in the log, which nobody counts: some megabytes an end at most.
 */
export class UnusedCode implements SteppedWork {
  readonly #options: UnusedCodeOptions;
  readonly #waiting = new Map<string, Unused>();
  readonly #steps = new Steps(this);
  readonly #retries: Retries;

  constructor(options: UnusedCodeOptions) {
    this.#options = options;
    this.#retries = new Retries(options.logger, {});
    options.catalog.onChange((change) => {
      if (change.kind !== 'reducer' && change.kind !== 'projection') return;
      const { previous, value } = change;
      if (previous === undefined || !options.serves(previous.tenantId)) return;
      const isDeleted = value === undefined || change.kind === 'reducer';
      const of = isDeleted ? undefined : { tenantId: previous.tenantId, projectionId: change.id };
      for (const artefactId of artefactsDropped(previous, value)) this.#add({ artefactId, of });
    });
    this.#steps.start();
  }

  /** What was written for an entity that isn't there. */
  remove(artefactId: string): void {
    this.#add({ artefactId, of: undefined });
  }

  close(): void {
    this.#steps.close();
  }

  #add(unused: Unused): void {
    this.#waiting.set(unused.artefactId, unused);
    this.#steps.signal();
  }

  async step(): Promise<boolean> {
    const [next] = this.#waiting.values();
    if (next === undefined) return false;
    // Where it fails, others have their turn before it.
    this.#waiting.delete(next.artefactId);
    try {
      await this.#remove(next);
    } catch (error) {
      this.#waiting.set(next.artefactId, next);
      throw error;
    }
    this.#retries.worked('code that is not used any more is removed from the log again');
    return true;
  }

  async #remove({ artefactId, of }: Unused): Promise<void> {
    const { catalog, serves, runs } = this.#options;
    // It went live while it was forgotten, or its tenant is another process's by now, which knows what runs: it stays.
    if (of !== undefined && (!serves(of.tenantId) || (await runs(of.tenantId, of.projectionId, artefactId)))) return;
    await catalog.artefacts.delete(artefactId);
  }

  failed(error: unknown): void {
    this.#retries.failed(error, 'code that is not used any more could not be removed from the log; trying again');
  }
}
