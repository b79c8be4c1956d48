// A checker that never complains proves nothing: a sound run passes, and each way of tampering with it is found under its number.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { check, type Evidence, type FollowedProjection, type Notification } from '../support/checker.js';
import type { LoggedChange, LoggedCommit } from '../support/checker-log.js';
import { chainAfter, LANES, type Chain } from '../support/checker-model.js';
import type { AppendRequest, Operation } from '../support/history.js';

const PROJECTION = 'lanes-1';
const iso = (offset: number): string => new Date(1_000 * offset).toISOString();

type Writable<T> = T extends readonly (infer U)[]
  ? Writable<U>[]
  : T extends object
    ? { -readonly [K in keyof T]: Writable<T[K]> }
    : T;
/** Deep enough for the tampering; maps stay maps. */
type Sound = Writable<Omit<Evidence, 'listed' | 'states' | 'boundSince' | 'projections'>> &
  Pick<Evidence, 'listed' | 'states' | 'boundSince'> & {
    projections: (Writable<Omit<FollowedProjection, 'states' | 'model'>> &
      Pick<FollowedProjection, 'states' | 'model'>)[];
  };

/** A run of a service that makes no mistakes: two aggregates, a batch, a repeated key, a lost answer, a race, a refusal, two reads. */
function sound(): Sound {
  const commits: LoggedCommit[] = [];
  const changes: LoggedChange[] = [];
  const history: Operation[] = [];
  const versions = new Map<string, number>();
  const states = new Map<string, Chain>();
  const lanes = new Map<string, Chain>();
  const polled: Notification[] = [];
  let marks = 0;
  let clock = 0;
  const commandOf = (aggregateId: string, count: number, more: Partial<AppendRequest> = {}): AppendRequest => ({
    kind: 'append',
    command: marks,
    aggregateId,
    batch: count > 1,
    events: Array.from({ length: count }, () => ({
      mark: `e${marks}`,
      lane: `lane-${marks++ % 2}`,
      eventType: 'Added',
    })),
    ...more,
  });
  const ended = (request: Operation['request'], outcome: Operation['outcome']): void => {
    history.push({ request, invokedAt: clock, endedAt: clock + 5, outcome });
    clock += 10;
  };
  const write = (request: AppendRequest): Record<string, unknown> => {
    const { aggregateId } = request;
    const baseVersion = versions.get(aggregateId) ?? 0;
    const offset = commits.length + 2; // after a claim and a swap
    const commit = {
      offset,
      aggregateId,
      aggregateType: 'ledger',
      baseVersion,
      timestamp: 1_000 * offset,
      key: request.key,
      events: request.events.map((event) => ({ ...event, eventId: `id-${event.mark}` })),
    };
    commits.push(commit);
    versions.set(aggregateId, baseVersion + request.events.length);
    commit.events.forEach(({ mark, lane, eventId }, i) => {
      states.set(aggregateId, chainAfter(states.get(aggregateId) ?? null, mark));
      const state = chainAfter(lanes.get(lane) ?? null, mark);
      lanes.set(lane, state);
      const change = {
        sequence: changes.length + 1,
        projectionId: PROJECTION,
        key: lane,
        eventId,
        aggregateId,
        version: baseVersion + i + 1,
        state,
        cause: null,
      };
      changes.push(change);
      polled.push({
        sequence: change.sequence,
        projectionId: PROJECTION,
        className: 'Lanes',
        key: lane,
        aggregateId,
        aggregateType: 'ledger',
        eventId,
        version: change.version,
        state,
        timestamp: iso(offset),
      });
    });
    const versionsOf = request.batch
      ? { startVersion: baseVersion + 1, endVersion: baseVersion + request.events.length }
      : { version: baseVersion + 1 };
    return {
      aggregateId,
      ...versionsOf,
      eventIds: commit.events.map(({ eventId }) => eventId),
      eventId: commit.events[0]?.eventId,
      state: states.get(aggregateId) ?? null,
    };
  };
  const append = (request: AppendRequest): Record<string, unknown> => {
    const body = write(request);
    ended(request, { kind: 'answered', status: 201, body });
    return body;
  };
  append(commandOf('ledger-1', 1));
  append(commandOf('ledger-1', 3));
  append(commandOf('ledger-2', 1, { expectedVersion: 0 }));
  ended(commandOf('ledger-2', 1, { expectedVersion: 0 }), {
    kind: 'answered',
    status: 409,
    body: { code: 'VERSION_CONFLICT', expectedVersion: 0, currentVersion: 1 },
  });
  const keyed = commandOf('ledger-2', 1, { key: 'key-1' });
  write(keyed);
  ended(keyed, { kind: 'lost' });
  ended(keyed, {
    kind: 'answered',
    status: 201,
    body: { version: 2, eventId: `id-${keyed.events[0]?.mark}`, stateStatus: 'superseded' },
  });
  ended(commandOf('ledger-2', 1, { key: 'key-1' }), {
    kind: 'answered',
    status: 409,
    body: { code: 'IDEMPOTENCY_KEY_REUSED' },
  });
  ended(commandOf('ledger-1', 1), { kind: 'answered', status: 503, body: { code: 'UNAVAILABLE', retryable: true } });
  const list = (aggregateId: string) =>
    commits
      .filter((commit) => commit.aggregateId === aggregateId)
      .flatMap(({ events, offset, baseVersion }) =>
        events.map(({ eventId, eventType, mark, lane }, i) => ({
          eventId,
          eventType,
          version: baseVersion + i + 1,
          timestamp: iso(offset),
          data: { id: mark, lane },
        })),
      );
  ended(
    { kind: 'list', aggregateId: 'ledger-1' },
    { kind: 'answered', status: 200, body: { events: list('ledger-1') } },
  );
  ended(
    { kind: 'state', aggregateType: 'ledger', aggregateId: 'ledger-1' },
    { kind: 'answered', status: 200, body: { version: 4, state: states.get('ledger-1') } },
  );
  append(commandOf('ledger-1', 1));
  const deliveries = polled.map((notification) => ({ id: `msg_${notification.sequence}`, signed: true, notification }));
  const evidence: Evidence = {
    history,
    log: { commits, changes, swaps: [{ offset: 1, projectionId: PROJECTION }], epochs: 2, voids: 0 },
    listed: new Map([...versions.keys()].map((aggregateId) => [aggregateId, list(aggregateId)])),
    states: new Map(
      [...states].map(([aggregateId, state]) => [aggregateId, { version: versions.get(aggregateId) ?? 0, state }]),
    ),
    boundSince: new Map([['ledger', -1]]),
    projections: [
      {
        projectionId: PROJECTION,
        model: LANES,
        states: lanes,
        polled,
        followers: [structuredClone(polled)],
        deliveries: structuredClone(deliveries),
      },
    ],
    rows: {
      events: commits.flatMap(({ aggregateId, baseVersion, events }) =>
        events.map(({ eventId, mark }, i) => ({
          aggregate_id: aggregateId,
          version: baseVersion + i + 1,
          event_id: eventId,
          mark,
        })),
      ),
      aggregateStates: [...states].map(([aggregateId, state]) => ({
        aggregate_id: aggregateId,
        version: versions.get(aggregateId) ?? 0,
        state,
      })),
      notifications: polled.map(({ sequence, key, eventId, state }) => ({
        projection_id: PROJECTION,
        sequence,
        key,
        event_id: eventId,
        state,
      })),
      projectionStates: [...lanes].map(([key, state]) => ({ projection_id: PROJECTION, key, state })),
    },
  };
  return structuredClone({
    ...evidence,
    projections: evidence.projections.map((one) => ({ ...one, model: undefined })),
  } as unknown as Sound);
}

/** The model is code, which a structured clone can't carry. */
const withModel = (evidence: Sound): Evidence => ({
  ...evidence,
  projections: evidence.projections.map((one) => ({ ...one, model: LANES })),
});

function must<T>(value: T | undefined): T {
  assert.ok(value !== undefined);
  return value;
}
const answerOf = (evidence: Sound, index: number): { status: number; body: Record<string, unknown> } =>
  must(evidence.history[index]).outcome as unknown as { status: number; body: Record<string, unknown> };
const projection = (evidence: Sound) => must(evidence.projections[0]);

const TAMPERED: readonly (readonly [invariant: number, what: string, tamper: (evidence: Sound) => void])[] = [
  [1, 'a version is missing in the log', (evidence) => void (must(evidence.log.commits[1]).baseVersion = 2)],
  [1, 'a listing ends early', (evidence) => void (must(evidence.listed.get('ledger-1')) as unknown[]).pop()],
  [2, 'an acknowledged event is gone', (evidence) => void evidence.log.commits.pop()],
  [
    2,
    'an answer names another event id',
    (evidence) => void ((answerOf(evidence, 0).body['eventIds'] as string[])[0] = 'other'),
  ],
  [2, 'an answer names another version', (evidence) => void (answerOf(evidence, 2).body['version'] = 7)],
  [3, 'a refused event is in the log', (evidence) => void (answerOf(evidence, 0).status = 400)],
  [
    3,
    'an event is in the log twice',
    (evidence) => void evidence.log.commits.push({ ...must(evidence.log.commits[0]), baseVersion: 5 }),
  ],
  [3, 'an unknown error is answered', (evidence) => void (answerOf(evidence, 7).status = 500)],
  [3, 'a 503 is not retryable', (evidence) => void (answerOf(evidence, 7).body['retryable'] = false)],
  [
    4,
    'a repeat is answered as a new append',
    (evidence) =>
      void evidence.history.push({
        ...must(evidence.history[5]),
        outcome: { kind: 'answered', status: 201, body: { version: 3, eventId: 'other' } },
      }),
  ],
  [4, 'a key covers two commits', (evidence) => void (must(evidence.log.commits[2]).key = 'key-1')],
  [4, 'a key is taken for another body', (evidence) => void (answerOf(evidence, 6).status = 201)],
  [5, 'a batch is torn in the log', (evidence) => void must(evidence.log.commits[1]).events.pop()],
  [
    5,
    'a reader sees a part of a batch',
    (evidence) => void (answerOf(evidence, 8).body['events'] as unknown[]).splice(2),
  ],
  [
    6,
    'two win a race',
    (evidence) =>
      void Object.assign(must(evidence.history[0]).request, { aggregateId: 'ledger-2', expectedVersion: 0 }),
  ],
  [
    6,
    'an append wins at another version',
    (evidence) => void Object.assign(must(evidence.history[1]).request, { expectedVersion: 0 }),
  ],
  [
    6,
    'an append is refused at the version that it expects',
    (evidence) => void Object.assign(must(evidence.history[3]), { invokedAt: -9, endedAt: -5 }),
  ],
  [
    7,
    'a later append gets an earlier version',
    (evidence) => void Object.assign(must(evidence.history[0]), { invokedAt: 500, endedAt: 505 }),
  ],
  [7, 'a read misses what was answered before', (evidence) => void (answerOf(evidence, 8).body['events'] = [])],
  [
    9,
    'a read shows another event',
    (evidence) =>
      void Object.assign(must((answerOf(evidence, 8).body['events'] as { eventId: string }[])[0]), {
        eventId: 'other',
      }),
  ],
  [9, 'the read store lacks a row', (evidence) => void must(evidence.rows).events.pop()],
  [
    9,
    'the read store has a row twice',
    (evidence) => void must(evidence.rows).notifications.push(must(must(evidence.rows).notifications[0])),
  ],
  [9, 'the read store has an old state', (evidence) => void (must(must(evidence.rows).aggregateStates[0]).version = 1)],
  [
    10,
    'the state of a 201 misses an event',
    (evidence) => void (answerOf(evidence, 1).body['state'] = answerOf(evidence, 0).body['state']),
  ],
  [10, 'a 201 has no state, and no reason', (evidence) => void delete answerOf(evidence, 0).body['state']],
  [
    10,
    'the last state has an event twice',
    (evidence) =>
      void Object.assign(must(evidence.states.get('ledger-1')), {
        state: chainAfter(must(evidence.states.get('ledger-1')).state, 'e1'),
      }),
  ],
  [
    11,
    'a projection has folded an event twice',
    (evidence) =>
      void (projection(evidence).states as Map<string, Chain>).set(
        'lane-0',
        chainAfter(projection(evidence).states.get('lane-0') ?? null, 'e0'),
      ),
  ],
  [
    11,
    'a change was made twice',
    (evidence) =>
      void [evidence.log.changes, projection(evidence).polled].forEach((list: { sequence: number }[]) =>
        list.push({ ...must(list.at(-1)), sequence: 99 }),
      ),
  ],
  [12, 'a change is not polled', (evidence) => void projection(evidence).polled.splice(1, 1)],
  [
    12,
    'a sequence is used for other content',
    (evidence) => void (must(must(projection(evidence).followers[0])[0]).key = 'other'),
  ],
  [
    12,
    'a sequence goes back',
    (evidence) =>
      void [evidence.log.changes, projection(evidence).polled].forEach(
        (list: { sequence: number }[]) => void (must(list[1]).sequence = 1),
      ),
  ],
  [12, 'a webhook is never delivered', (evidence) => void must(projection(evidence).deliveries).shift()],
  [
    12,
    'a webhook comes again under another id',
    (evidence) =>
      void must(projection(evidence).deliveries).push({
        ...must(must(projection(evidence).deliveries)[0]),
        id: 'other',
      }),
  ],
  [12, 'webhooks of a key are out of order', (evidence) => void must(projection(evidence).deliveries).reverse()],
  [12, 'a webhook is not signed', (evidence) => void (must(must(projection(evidence).deliveries)[0]).signed = false)],
  [13, 'a follower has a gap', (evidence) => void must(projection(evidence).followers[0]).splice(2, 1)],
  [
    13,
    'a follower gets a record again',
    (evidence) =>
      void must(projection(evidence).followers[0]).splice(2, 0, must(must(projection(evidence).followers[0])[1])),
  ],
];

describe('the checker', () => {
  it('passes a sound run', () => assert.deepEqual(check(withModel(sound())), []));

  for (const [invariant, what, tamper] of TAMPERED)
    it(`finds under ${invariant} that ${what}`, () => {
      const evidence = sound();
      tamper(evidence);
      const findings = check(withModel(evidence));
      assert.ok(
        findings.some((finding) => finding.startsWith(`[${invariant}] `)),
        `found only:\n${findings.join('\n')}`,
      );
    });
});
