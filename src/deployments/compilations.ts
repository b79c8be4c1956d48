import type { ArtefactFields, Catalog } from '../catalog/catalog.js';
import type { CatalogRoom } from '../catalog/catalog-room.js';
import { isClosed } from '../catalog/suspension.js';
import type { CodeHost, CompileResult } from '../code-host/code-host.js';
import { backOff, type BackOff } from '../core/back-off.js';
import { hasCode, StatefoldError, TenantSuspendedError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { pause } from '../core/pause.js';
import type { Tally } from '../core/tally.js';
import type { PackedSources } from '../code-host/packed-sources.js';

/** What a compilation is of, and where its outcome goes. */
export interface Compilation {
  readonly kind: 'reducer' | 'projection';
  readonly fields: ArtefactFields;
  /** Puts the outcome into the catalog. */
  readonly finish: (result: CompileResult) => Promise<void>;
  /** It is in the catalog still. */
  readonly isNamed: () => boolean;
}

export interface CompilationsOptions {
  readonly catalog: Pick<Catalog, 'artefacts' | 'get'>;
  readonly codeHost: Pick<CodeHost, 'compile'>;
  readonly room: CatalogRoom;
  readonly sourcesOf: (artefactId: string) => Promise<PackedSources>;
  /** Of each tenant, what waits for its compilation: counted here as long as it does, or is under way. */
  readonly pending: Tally;
  /** Nobody names the artefact any more. */
  readonly unnamed: (artefactId: string) => void;
  readonly logger: Logger;
  /** Between the tries of a compilation whose outcome could not be stored. */
  readonly retry?: BackOff | undefined;
  readonly observer?: { compiled?(kind: 'reducer' | 'projection', ok: boolean, seconds: number): void } | undefined;
}

const RETRY: BackOff = { first: 2000, last: 60_000 };
/** So often a compilation is tried that fails for no reason that is known to pass. */
const ATTEMPTS = 5;
/** So often where the log doesn't take what came of it, which passes mostly: for about twenty minutes. */
const ATTEMPTS_OF_LOG = 25;

/** Compilations that wait or are under way. */
export class Compilations {
  readonly #options: CompilationsOptions;
  /** By artefact. */
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();

  constructor(options: CompilationsOptions) {
    this.#options = options;
  }

  /** None is tried again; resolves when those that are under way have ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#underWay.values());
  }

  /**
   * Tries until it has an outcome: where what it failed for does not pass, that is the outcome. What is left at the end of the process goes on
   * at the next start. Once an artefact, however often it is asked for.
   */
  begin(compilation: Compilation): void {
    const { tenantId, artefactId } = compilation.fields;
    if (this.#underWay.has(artefactId)) return;
    this.#options.pending.add(tenantId, 1);
    this.#underWay.set(
      artefactId,
      this.#attempts(compilation).finally(() => {
        this.#underWay.delete(artefactId);
        this.#options.pending.add(tenantId, -1);
      }),
    );
  }

  async #attempts(compilation: Compilation): Promise<void> {
    const { catalog, retry = RETRY } = this.#options;
    const { signal } = this.#closing;
    const isOver = (): boolean => isClosed(catalog, compilation.fields.tenantId) || !compilation.isNamed();
    for (let attempt = 1; !signal.aborted && !isOver(); attempt++) {
      try {
        return await this.#compile(compilation);
      } catch (error) {
        // It is taken up again when that is taken back; what nobody names any more is over.
        if (error instanceof TenantSuspendedError || !compilation.isNamed()) continue;
        if (isLasting(error, attempt) && (await this.#failed(compilation, error))) return;
        this.#options.logger.warn({ err: error }, 'a compilation did not end; it is tried again');
        await pause(backOff(attempt - 1, retry), { signal });
      }
    }
  }

  /** Tells its owner that it has no outcome, and why. False: that could not be stored either. */
  async #failed({ fields, finish }: Compilation, error: unknown): Promise<boolean> {
    const { logger } = this.#options;
    const { tenantId, artefactId } = fields;
    logger.error({ err: error, tenantId, artefactId }, 'a compilation has failed: what came of it could not be stored');
    try {
      await unlessDeleted(() => finish(notStored(error)));
      return true;
    } catch (cause) {
      logger.warn({ err: cause, tenantId, artefactId }, 'nor could it be stored that it has failed');
      return false;
    }
  }

  async #compile({ kind, fields, finish, isNamed }: Compilation): Promise<void> {
    const { codeHost, catalog, room, sourcesOf, unnamed, observer } = this.#options;
    const { tenantId, artefactId } = fields;
    let release: (() => void) | undefined;
    // Read at their turn: what waits takes no memory.
    const sources = async (): Promise<PackedSources> => {
      if (isClosed(catalog, tenantId)) throw new TenantSuspendedError();
      // Those before it may have taken what was there when it came.
      release ??= room.reserve(tenantId);
      return sourcesOf(artefactId);
    };
    const started = performance.now();
    try {
      const result = await codeHost.compile({ tenantId, kind, sources }).catch(unlessQuota);
      observer?.compiled?.(kind, result.ok, (performance.now() - started) / 1000);
      if (result.ok) {
        // First what it is, so that whatever has an assembly has it too.
        await catalog.artefacts.put(artefactId, 'types', result.stateTypes);
        await catalog.artefacts.put(artefactId, 'assembly', result.assembly);
      }
      await unlessDeleted(() => finish(result));
      // It was deleted meanwhile, and what it had until then.
      if (!isNamed()) unnamed(artefactId);
    } finally {
      release?.();
    }
  }
}

async function unlessDeleted(update: () => Promise<void>): Promise<void> {
  try {
    await update();
  } catch (error) {
    if (!hasCode(error, 'NOT_FOUND')) throw error; // deleted meanwhile
  }
}

/** What the service refuses is refused again; of anything else it takes some tries to know. */
function isLasting(error: unknown, attempt: number): boolean {
  if (!(error instanceof StatefoldError)) return attempt >= ATTEMPTS;
  return !error.retryable || attempt >= ATTEMPTS_OF_LOG;
}

function notStored(error: unknown): CompileResult {
  const why = error instanceof StatefoldError ? error.message : 'see the log of the service';
  const compilationError = `What came of the compilation could not be stored (${why}). Upload it again; where that ends the same, make it smaller.`;
  return { ok: false, compilationError, diagnostics: [] };
}

/** A quota that was reached before the turn of the upload came is told in place of a compilation. */
function unlessQuota(error: unknown): CompileResult {
  if (!hasCode(error, 'QUOTA_EXCEEDED')) throw error;
  return { ok: false, compilationError: error.message, diagnostics: [] };
}

type Outcome = Pick<ArtefactFields, 'compiledAt' | 'discovered' | 'compilationError' | 'diagnostics' | 'codeBytes'> & {
  readonly status: 'compiled' | 'failed';
};

export function outcomeOf(result: CompileResult, compiledAt: string, sourceBytes = 0): Outcome {
  const { diagnostics } = result;
  if (result.ok)
    return {
      status: 'compiled',
      compiledAt,
      discovered: result.discovered,
      codeBytes: sourceBytes + result.assembly.length + result.stateTypes.length,
      ...(diagnostics.length > 0 ? { diagnostics } : {}),
    };
  return { status: 'failed', compiledAt, compilationError: result.compilationError, diagnostics };
}
