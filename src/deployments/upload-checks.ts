import type { Catalog, ProjectionEntity, ReducerEntity } from '../catalog/catalog.js';
import { PackedSources } from '../code-host/packed-sources.js';
import type { CodeHost, Diagnostic, Discovered } from '../code-host/code-host.js';
import type { SourceFile } from './source-file.js';
import { targetOf } from './revisions.js';
import { StatefoldError } from '../core/errors.js';
import { inSlices, type Sliced } from '../core/slices.js';
import { within } from '../core/within.js';

interface NotCompiled {
  readonly status: 'failed';
  readonly compilationError: string;
  readonly diagnostics: readonly Diagnostic[];
}
interface Compiled {
  readonly status: 'compiled';
  readonly discovered: readonly Discovered[];
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[];
}

/** `sameAs`: a compiled reducer with these very sources, one that is bound rather than another, else the newest; undefined: there is none among those that are bound and the last uploads. */
export type ReducerCheck = NotCompiled | (Compiled & { readonly sameAs: string | undefined });
/** `sameAs`: the revision that is live, or on the way to be, when it has these very sources; an upload of them would change nothing. */
export type ProjectionCheck = NotCompiled | (Compiled & { readonly sameAs: number | undefined });

/** Of the reducers that nothing is bound to, so many of the newest ones are looked at: their sources are read from the log. */
const LATEST = 10;
const RETRY_AFTER_SECONDS = 1;
const ENTITIES_PER_SLICE = 10_000;

export interface UploadChecksOptions {
  readonly catalog: Catalog;
  readonly codeHost: CodeHost;
  readonly sourcesOf: (artefactId: string) => Promise<PackedSources>;
  /** Milliseconds: so long a check waits for a compiler, and so long for what it is compared with. */
  readonly waitMs: number;
}

/** What would come of an upload: compiled as it would be, compared with what is there, and not kept. @throws StatefoldError RATE_LIMITED, UNAVAILABLE: it did not come to that in time */
export class UploadChecks {
  readonly #options: UploadChecksOptions;

  constructor(options: UploadChecksOptions) {
    this.#options = options;
  }

  async reducer(tenantId: string, files: readonly SourceFile[]): Promise<ReducerCheck> {
    const sources = await PackedSources.pack(files);
    const compiled = await this.#compile('reducer', tenantId, sources);
    if (compiled.status === 'failed') return compiled;
    return { ...compiled, sameAs: await this.#inTime(this.#reducerOf(tenantId, sources)) };
  }

  /** Id of a reducer with these sources. */
  async #reducerOf(tenantId: string, sources: PackedSources): Promise<string | undefined> {
    const { catalog } = this.#options;
    for (const { reducerId, artefactId } of await inSlices(comparable(catalog, tenantId)))
      if (await this.#are(artefactId, sources)) return reducerId;
    return undefined;
  }

  async projection(
    tenantId: string,
    files: readonly SourceFile[],
    before: ProjectionEntity | undefined,
  ): Promise<ProjectionCheck> {
    const sources = await PackedSources.pack(files);
    const compiled = await this.#compile('projection', tenantId, sources);
    if (compiled.status === 'failed') return compiled;
    const target = before === undefined ? undefined : targetOf(before);
    return {
      ...compiled,
      sameAs:
        target !== undefined && (await this.#inTime(this.#are(target.artefactId, sources)))
          ? target.revision
          : undefined,
    };
  }

  async #compile(
    kind: 'reducer' | 'projection',
    tenantId: string,
    sources: PackedSources,
  ): Promise<NotCompiled | Compiled> {
    const { codeHost, waitMs } = this.#options;
    const result = await codeHost.compile({ tenantId, kind, sources, waitMs });
    const { diagnostics } = result;
    return result.ok
      ? { status: 'compiled', discovered: result.discovered, diagnostics }
      : { status: 'failed', compilationError: result.compilationError, diagnostics };
  }

  async #are(artefactId: string, sources: PackedSources): Promise<boolean> {
    return sources.equals(await this.#options.sourcesOf(artefactId));
  }

  /** What is read from the log. */
  async #inTime<T>(read: Promise<T>): Promise<T> {
    const outcome = await within(
      read.then((value) => ({ value })),
      this.#options.waitMs,
    );
    if (outcome === undefined)
      throw new StatefoldError('UNAVAILABLE', 'the log does not answer; send the request again', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
    return outcome.value;
  }
}

/** Compiled reducers, the newest first: those that are bound, and behind them the last ones of the others. */
function* comparable(catalog: Catalog, tenantId: string): Sliced<readonly ReducerEntity[]> {
  const boundIds = new Set<string>();
  for (const [i, { value }] of catalog.list('binding', tenantId).entries()) {
    boundIds.add(value.reducerId);
    if (i % ENTITIES_PER_SLICE === 0) yield;
  }
  const bound: ReducerEntity[] = [];
  const others: ReducerEntity[] = [];
  // Ids are in the order of the uploads.
  for (const [i, { id, value }] of catalog.list('reducer', tenantId).toReversed().entries()) {
    if (i % ENTITIES_PER_SLICE === 0) yield;
    if (value.status !== 'compiled' || value.deletedAt !== undefined) continue;
    if (boundIds.has(id)) bound.push(value);
    else if (others.length < LATEST) others.push(value);
  }
  return [...bound, ...others];
}
