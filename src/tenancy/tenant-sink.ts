import type { Change } from '../core/change.js';
import type { Feed } from '../feed/feed.js';
import type { InputFeed } from '../feed/inputs.js';
import type { ChangesWriter } from '../projections/changes-writer.js';
import type { SinkSource } from '../read-store/sink-source.js';
import type { TenantInput } from './tenant-input.js';
import type { TenantDefinitions } from './task-options.js';

/** What the read store's sink reads of a tenant. Where there are several partitions, a place in their order is no offset of any of them. */
export class TenantSink implements SinkSource {
  readonly tenantId: string;
  readonly incarnation: string | undefined;
  readonly #input: TenantInput;
  readonly #changes: ChangesWriter;
  readonly #definitions: Pick<TenantDefinitions, 'projectionExists'>;
  readonly #listeners = new Set<() => void>();

  constructor(
    { tenantId, incarnation }: { readonly tenantId: string; readonly incarnation?: string | undefined },
    input: TenantInput,
    changes: ChangesWriter,
    definitions: Pick<TenantDefinitions, 'projectionExists'>,
  ) {
    this.tenantId = tenantId;
    this.incarnation = incarnation;
    this.#input = input;
    this.#changes = changes;
    this.#definitions = definitions;
  }

  get inputs(): InputFeed {
    return this.#input.inputs;
  }

  get changes(): Feed<Change> {
    return this.#changes.all;
  }

  projectionExists(projectionId: string): boolean {
    return this.#definitions.projectionExists(projectionId);
  }

  async aggregateStates(
    aggregateIds: readonly string[],
    end: number,
    lastOnly?: boolean,
  ): ReturnType<SinkSource['aggregateStates']> {
    // Aggregates of several partitions are folded as far as there is anything.
    const offset = this.#input.sole ? end : Infinity;
    const spread = await this.#input.spread(aggregateIds);
    return (await Promise.all(spread.map(([{ reads }, ids]) => reads.aggregateStates(ids, offset, lastOnly)))).flat();
  }

  commitsEnd(): number {
    return this.#input.sole ? this.#input.first.position : 0;
  }

  statesEnd(): number {
    const end = Math.min(...this.#input.here.map(({ statesEnd }) => statesEnd));
    return this.#input.sole || end === Infinity ? end : 0;
  }

  statesRevision(): number {
    return this.#input.first.bindingsRevision;
  }

  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    const unsubscribe = this.#changes.all.subscribe(listener);
    return () => {
      this.#listeners.delete(listener);
      unsubscribe();
    };
  }

  /** There may be commits, or states. */
  advanced(): void {
    for (const listener of this.#listeners) listener();
  }
}
