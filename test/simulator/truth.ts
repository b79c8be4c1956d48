import { uuidText } from '../../src/core/ids.js';
import { EMPTY_FENCE, foldRecord, type Epochs, type FenceState } from '../../src/core/fence.js';
import type { Fault } from '../../src/core/event.js';
import type {
  ChangesBody,
  ChangeValue,
  ClaimBody,
  CommitValue,
  EventsBody,
  Fence,
  ProjectionReleaseValue,
  ProjectionSwapValue,
} from '../../src/core/records.js';
import type { ReducerControl } from '../../src/core/records.js';
import type { RecordCodec } from '../../src/log/codec/codec.js';
import { ChangesJudge, commitsOfBody, EventsJudge } from '../support/rules.js';
import { payloadOf, project, reduce, type Payload, uploadOf } from './sim-code.js';
import type { SimLog } from './sim-log.js';
import { CHANGES, codecs, EVENTS } from './world.js';

export interface TrueCommit {
  readonly offset: number;
  /** Step of the simulation in which it landed. */
  readonly step: number;
  /** Of a transaction, what it added to one aggregate. */
  readonly value: CommitValue;
  /** Of how many aggregates the transaction is; undefined: it is none. */
  readonly parts: number | undefined;
  readonly eventIds: readonly string[];
  readonly payloads: readonly Payload[];
}
export interface TrueChange {
  readonly sequence: number;
  readonly value: ChangeValue;
}

/** What the log says, folded from its first record by the rules alone. */
export interface Truth {
  readonly inputs: readonly (
    | { readonly commit: TrueCommit }
    | { readonly swap: ProjectionSwapValue; readonly offset: number }
    | { readonly release: ProjectionReleaseValue; readonly offset: number }
  )[];
  /** What it says of faults of the reducer. */
  readonly reducers: readonly ReducerControl[];
  readonly commits: readonly TrueCommit[];
  readonly byAggregate: ReadonlyMap<string, readonly TrueCommit[]>;
  readonly changes: readonly TrueChange[];
  /** By aggregate, the step in which its erasure landed. */
  readonly erased: ReadonlyMap<string, number>;
  /** Of each of these, where in the log that is. */
  readonly erasedAt: ReadonlyMap<string, number>;
  /** All commits that were written, those too that do not count. */
  readonly written: readonly CommitValue[];
  readonly voids: number;
  readonly epochs: number;
  /** Offsets of the claims of the changes that count. */
  readonly claims: readonly number[];
  /** Of those the ones that landed where their writers expected: a reader who has not what was before knows that they count. */
  readonly expectedClaims: readonly number[];
}

function foldTopic<B extends { readonly kind: string }>(
  log: SimLog,
  topic: string,
  codec: RecordCodec<B>,
  judge: { judge(body: B): boolean; accept(body: B): void },
  accepted: (body: B, offset: number, step: number, fence: Fence) => void,
  epochs: Epochs = 'counted',
): { voids: number; epoch: number; claims: readonly number[]; expectedClaims: readonly number[] } {
  const claims: number[] = [];
  const expectedClaims: number[] = [];
  let state: FenceState = EMPTY_FENCE;
  let voids = 0;
  for (const { offset, value, step } of log.records(topic)) {
    const record: { fence: Fence; body: B | ClaimBody } | undefined = value === null ? undefined : codec.decode(value);
    const folded = foldRecord<B>(state, offset, record, (body) => judge.judge(body), epochs);
    state = folded.state;
    if (folded.verdict === 'claimed') {
      claims.push(offset);
      if (record?.fence.expectedOffset === offset) expectedClaims.push(offset);
    }
    if (folded.verdict === 'void') voids++;
    else if (folded.verdict === 'accepted' && record !== undefined) {
      judge.accept(record.body as B);
      accepted(record.body as B, offset, step, record.fence);
    }
  }
  return { voids, epoch: state.epoch, claims, expectedClaims };
}

export function truthOf(log: SimLog): Truth {
  const inputs: Truth['inputs'][number][] = [];
  const reducers: ReducerControl[] = [];
  const commits: TrueCommit[] = [];
  const byAggregate = new Map<string, TrueCommit[]>();
  const erased = new Map<string, number>();
  const erasedAt = new Map<string, number>();
  const events = foldTopic<EventsBody>(log, EVENTS, codecs.events, new EventsJudge(), (body, offset, step) => {
    if (body.kind === 'Erase') {
      erased.set(body.value.aggregateId, step);
      erasedAt.set(body.value.aggregateId, offset);
    }
    if (body.kind === 'ProjectionSwap') inputs.push({ swap: body.value, offset });
    if (body.kind === 'ProjectionRelease') inputs.push({ release: body.value, offset });
    if (body.kind === 'ReducerFault' || body.kind === 'ReducerRelease') reducers.push(body);
    for (const value of commitsOfBody(body)) {
      const commit = {
        offset,
        step,
        value,
        parts: body.kind === 'Transaction' ? body.value.parts.length : undefined,
        eventIds: value.events.map(({ eventId }) => uuidText(eventId)),
        payloads: value.events.map(({ data }) => payloadOf(data)),
      };
      inputs.push({ commit });
      commits.push(commit);
      const of = byAggregate.get(value.aggregateId);
      if (of === undefined) byAggregate.set(value.aggregateId, [commit]);
      else of.push(commit);
    }
  });
  const written = log.records(EVENTS).flatMap(({ value }) => {
    const body = value === null ? undefined : codecs.events.decode(value)?.body;
    return body === undefined || body.kind === 'Claim' ? [] : commitsOfBody(body);
  });
  const changes: TrueChange[] = [];
  const changed = foldTopic<ChangesBody>(
    log,
    CHANGES,
    codecs.changes,
    new ChangesJudge(),
    ({ value }, sequence) => changes.push({ sequence, value }),
    'given',
  );
  const { claims, expectedClaims } = changed;
  const voids = events.voids + changed.voids;
  return {
    inputs,
    reducers,
    commits,
    byAggregate,
    changes,
    erased,
    erasedAt,
    written,
    voids,
    epochs: events.epoch,
    claims,
    expectedClaims,
  };
}

/**
 * Of what retention took, and of what stands before the first claim that it left and that surely counts, a reader may know nothing
 * any more: it has all changes from the result on.
 */
export function oldestKnown(log: SimLog, { expectedClaims }: Truth): number {
  const start = log.start(CHANGES);
  return start === 0 ? 0 : (expectedClaims.find((offset) => offset >= start) ?? Infinity);
}

/** One change that must be in the log. */
export interface Due {
  readonly input: number;
  readonly key: string;
  readonly state: string | null;
  readonly fault: boolean;
  readonly cause: string | null;
}
/** Where a key stands; `stopped`: its process was stopped, which the code alone does not say. */
interface Stand {
  readonly eventId: string;
  readonly stopped: boolean;
}
interface Row {
  readonly state: Buffer | null;
  readonly fault: Stand | undefined;
}

export interface ProjectionModel {
  readonly due: readonly Due[];
  readonly rows: ReadonlyMap<string, Row>;
  readonly revision: number;
  /** Releases that took a key on. */
  readonly releases: number;
}

const text = (state: Buffer | null): string | null => (state === null ? null : state.toString());
const sameStand = (a: Stand | undefined, b: Stand | undefined): boolean =>
  a?.eventId === b?.eventId && a?.stopped === b?.stopped;

/** Where processes were stopped: it is in the log, and nowhere else. */
function stopsOf(truth: Truth, projectionId: string): ReadonlySet<string> {
  const stops = new Set<string>();
  for (const { value } of truth.changes) {
    const fault =
      value.projectionId !== projectionId || value.fault === null
        ? undefined
        : (JSON.parse(value.fault.toString()) as Fault);
    if (fault?.stopped === true) stops.add(`${value.revision}/${value.inputOffset}/${value.key}/${fault.eventId}`);
  }
  return stops;
}

/** What a projection must have done by now: a fold of the accepted inputs in their order. */
export function modelOf(truth: Truth, projectionId: string): ProjectionModel {
  const due: Due[] = [];
  const history: TrueCommit[] = [];
  const stops = stopsOf(truth, projectionId);
  /** Of each revision. */
  const uploads = new Map<number, number>();
  let revision = 0;
  let releases = 0;
  let rows = new Map<string, Row>();
  /** The row after an event, or undefined where it is as it was. */
  const next = (
    of: number,
    input: number,
    key: string,
    row: Row,
    eventId: string,
    payload: Payload,
  ): Row | undefined => {
    const stopped = stops.has(`${of}/${input}/${key}/${eventId}`);
    const state = stopped ? undefined : project(uploads.get(of) ?? 0, row.state, payload);
    if (state === undefined) return { state: row.state, fault: { eventId, stopped } };
    return state === row.state ? undefined : { state, fault: undefined };
  };
  const feed = (into: Map<string, Row>, of: number, commit: TrueCommit, tell: (key: string, row: Row) => void): void =>
    commit.payloads.forEach((payload, i) => {
      for (const key of payload.k) {
        const row = into.get(key) ?? { state: null, fault: undefined };
        const after =
          row.fault === undefined ? next(of, commit.offset, key, row, commit.eventIds[i] ?? '', payload) : undefined;
        if (after === undefined) continue;
        into.set(key, after);
        tell(key, after);
      }
    });
  const told = (input: number, key: string, { state, fault }: Row, cause: string | null): unknown =>
    due.push({ input, key, state: text(state), fault: fault !== undefined, cause });
  const release = ({ key, eventId, mode }: ProjectionReleaseValue, offset: number): void => {
    const before = rows.get(key);
    if (before?.fault?.eventId !== eventId) return;
    releases++;
    let row: Row = { state: before.state, fault: undefined };
    let changes = 0;
    let past = false;
    for (const commit of history)
      commit.payloads.forEach((payload, i) => {
        const id = commit.eventIds[i] ?? '';
        const from = id === eventId;
        past ||= from;
        if (!past || row.fault !== undefined || !payload.k.includes(key) || (from && mode === 'skip')) return;
        const after = next(revision, offset, key, row, id, payload);
        if (after === undefined) return;
        row = after;
        changes++;
        told(offset, key, row, mode);
      });
    if (changes === 0) told(offset, key, row, mode);
    rows.set(key, row);
  };
  for (const input of truth.inputs) {
    if ('commit' in input) {
      const { commit } = input;
      history.push(commit);
      if (revision > 0) feed(rows, revision, commit, (key, row) => told(commit.offset, key, row, null));
      continue;
    }
    if ('release' in input) {
      if (input.release.projectionId === projectionId && input.release.revision === revision)
        release(input.release, input.offset);
      continue;
    }
    const { swap, offset } = input;
    if (swap.projectionId !== projectionId || swap.revision <= revision) continue;
    uploads.set(swap.revision, uploadOf(swap.artefactId));
    const built = new Map<string, Row>();
    for (const commit of history) feed(built, swap.revision, commit, () => undefined);
    // First the keys of the old revision, then the new ones. One that only the old revision had is told once that it is gone, and is an empty row from then on.
    const fresh = [...built.keys()].filter((key) => !rows.has(key));
    for (const key of [...[...rows.keys()].sort(), ...fresh.sort()]) {
      const [old, row] = [rows.get(key), built.get(key) ?? { state: null, fault: undefined }];
      if (old === undefined && row.state === null && row.fault === undefined) {
        built.delete(key); // nobody was ever told of it
        continue;
      }
      if (old === undefined || text(old.state) !== text(row.state) || !sameStand(old.fault, row.fault))
        told(offset, key, row, swap.cause);
      built.set(key, row);
    }
    revision = swap.revision;
    rows = built;
  }
  return { due, rows, revision, releases };
}

export interface StandingAggregate {
  readonly version: number;
  readonly state: string | null;
  readonly fault: boolean;
}

/** Versions that are passed over, in the order in which the log says so. */
export function skipsOf(truth: Truth, aggregateId: string): readonly number[] {
  return truth.reducers.flatMap(({ kind, value }) =>
    kind === 'ReducerRelease' && value.mode === 'skip' && value.aggregateId === aggregateId ? [value.version] : [],
  );
}

/** The state at a version, of the first of the skips alone. */
export function stateAt(
  truth: Truth,
  aggregateId: string,
  version: number,
  skips: readonly number[] = skipsOf(truth, aggregateId),
): string | null {
  let state: Buffer | null = null;
  let at = 0;
  for (const { payloads } of truth.byAggregate.get(aggregateId) ?? [])
    for (const payload of payloads) if (++at <= version && !skips.includes(at)) state = reduce(state, payload);
  return text(state);
}

/** How an aggregate stands at the end of the log: before the first event that throws, or on which the log says that the process was stopped. */
export function standing(truth: Truth, aggregateId: string): StandingAggregate {
  let stop: number | undefined;
  for (const { kind, value } of truth.reducers) {
    if (value.aggregateId !== aggregateId) continue;
    if (kind === 'ReducerFault') stop = value.version;
    else if (stop === value.version) stop = undefined;
  }
  const skips = skipsOf(truth, aggregateId);
  const payloads = (truth.byAggregate.get(aggregateId) ?? []).flatMap((commit) => commit.payloads);
  const thrown = payloads.findIndex((payload, i) => payload.bitter && !skips.includes(i + 1)) + 1;
  const at = Math.min(thrown === 0 ? Infinity : thrown, stop ?? Infinity);
  const version = Math.min(at - 1, payloads.length);
  return { version, state: stateAt(truth, aggregateId, version), fault: at <= payloads.length };
}

/** As a reader of what is left of the log finds it. */
export const withoutErased = (truth: Truth): Truth => ({
  ...truth,
  inputs: truth.inputs.filter((input) => !('commit' in input) || !truth.erased.has(input.commit.value.aggregateId)),
});
