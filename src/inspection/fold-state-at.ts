import type { State } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp, type Fault, type StoredEvent } from '../core/event.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import { patchText } from './json-patch.js';
import type { Refold } from './refold.js';
import type { Bench } from './scratch-runner.js';

export interface StateAtQuery {
  readonly aggregateId: string;
  /** At most one of the two; neither: the last version. */
  readonly atVersion: number | undefined;
  /** Milliseconds since the epoch: the version that was last appended at or before then. */
  readonly atTime: number | undefined;
  /** What each event did, from this version on; undefined: not wanted. */
  readonly diff: { readonly fromVersion: number; readonly limit: number } | undefined;
}

/** What one event did to the state. */
export interface EventEffect {
  readonly version: number;
  readonly eventId: string;
  readonly eventType: string;
  readonly timestamp: number;
  /** JSON Patch, as text; absent where the event stopped the fold. */
  readonly patch: string | undefined;
  readonly fault: Fault | undefined;
  /** It is passed over, since its fault was released so. */
  readonly skipped: boolean;
}

export interface StateAt {
  /** The last that is folded in: less than what was asked for where a fault stopped it. */
  readonly version: number;
  readonly state: State;
  readonly lastModified: number;
  readonly fault: Fault | undefined;
  /** The aggregate's last version. */
  readonly headVersion: number;
  readonly diff: { readonly events: readonly EventEffect[]; readonly nextVersion: number | undefined } | undefined;
}

/** Patches of one answer: it ends past so many bytes, or so many milliseconds, whatever its limit. */
const DIFF_BYTES = 4 * 1024 * 1024;
const DIFF_MS = 5_000;
/** States of one turn of the runner, about. */
const STATES_PER_TURN = 2 * 1024 * 1024;
const EVENTS_PER_TURN = 200;

/** The version that a query is about. @throws StatefoldError NOT_FOUND where the aggregate never had it */
export async function versionOf(
  source: AggregateSource,
  head: number,
  { aggregateId, atVersion, atTime }: StateAtQuery,
): Promise<number> {
  if (atVersion !== undefined) {
    if (atVersion <= head) return atVersion;
    throw new StatefoldError(
      'NOT_FOUND',
      `aggregate '${aggregateId}' has no version ${atVersion} yet; its last one is ${head}`,
      { details: { currentVersion: head } },
    );
  }
  if (atTime === undefined) return head;
  // Times of an aggregate never go back.
  let [low, high] = [0, head];
  let first = 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const commit = await commitWith(source, aggregateId, middle);
    first = commit.timestamp;
    if (commit.timestamp <= atTime) low = commit.baseVersion + commit.events.length;
    else high = commit.baseVersion;
  }
  if (low > 0) return low;
  throw new StatefoldError(
    'NOT_FOUND',
    `aggregate '${aggregateId}' did not exist at ${isoTimestamp(atTime)}; its first event came at ${isoTimestamp(first)}`,
  );
}

async function commitWith(
  source: AggregateSource,
  aggregateId: string,
  version: number,
): Promise<{ readonly baseVersion: number; readonly timestamp: number; readonly events: readonly unknown[] }> {
  for await (const [commit] of source.history(aggregateId, version, version)) if (commit !== undefined) return commit;
  throw new Error(`the log has no commit with version ${version} of ${aggregateId}`);
}

/** Folds the aggregate to where it ends. @throws DeadlinePassedError */
export async function foldStateAt(
  bench: Bench,
  refold: Refold,
  query: StateAtQuery,
): Promise<Omit<StateAt, 'headVersion'>> {
  const version = refold.toVersion;
  let diff: StateAt['diff'];
  if (query.diff !== undefined) {
    await refold.advance(bench, Math.min(version, query.diff.fromVersion - 1));
    diff = await effects(bench, refold, query.diff);
  }
  await refold.advance(bench, version);
  const { state, lastModified, fault } = refold;
  return { version: refold.version, state, lastModified, fault, diff };
}

async function effects(
  bench: Bench,
  refold: Refold,
  { fromVersion, limit }: { readonly fromVersion: number; readonly limit: number },
): Promise<NonNullable<StateAt['diff']>> {
  const events: EventEffect[] = [];
  const until = Math.min(refold.toVersion, fromVersion + limit - 1);
  const began = performance.now();
  for (let bytes = 0; bytes < DIFF_BYTES && performance.now() - began < DIFF_MS;) {
    const count = Math.max(
      1,
      Math.min(EVENTS_PER_TURN, Math.floor(STATES_PER_TURN / ((refold.state?.length ?? 0) + 1))),
    );
    let before = refold.state;
    const item = await refold.item({ count, until, each: true });
    if (item === undefined) break;
    const outcome = await refold.fold(bench, item);
    const states = new Map(outcome.states.map(({ version, state }) => [version, state]));
    const passed = new Set(refold.skipped);
    for (const event of [...item.events, ...passed].sort((a, b) => a.version - b.version)) {
      const stopped = event.version > refold.version;
      if (stopped && event.version !== refold.fault?.version) break;
      const after = states.get(event.version);
      const patch = stopped || after === undefined ? undefined : patchText(before, after);
      events.push({ ...told(event), patch, fault: stopped ? refold.fault : undefined, skipped: passed.has(event) });
      if (stopped) break;
      if (after !== undefined) before = after;
      bytes += 200 + (patch?.length ?? 0);
      await bench.breathe();
    }
  }
  const stopped = events.length < limit ? await refold.stoppedAt() : undefined;
  if (stopped !== undefined && stopped.version >= fromVersion)
    events.push({ ...told(stopped), patch: undefined, fault: refold.fault, skipped: false });
  const last = events.at(-1)?.version ?? fromVersion - 1;
  return {
    events,
    nextVersion: refold.fault === undefined && last >= fromVersion && last < refold.toVersion ? last + 1 : undefined,
  };
}

const told = ({
  version,
  eventId,
  eventType,
  timestamp,
}: StoredEvent): Pick<EventEffect, 'version' | 'eventId' | 'eventType' | 'timestamp'> => ({
  version,
  eventId,
  eventType,
  timestamp,
});
