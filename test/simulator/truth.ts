import { judgeCommit, headAfter, type Head } from '../../src/core/append-rules.js';
import { uuidText } from '../../src/core/ids.js';
import { EMPTY_FENCE, foldRecord, type FenceState } from '../../src/core/fence.js';
import type { ChangesBody, ChangeValue, ClaimBody, CommitValue, EventsBody, Fence, ProjectionSwapValue } from '../../src/core/records.js';
import type { RecordCodec } from '../../src/log/codec.js';
import { payloadOf, project, reduce, type Payload } from './sim-code.js';
import type { SimLog } from './sim-log.js';
import { CHANGES, codecs, EVENTS } from './world.js';

export interface TrueCommit {
  readonly offset: number;
  /** Step of the simulation in which it landed. */
  readonly step: number;
  readonly value: CommitValue;
  readonly eventIds: readonly string[];
  readonly payloads: readonly Payload[];
}
export interface TrueChange {
  readonly sequence: number;
  readonly value: ChangeValue;
}

/** What the log says, folded from its first record by the rules alone. */
export interface Truth {
  readonly inputs: readonly ({ readonly commit: TrueCommit } | { readonly swap: ProjectionSwapValue; readonly offset: number })[];
  readonly commits: readonly TrueCommit[];
  readonly byAggregate: ReadonlyMap<string, readonly TrueCommit[]>;
  readonly changes: readonly TrueChange[];
  readonly voids: number;
  readonly epochs: number;
}

function foldTopic<B extends { readonly kind: string }>(
  log: SimLog,
  topic: string,
  codec: RecordCodec<B>,
  judge: (body: B) => boolean,
  accepted: (body: B, offset: number, step: number, fence: Fence) => void,
): { voids: number; epoch: number } {
  let state: FenceState = EMPTY_FENCE;
  let voids = 0;
  for (const { offset, value, step } of log.records(topic)) {
    const record: { fence: Fence; body: B | ClaimBody } | undefined = value === null ? undefined : codec.decode(value);
    const folded = foldRecord<B>(state, offset, record, judge);
    state = folded.state;
    if (folded.verdict === 'void') voids++;
    else if (folded.verdict === 'accepted' && record !== undefined) accepted(record.body as B, offset, step, record.fence);
  }
  return { voids, epoch: state.epoch };
}

export function truthOf(log: SimLog): Truth {
  const heads = new Map<string, Head>();
  const inputs: Truth['inputs'][number][] = [];
  const commits: TrueCommit[] = [];
  const byAggregate = new Map<string, TrueCommit[]>();
  const events = foldTopic<EventsBody>(
    log,
    EVENTS,
    codecs.events,
    (body) => body.kind !== 'Commit' || judgeCommit(heads.get(body.value.aggregateId), body.value),
    (body, offset, step) => {
      if (body.kind === 'ProjectionSwap') inputs.push({ swap: body.value, offset });
      if (body.kind !== 'Commit') return;
      const { value } = body;
      heads.set(value.aggregateId, headAfter(value));
      const commit = { offset, step, value, eventIds: value.events.map(({ eventId }) => uuidText(eventId)), payloads: value.events.map(({ data }) => payloadOf(data)) };
      inputs.push({ commit });
      commits.push(commit);
      const of = byAggregate.get(value.aggregateId);
      if (of === undefined) byAggregate.set(value.aggregateId, [commit]);
      else of.push(commit);
    },
  );
  const last = new Map<string, readonly [number, number]>();
  const changes: TrueChange[] = [];
  const changed = foldTopic<ChangesBody>(
    log,
    CHANGES,
    codecs.changes,
    ({ value }) => {
      const [offset, index] = last.get(value.projectionId) ?? [-1, -1];
      return value.inputOffset > offset || (value.inputOffset === offset && value.inputIndex > index);
    },
    ({ value }, sequence) => {
      last.set(value.projectionId, [value.inputOffset, value.inputIndex]);
      changes.push({ sequence, value });
    },
  );
  return { inputs, commits, byAggregate, changes, voids: events.voids + changed.voids, epochs: events.epoch };
}

/** One change that must be in the log. */
export interface Due {
  readonly input: number;
  readonly key: string;
  readonly state: string | null;
  readonly fault: boolean;
  readonly cause: string | null;
}
interface Row {
  readonly state: Buffer | null;
  readonly fault: boolean;
}

export interface ProjectionModel {
  readonly due: readonly Due[];
  readonly rows: ReadonlyMap<string, Row>;
  readonly revision: number;
}

const text = (state: Buffer | null): string | null => (state === null ? null : state.toString());

/** What a projection must have done by now: a fold of the accepted inputs in their order. */
export function modelOf(truth: Truth, projectionId: string): ProjectionModel {
  const due: Due[] = [];
  const history: TrueCommit[] = [];
  let revision = 0;
  let rows = new Map<string, Row>();
  const feed = (into: Map<string, Row>, of: number, commit: TrueCommit, tell: (key: string, row: Row) => void): void => {
    for (const payload of commit.payloads)
      for (const key of payload.k) {
        const row = into.get(key) ?? { state: null, fault: false };
        if (row.fault) continue;
        const next = project(of, row.state, payload);
        if (next === row.state) continue;
        const after = next === undefined ? { state: row.state, fault: true } : { state: next, fault: false };
        into.set(key, after);
        tell(key, after);
      }
  };
  for (const input of truth.inputs) {
    if ('commit' in input) {
      const { commit } = input;
      history.push(commit);
      if (revision > 0) feed(rows, revision, commit, (key, { state, fault }) => due.push({ input: commit.offset, key, state: text(state), fault, cause: null }));
      continue;
    }
    const { swap, offset } = input;
    if (swap.projectionId !== projectionId || swap.revision <= revision) continue;
    const next = new Map<string, Row>();
    for (const commit of history) feed(next, swap.revision, commit, () => undefined);
    // First the keys of the old revision, then the new ones. One that only the old revision had is told once that it is gone, and is an empty row from then on.
    const fresh = [...next.keys()].filter((key) => !rows.has(key));
    for (const key of [...[...rows.keys()].sort(), ...fresh.sort()]) {
      const [old, row] = [rows.get(key), next.get(key) ?? { state: null, fault: false }];
      if (old === undefined && row.state === null && !row.fault) {
        next.delete(key); // nobody was ever told of it
        continue;
      }
      if (old === undefined || text(old.state) !== text(row.state) || old.fault !== row.fault) due.push({ input: offset, key, state: text(row.state), fault: row.fault, cause: swap.cause });
      next.set(key, row);
    }
    revision = swap.revision;
    rows = next;
  }
  return { due, rows, revision };
}

export function stateAt(truth: Truth, aggregateId: string, version: number): string | null {
  let state: Buffer | null = null;
  let at = 0;
  for (const { payloads } of truth.byAggregate.get(aggregateId) ?? []) for (const payload of payloads) if (++at <= version) state = reduce(state, payload);
  return text(state);
}
