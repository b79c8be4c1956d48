import type { InputFeed } from '../feed/inputs.js';
import type { ChangesWriter } from '../projections/changes-writer.js';
import type { ProjectionReads } from '../projections/projection-reads.js';
import type { SinkProjectionState, SinkProjectionStates, SinkSource } from '../read-store/sink-source.js';
import type { TenantInput } from './tenant-input.js';
import type { TenantDefinitions, TenantTaskOptions } from './task-options.js';

/** Of one projection, read in one go. */
const MOST_STATES = 4096;

/** What is beside a state, about. */
const STATE_BYTES = 150;

interface SinkProjections {
  readonly changes: ChangesWriter;
  readonly reads: Pick<ProjectionReads, 'live' | 'states'>;
}

/** Without a cursor: the first state of the projection. */
interface StatesPlace {
  readonly projectionId: string;
  readonly cursor?: string | undefined;
}

const placeIn = (text: string | undefined): StatesPlace =>
  text === undefined ? { projectionId: '' } : (JSON.parse(text) as StatesPlace);

/** What the read store's sink reads of a tenant. Where there are several partitions, a place in their order is no offset of any of them. */
export class TenantSink implements SinkSource {
  readonly tenantId: string;
  readonly incarnation: string | undefined;
  readonly #input: TenantInput;
  readonly #projections: SinkProjections;
  readonly #definitions: Pick<TenantDefinitions, 'projectionExists'>;

  constructor(
    { tenantId, rowsIncarnation }: Pick<TenantTaskOptions, 'tenantId' | 'rowsIncarnation'>,
    input: TenantInput,
    projections: SinkProjections,
    definitions: Pick<TenantDefinitions, 'projectionExists'>,
  ) {
    this.tenantId = tenantId;
    this.incarnation = rowsIncarnation;
    this.#input = input;
    this.#projections = projections;
    this.#definitions = definitions;
  }

  get inputs(): InputFeed {
    return this.#input.inputs;
  }

  get changes(): ChangesWriter['all'] {
    return this.#projections.changes.all;
  }

  async projectionStates(from: string | undefined, bytes: number): Promise<SinkProjectionStates> {
    const { reads } = this.#projections;
    const place = placeIn(from);
    const states: SinkProjectionState[] = [];
    let left = bytes;
    for (const projectionId of reads.live) {
      if (projectionId < place.projectionId) continue;
      for (let cursor = projectionId === place.projectionId ? place.cursor : undefined; ;) {
        if (left <= 0) return { states, next: JSON.stringify({ projectionId, cursor } satisfies StatesPlace) };
        const page = await reads.states({ projectionId, prefix: '', limit: MOST_STATES, bytes: left, cursor });
        for (const { fault: _, ...state } of page.states) {
          states.push({ projectionId, ...state });
          left -= STATE_BYTES + state.key.length + (state.state?.length ?? 0);
        }
        cursor = page.nextCursor;
        if (cursor === undefined) break;
      }
    }
    return { states, next: undefined };
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
      this.changes.subscribe(advanced),
    ];
    return () => ends.forEach((end) => end());
  }
}
