import type {
  Aggregates,
  AggregatesPage,
  AggregatesQuery,
  TypesQuery,
  AggregateTypeSummary,
  EventTypesPage,
  EventTypeSummary,
} from '../aggregates/aggregates.js';
import { compareKeys } from '../core/compare-keys.js';
import { encodeCursor } from '../core/cursor.js';
import type { Progress } from '../core/progress.js';
import { overSlices } from '../core/slices.js';
import { MOST_AGGREGATE_TYPES } from '../store/event-type-counts.js';
import type { TenantInput } from './tenant-input.js';

/** A tenant's aggregates together: what the partitions answer is put together. */
export class TenantAggregates implements Aggregates {
  readonly #input: TenantInput;

  constructor(input: TenantInput) {
    this.#input = input;
  }

  async list(query: AggregatesQuery): Promise<AggregatesPage> {
    const partitions = await this.#input.all();
    return mergedPages(await Promise.all(partitions.map(({ reads }) => reads.list(query))), query.limit);
  }

  async types(query?: TypesQuery): Promise<readonly AggregateTypeSummary[]> {
    const partitions = await this.#input.all();
    return summedTypes(await Promise.all(partitions.map(({ reads }) => reads.types(query))), query?.limit);
  }

  async eventTypes(query: TypesQuery): Promise<EventTypesPage> {
    const partitions = await this.#input.all();
    return summedEventTypes(await Promise.all(partitions.map(({ reads }) => reads.eventTypes(query))), query.limit);
  }

  async eventType(eventType: string): Promise<EventTypeSummary | undefined> {
    const partitions = await this.#input.all();
    const found = await Promise.all(partitions.map(({ reads }) => reads.eventType(eventType)));
    return found.filter((one) => one !== undefined).reduce<EventTypeSummary | undefined>(together, undefined);
  }

  catchUp(aggregateType: string): Progress | undefined {
    return summedProgress(this.#input.here.map((partition) => partition.catchUp(aggregateType)));
  }

  eventsPerSecond(aggregateType: string): number | undefined {
    let sum = 0;
    for (const partition of this.#input.here) {
      const rate = partition.eventsPerSecond(aggregateType);
      if (rate === undefined) return undefined;
      sum += rate;
    }
    return sum;
  }

  keptGenerations(aggregateType: string): readonly number[] {
    return this.#input.first.keptGenerations(aggregateType);
  }
}

/** One page of the pages of all partitions, which were asked from the same id on: ascending by id, as theirs are. */
function mergedPages(pages: readonly AggregatesPage[], limit: number): AggregatesPage {
  const [first] = pages;
  if (first !== undefined && pages.length === 1) return first;
  const aggregates = pages.flatMap((page) => page.aggregates).sort((a, b) => compareKeys(a.aggregateId, b.aggregateId));
  const more = aggregates.length > limit || pages.some(({ nextCursor }) => nextCursor !== undefined);
  const shown = aggregates.slice(0, limit);
  return { aggregates: shown, nextCursor: more ? encodeCursor([shown.at(-1)?.aggregateId ?? '']) : undefined };
}

function summedTypes(
  summaries: readonly (readonly AggregateTypeSummary[])[],
  limit: number | undefined,
): readonly AggregateTypeSummary[] {
  const [first] = summaries;
  if (first !== undefined && summaries.length === 1) return first;
  const counts = new Map<string, number>();
  for (const { aggregateType, aggregates } of summaries.flat())
    counts.set(aggregateType, (counts.get(aggregateType) ?? 0) + aggregates);
  return [...counts]
    .sort(([a], [b]) => compareKeys(a, b))
    .slice(0, limit)
    .map(([aggregateType, aggregates]) => ({ aggregateType, aggregates }));
}

/** As far as all partitions were read. */
async function summedEventTypes(pages: readonly EventTypesPage[], limit: number): Promise<EventTypesPage> {
  const [first] = pages;
  if (first !== undefined && pages.length === 1) return first;
  const ends = pages.map(({ upTo }) => upTo).filter((upTo) => upTo !== undefined);
  const end = ends.sort(compareKeys)[0];
  const sums = new Map<string, EventTypeSummary>();
  const all = pages.flatMap(({ eventTypes }) => eventTypes);
  await overSlices('pages', all, (type) => {
    if (end === undefined || compareKeys(type.eventType, end) <= 0)
      sums.set(type.eventType, together(sums.get(type.eventType), type));
  });
  const types = [...sums.values()].sort((a, b) => compareKeys(a.eventType, b.eventType));
  const shown = types.slice(0, limit);
  return {
    eventTypes: shown,
    upTo: shown.length < types.length ? shown.at(-1)?.eventType : end,
    others: pages.reduce((sum, { others }) => sum + others, 0),
  };
}

const together = (a: EventTypeSummary | undefined, b: EventTypeSummary): EventTypeSummary =>
  a === undefined
    ? b
    : {
        eventType: a.eventType,
        events: a.events + b.events,
        firstSeen: Math.min(a.firstSeen, b.firstSeen),
        lastSeen: Math.max(a.lastSeen, b.lastSeen),
        aggregateTypes: [...new Set([...a.aggregateTypes, ...b.aggregateTypes])].slice(0, MOST_AGGREGATE_TYPES),
      };

/** Undefined where no partition has one. */
function summedProgress(parts: readonly (Progress | undefined)[]): Progress | undefined {
  const known = parts.filter((part) => part !== undefined);
  if (known.length <= 1) return known[0];
  const sum = (of: (part: Progress) => number): number => known.reduce((total, part) => total + of(part), 0);
  const status = (['failed', 'running'] as const).find((one) => known.some((part) => part.status === one)) ?? 'done';
  return {
    status,
    processed: sum((part) => part.processed),
    total: sum((part) => part.total),
    eventsPerSecond: sum((part) => part.eventsPerSecond),
  };
}
