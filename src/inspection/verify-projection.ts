import type { ProjectionUnit } from '../code-host/code-host.js';
import type { ProjectionSource } from '../projections/projection-source.js';
import { sameState } from '../projections/projection-unit.js';
import type { KeyState, LiveProjection } from '../store/partition-tables.js';
import { sampleOf } from './table-pages.js';
import { rowOf, rowsOf } from './projection-dry-run.js';
import { ProjectionRefold, type RefoldedKey } from './projection-refold.js';
import { isRowOf, type KeyRow } from './read-store-rows.js';
import type { Bench } from './scratch-runner.js';
import type { KeysToVerify, Verdict } from './verification.js';
import type { VerifyTally } from './verify-tally.js';

export interface VerifyProjection {
  readonly bench: Bench;
  readonly source: ProjectionSource;
  readonly projectionId: string;
  readonly live: LiveProjection;
  /** The live classes, as they are called in the bench. */
  readonly units: readonly ProjectionUnit[];
  readonly tally: VerifyTally;
  readonly maxKeys: number;
  readonly maxBytes: number;
  /** Gets the keys that were asked for, and are none of the projection's. */
  readonly unknown: string[];
  /** Rows of the read store; undefined while it is away. */
  readonly readStoreRows: (
    keys: readonly string[],
  ) => Promise<((className: string, key: string) => KeyRow | undefined) | undefined>;
}

/** Folds keys of the live revision again from the first event, and compares. Undefined: all that was to be; else how far it got. @throws DeadlinePassedError */
export async function verifyProjection(run: VerifyProjection, which: KeysToVerify): Promise<string | undefined> {
  const { bench, source, projectionId, live, units, tally, maxKeys, maxBytes } = run;
  const chosen = await chosenKeys(run, which);
  const refold = new ProjectionRefold({
    bench,
    source,
    units,
    wanted: (key) => chosen?.has(key) ?? true,
    maxKeys,
    maxBytes,
    releasesOf: { projectionId, revision: live.revision },
  });
  try {
    await refold.catchUp();
  } finally {
    tally.events = refold.events;
    if (refold.reached !== undefined) tally.reached = refold.reached;
  }
  const classOf = (unit: number): string => units[unit]?.className ?? '';
  const names = new Set<string>(refold.keys.map(({ key }) => key));
  // Rows that the events give no state for.
  const stored: (readonly [key: string, unit: number])[] = [];
  if (chosen !== undefined) for (const key of chosen) for (const unit of units.keys()) stored.push([key, unit]);
  else if (!refold.full)
    for await (const [key, unit] of rowsOf(source, projectionId, live.revision, () => bench.breathe()))
      stored.push([key, unit]);
  const extra = stored.filter(([key, unit]) => refold.state(unit, key) === undefined);
  for (const [key] of extra) names.add(key);
  const rows = await run.readStoreRows([...names]);
  if (rows === undefined) tally.readStoreAway = true;
  const found = new Set<string>();
  const add = (unit: number, key: string, now: RefoldedKey | undefined): void => {
    const row = rowOf(source, projectionId, live, classOf(unit), key);
    if (now === undefined && row === undefined) return;
    found.add(key);
    const [state, fault] = [now?.state ?? null, now?.fault];
    tally.add({
      ...{
        key,
        className: classOf(unit),
        version: undefined,
        stored: row?.state ?? null,
        recomputed: state,
        storedFault: row?.fault,
        fault,
      },
      store: verdict(row, now),
      readStore: rows === undefined ? undefined : readStoreVerdict(rows(classOf(unit), key), row, now),
    });
  };
  await refold.aligned(refold.keys, ({ unit, key }) => add(unit, key, refold.state(unit, key)));
  await refold.aligned(extra, ([key, unit]) => add(unit, key, refold.state(unit, key)));
  tally.events = refold.events;
  // Of what was not folded to its end nobody knows.
  if (which.keys !== undefined && !refold.full)
    run.unknown.push(...new Set(which.keys.filter((key) => !found.has(key))));
  return refold.full ? `the limits of keys (${maxKeys}) and of memory: name the keys, or a sample` : undefined;
}

/** A key without a state and without a fault may have no row. */
const verdict = (row: KeyState | undefined, now: RefoldedKey | undefined): Verdict =>
  sameState(row?.state ?? null, now?.state ?? null) && row?.fault?.eventId === now?.fault?.eventId
    ? 'equal'
    : 'different';

/** The sink is a moment behind the changes, or ahead of what was compared. */
function readStoreVerdict(found: KeyRow | undefined, row: KeyState | undefined, now: RefoldedKey | undefined): Verdict {
  const state = now?.state ?? null;
  if (found === undefined) return state === null ? 'equal' : 'absent';
  // A fault has a sequence of its own, which the read store is not told of.
  if (found.sequence !== row?.sequence && row?.fault === undefined) return 'behind';
  return isRowOf(found, state) ? 'equal' : 'different';
}

/** Undefined: all. */
async function chosenKeys(
  run: VerifyProjection,
  { keys, sample, seed }: KeysToVerify,
): Promise<ReadonlySet<string> | undefined> {
  if (keys !== undefined) return new Set(keys);
  if (sample === undefined) return undefined;
  return new Set(await sampleOf(keysOf(run), sample, seed));
}

async function* keysOf({ bench, source, projectionId, live }: VerifyProjection): AsyncGenerator<readonly string[]> {
  for await (const [key] of rowsOf(source, projectionId, live.revision, () => bench.breathe())) yield [key];
}
