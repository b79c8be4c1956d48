import type { Unit } from '../code-host/code-host.js';
import { partitionOf } from '../core/murmur2.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import { sameState } from '../projections/projection-unit.js';
import type { ReducerState } from '../store/partition-tables.js';
import { sampleOf } from './table-pages.js';
import { isRowOf, type AggregateRow } from './read-store-rows.js';
import { aggregatesOf, windows } from './reducer-dry-run.js';
import { Refold, refoldAll } from './refold.js';
import type { Bench } from './scratch-runner.js';
import type { AggregatesToVerify, Verdict } from './verification.js';
import type { VerifyTally } from './verify-tally.js';

export interface VerifyAggregates {
  readonly bench: Bench;
  readonly sources: readonly AggregateSource[];
  readonly aggregateType: string;
  readonly bound: Unit;
  /** The same, as it is called in the bench. */
  readonly unit: Unit;
  readonly tally: VerifyTally;
  /** Rows of the read store; undefined while it is away. */
  readonly readStoreRows: (aggregateIds: readonly string[]) => Promise<ReadonlyMap<string, AggregateRow> | undefined>;
}

interface Chosen {
  readonly source: AggregateSource;
  readonly aggregateId: string;
}
interface Checked {
  readonly refold: Refold;
  readonly stored: ReducerState | undefined;
}

/** Folds aggregates again to where their states are stored, and compares. @returns the ids that no aggregate of the type has. @throws DeadlinePassedError */
export async function verifyAggregates(run: VerifyAggregates, which: AggregatesToVerify): Promise<readonly string[]> {
  const { bench, sources, aggregateType, tally } = run;
  const unknown: string[] = [];
  const read = ({ source, aggregateId }: Chosen): Checked => checkedOf(run, source, aggregateId);
  const bytesOf = ({ stored }: Checked): number => stored?.state?.length ?? 0;
  for await (const checked of windows(chosen(run, which, unknown), read, bytesOf)) {
    await refoldAll(
      bench,
      checked.map(({ refold }) => refold),
    );
    const rows = await run.readStoreRows(checked.map(({ refold }) => refold.aggregateId));
    if (rows === undefined) tally.readStoreAway = true;
    for (const { refold, stored } of checked) {
      const { aggregateId, version, state, fault } = refold;
      tally.events += refold.events;
      const generation = sources[0]?.bound(aggregateType)?.generation;
      tally.add({
        ...{
          key: aggregateId,
          className: run.unit.className,
          version,
          stored: stored?.state ?? null,
          recomputed: state,
          storedFault: stored?.fault,
          fault,
        },
        store:
          stored === undefined
            ? 'absent'
            : stored.version === version &&
                sameState(stored.state, state) &&
                (stored.fault === undefined) === (fault === undefined)
              ? 'equal'
              : 'different',
        readStore: rows === undefined ? undefined : verdictOf(rows.get(aggregateId), refold, generation),
      });
      await bench.breathe();
    }
  }
  return unknown;
}

/** The sink is a moment behind, or ahead of what was compared. */
function verdictOf(row: AggregateRow | undefined, { version, state }: Refold, generation: number | undefined): Verdict {
  if (row === undefined) return 'absent';
  if (row.version !== version || row.generation !== generation) return 'behind';
  return isRowOf(row, state) ? 'equal' : 'different';
}

function checkedOf(
  { bound, unit, aggregateType }: VerifyAggregates,
  source: AggregateSource,
  aggregateId: string,
): Checked {
  const stored = source.stored(aggregateId, aggregateType);
  const head = source.head(aggregateId)?.version ?? 0;
  // What stopped it must stop it again.
  const toVersion = stored === undefined ? head : Math.min(head, stored.fault?.version ?? stored.version);
  return { refold: new Refold(unit, source, aggregateId, toVersion, source.marks(aggregateId, bound)), stored };
}

async function* chosen(
  { bench, sources, aggregateType }: VerifyAggregates,
  { aggregateIds, sample, seed }: AggregatesToVerify,
  unknown: string[],
): AsyncGenerator<readonly Chosen[]> {
  if (aggregateIds === undefined) {
    yield await sampleOf(
      aggregatesOf(sources, aggregateType, () => bench.breathe()),
      sample,
      seed,
    );
    return;
  }
  const found: Chosen[] = [];
  for (const aggregateId of new Set(aggregateIds)) {
    const source = sources[partitionOf(aggregateId, sources.length)];
    if (source?.head(aggregateId)?.type === aggregateType) found.push({ source, aggregateId });
    else unknown.push(aggregateId);
  }
  yield found;
}
