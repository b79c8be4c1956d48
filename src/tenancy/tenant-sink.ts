import type { ChangesWriter } from '../projections/changes-writer.js';
import type { CommitsPage, SinkSource } from '../read-store/sink-source.js';
import { commitsOf } from '../feed/inputs.js';
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

  async readCommits(from: number, maxBytes: number): Promise<CommitsPage> {
    const { items: inputs, end: next } = await this.#input.inputs.read(from, { bytes: maxBytes });
    const released: string[] = [];
    const dropped: string[] = [];
    for (const input of inputs) {
      if (input.kind === 'release') released.push(input.aggregateId);
      else if (input.kind === 'control' && input.control.kind === 'ProjectionDrop')
        dropped.push(input.control.value.projectionId);
    }
    return { commits: commitsOf(inputs), released, dropped, next };
  }

  async readChanges(from: number, maxBytes: number): ReturnType<SinkSource['readChanges']> {
    const { items: changes, end: next } = await this.#changes.all.read(from, { bytes: maxBytes });
    return { changes: changes.filter(({ projectionId }) => this.#definitions.projectionExists(projectionId)), next };
  }

  async aggregateStates(
    aggregateIds: readonly string[],
    through: number,
    lastOnly?: boolean,
  ): ReturnType<SinkSource['aggregateStates']> {
    // Aggregates of several partitions are folded as far as there is anything.
    const offset = this.#input.sole ? through : Infinity;
    const spread = await this.#input.spread(aggregateIds);
    return (await Promise.all(spread.map(([{ reads }, ids]) => reads.aggregateStates(ids, offset, lastOnly)))).flat();
  }

  commitsEnd(): number {
    return this.#input.sole ? this.#input.first.position : 0;
  }

  statesThrough(): number {
    const through = Math.min(...this.#input.here.map(({ statesEnd }) => statesEnd));
    return this.#input.sole || through === Infinity ? through : 0;
  }

  statesRevision(): number {
    return this.#input.first.bindingsRevision;
  }

  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    const unsubscribe = this.#changes.subscribeQuietly(listener);
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
