import type { ProjectionUnit } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import type { ProjectionSource } from '../projections/projection-source.js';
import type { KeyState, LiveProjection } from '../store/partition-tables.js';
import type { ProjectionDryRunOptions } from './dry-run.js';
import type { DryRunTally } from './dry-run-tally.js';
import { pagesOf } from './table-pages.js';
import { ProjectionRefold } from './projection-refold.js';
import type { Bench } from './scratch-runner.js';

export interface ProjectionDryRun {
  readonly bench: Bench;
  readonly source: ProjectionSource;
  readonly units: readonly ProjectionUnit[];
  readonly tally: DryRunTally;
  readonly options: ProjectionDryRunOptions;
  readonly maxBytes: number;
}

type Row = readonly [key: string, classIndex: number, row: KeyState];

/** Folds the tenant's history with new classes, and compares with the live states. Undefined: all of it; else how far it got. */
export async function dryRunProjection({
  bench,
  source,
  units,
  tally,
  options,
  maxBytes,
}: ProjectionDryRun): Promise<string | undefined> {
  const { projectionId, limit } = options;
  const live = projectionId === undefined ? undefined : source.live(projectionId);
  const refold = new ProjectionRefold({ bench, source, units, wanted: () => true, maxKeys: limit, maxBytes });
  const oldClasses = live?.classNames ?? [];
  const results = units.map(({ className }) =>
    tally.class({
      className,
      aggregateType: undefined,
      comparedWith: oldClasses.includes(className) ? className : undefined,
      total: undefined,
    }),
  );
  try {
    await refold.catchUp();
  } finally {
    tally.events = refold.events;
    if (refold.reached !== undefined) tally.reached = refold.reached;
    for (const { unit, key, fault } of refold.keys) {
      results[unit]?.folded(1);
      if (fault !== undefined) results[unit]?.fault(key, fault);
    }
  }
  await refold.aligned(refold.keys, ({ unit, key }) => {
    const row = rowOf(source, projectionId, live, units[unit]?.className ?? '', key);
    results[unit]?.compare(key, undefined, row, refold.state(unit, key));
  });
  if (projectionId !== undefined && live !== undefined && !refold.full) await removed();
  return refold.full
    ? `the limits of keys (${limit}) and of memory: ${refold.keys.length} keys were folded, those that come first in the history`
    : undefined;

  /** Keys that are stored, and that the new classes don't give. */
  async function removed(): Promise<void> {
    const gone = oldClasses.map((className) => {
      const unit = units.findIndex((one) => one.className === className);
      return {
        unit,
        result:
          results[unit] ??
          tally.class({ className, aggregateType: undefined, comparedWith: className, total: undefined }),
      };
    });
    const rows = rowsOf(source, projectionId ?? '', live?.revision ?? 0, () => bench.breathe());
    await refold.aligned(rows, ([key, classIndex]) => {
      const { unit, result } = gone[classIndex] ?? {};
      // As it is now: the page was read a moment ago.
      const row = rowOf(source, projectionId, live, oldClasses[classIndex] ?? '', key);
      if (unit !== undefined && row !== undefined && row.state !== null && refold.state(unit, key) === undefined)
        result?.compare(key, undefined, row, undefined);
    });
  }
}

/** Of all rows, without their states: many of those would not fit into memory. */
export async function* rowsOf(
  source: ProjectionSource,
  projectionId: string,
  revision: number,
  between: () => Promise<void>,
): AsyncGenerator<readonly [key: string, classIndex: number]> {
  const read = (after: Row | undefined): Iterable<Row> =>
    source.rows(projectionId, revision, after === undefined ? undefined : [after[0], after[1]]);
  const bytesOf = ([, , { state }]: Row): number => state?.length ?? 0;
  for await (const page of pagesOf(read, between, bytesOf))
    for (const [key, classIndex] of page) yield [key, classIndex];
}

/** @throws StatefoldError UNAVAILABLE where another revision is live by now */
export function rowOf(
  source: ProjectionSource,
  projectionId: string | undefined,
  live: LiveProjection | undefined,
  className: string,
  key: string,
): KeyState | undefined {
  const classIndex = live?.classNames.indexOf(className) ?? -1;
  if (projectionId === undefined || live === undefined || classIndex < 0) return undefined;
  if (source.live(projectionId)?.revision !== live.revision)
    throw new StatefoldError('UNAVAILABLE', 'the projection was deployed anew meanwhile; send the request again');
  return source.row(projectionId, live.revision, key, classIndex);
}
