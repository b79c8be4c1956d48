import { encodeCursor } from '../core/cursor.js';
import { compareKeys } from '../store/local-store.js';
import type { AggregatesPage, AggregateTypeSummary, CatchUp } from './tenant.js';

/* What the partitions of a tenant answer, put together. */

/** One page of the pages of all partitions, which were asked from the same id on: ascending by id, as theirs are. */
export function mergedAggregates(pages: readonly AggregatesPage[], limit: number): AggregatesPage {
  const [first] = pages;
  if (first !== undefined && pages.length === 1) return first;
  const aggregates = pages.flatMap((page) => page.aggregates).sort((a, b) => compareKeys(a.aggregateId, b.aggregateId));
  const more = aggregates.length > limit || pages.some(({ nextCursor }) => nextCursor !== undefined);
  const shown = aggregates.slice(0, limit);
  return { aggregates: shown, nextCursor: more ? encodeCursor([shown.at(-1)?.aggregateId ?? '']) : undefined };
}

export function summedTypes(summaries: readonly (readonly AggregateTypeSummary[])[]): readonly AggregateTypeSummary[] {
  const [first] = summaries;
  if (first !== undefined && summaries.length === 1) return first;
  const counts = new Map<string, number>();
  for (const { aggregateType, aggregates } of summaries.flat())
    counts.set(aggregateType, (counts.get(aggregateType) ?? 0) + aggregates);
  return [...counts]
    .sort(([a], [b]) => compareKeys(a, b))
    .map(([aggregateType, aggregates]) => ({ aggregateType, aggregates }));
}

/** Undefined where no partition has one. */
export function summedCatchUps(parts: readonly (CatchUp | undefined)[]): CatchUp | undefined {
  const known = parts.filter((part) => part !== undefined);
  if (known.length <= 1) return known[0];
  const sum = (of: (part: CatchUp) => number): number => known.reduce((total, part) => total + of(part), 0);
  const status = (['failed', 'running'] as const).find((one) => known.some((part) => part.status === one)) ?? 'done';
  return {
    status,
    processed: sum((part) => part.processed),
    total: sum((part) => part.total),
    eventsPerSecond: sum((part) => part.eventsPerSecond),
  };
}
