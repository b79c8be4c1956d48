import type { Unit } from '../code-host/code-host.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import { READ_BYTES } from '../core/reads.js';
import type { ReducerState } from '../store/partition-tables.js';
import type { ReducerDryRunOptions } from './dry-run.js';
import type { DryRunTally } from './dry-run-tally.js';
import { pagesOf, sampleOf } from './table-pages.js';
import { Refold, refoldAll } from './refold.js';
import type { Bench } from './scratch-runner.js';

export interface ReducerDryRun {
  readonly bench: Bench;
  readonly sources: readonly AggregateSource[];
  readonly tally: DryRunTally;
  readonly options: ReducerDryRunOptions;
  /** The unit by which the bound code is called in the bench. */
  readonly loadBound: (bound: Unit) => Promise<Unit>;
}

/** Aggregates that are folded side by side; of those whose stored states are large fewer. */
const WINDOW = 64;
const WINDOW_BYTES = 2 * READ_BYTES;

interface Chosen {
  readonly source: AggregateSource;
  readonly aggregateId: string;
}
interface Pair {
  readonly now: Refold;
  readonly before: Refold | ReducerState | undefined;
}

/** Folds the aggregates of a type with a new class, and compares. Undefined: all of them; else how far it got. @throws DeadlinePassedError */
export async function dryRunReducer(
  run: ReducerDryRun,
  unit: Unit,
  aggregateType: string,
): Promise<string | undefined> {
  const { bench, sources, tally, options } = run;
  const bound = sources[0]?.bound(aggregateType);
  const total = sources.reduce((sum, source) => sum + source.typeCount(aggregateType), 0);
  const result = tally.class({ className: unit.className, aggregateType, comparedWith: bound?.className, total });
  const old = bound === undefined ? undefined : await run.loadBound(bound);
  let folded = 0;
  const read = (one: Chosen): Pair | undefined => pairOf(one, aggregateType, unit, bound, old);
  const bytesOf = ({ before }: Pair): number => (before instanceof Refold ? 0 : (before?.state?.length ?? 0));
  for await (const pairs of windows(chosen(run, aggregateType), read, bytesOf)) {
    await refoldAll(
      bench,
      pairs.flatMap(({ now, before }) => (before instanceof Refold ? [now, before] : [now])),
    );
    for (const { now, before } of pairs) {
      result.folded(1);
      tally.events += now.events;
      if (now.fault !== undefined) result.fault(now.aggregateId, now.fault);
      result.compare(now.aggregateId, now.version, before, now);
      await bench.breathe();
    }
    folded += pairs.length;
  }
  return options.sample === undefined && folded < total && folded >= options.limit
    ? `the limit: ${folded} of the ${total} aggregates of type ${aggregateType} were folded`
    : undefined;
}

/** What is stored is compared with where it is of the last version; else the bound code folds the aggregate too. */
function pairOf(
  { source, aggregateId }: Chosen,
  aggregateType: string,
  unit: Unit,
  bound: Unit | undefined,
  old: Unit | undefined,
): Pair | undefined {
  const head = source.head(aggregateId);
  if (head === undefined) return undefined;
  const stored = source.stored(aggregateId, aggregateType);
  const now = new Refold(unit, source, aggregateId, head.version);
  if (stored !== undefined && (stored.version === head.version || stored.fault !== undefined))
    return { now, before: stored };
  return {
    now,
    before:
      bound === undefined || old === undefined
        ? undefined
        : new Refold(old, source, aggregateId, head.version, source.marks(aggregateId, bound)),
  };
}

async function* chosen(
  { bench, sources, options: { sample, seed, limit } }: ReducerDryRun,
  aggregateType: string,
): AsyncGenerator<readonly Chosen[]> {
  if (sample !== undefined) {
    yield await sampleOf(
      aggregatesOf(sources, aggregateType, () => bench.breathe()),
      Math.min(sample, limit),
      seed,
    );
    return;
  }
  let left = limit;
  for await (const page of aggregatesOf(sources, aggregateType, () => bench.breathe())) {
    yield page.slice(0, left);
    left -= page.length;
    if (left <= 0) return;
  }
}

/** All of a type, by partition. */
export async function* aggregatesOf(
  sources: readonly AggregateSource[],
  aggregateType: string,
  between: () => Promise<void>,
): AsyncGenerator<readonly Chosen[]> {
  for (const source of sources)
    for await (const ids of pagesOf<string>((after) => source.aggregatesOfType(aggregateType, after ?? ''), between))
      yield ids.map((aggregateId) => ({ source, aggregateId }));
}

/** What is read of each, where it is there. */
export async function* windows<T, R>(
  paged: AsyncIterable<readonly T[]>,
  read: (one: T) => R | undefined,
  bytesOf: (of: R) => number,
): AsyncGenerator<readonly R[]> {
  let window: R[] = [];
  let bytes = 0;
  for await (const page of paged)
    for (const one of page) {
      const found = read(one);
      if (found === undefined) continue;
      window.push(found);
      bytes += bytesOf(found);
      if (window.length < WINDOW && bytes < WINDOW_BYTES) continue;
      yield window;
      window = [];
      bytes = 0;
    }
  if (window.length > 0) yield window;
}
