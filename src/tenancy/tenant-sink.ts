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

  aggregateStates(
    aggregateIds: readonly string[],
    end: number,
    lastOnly?: boolean,
  ): ReturnType<SinkSource['aggregateStates']> {
    return this.#input.aggregateStates(aggregateIds, end, lastOnly);
  }

  commitsEnd(): number {
    return this.#input.commitsEnd;
  }

  statesEnd(): number {
    return this.#input.statesEnd;
  }

  statesRevision(): number {
    return this.#input.first.bindingsRevision;
  }

  onAdvance(listener: () => void): () => void {
    const advanced = (): void => listener();
    const ends = [
      this.#input.inputs.subscribe(advanced),
      this.#input.subscribeToStates(advanced),
      this.#changes.all.subscribe(advanced),
    ];
    return () => ends.forEach((end) => end());
  }
}
