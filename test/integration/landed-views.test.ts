// The views over what Kafka Connect lands (connectors/clickhouse) must say of each record what every reader of the log says: accepted
// or void. Logs come from the simulator: takeovers, zombies, lost answers and duplicates, with the truth beside them.
import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { EMPTY_FENCE, foldRecord } from '../../src/core/fence.js';
import {
  GIVEN_EPOCH_RULES,
  type ChangesBody,
  type ClaimBody,
  type EventsBody,
  type Fence,
} from '../../src/core/records.js';
import { planOf, simulate } from '../simulator/plans.js';
import type { Truth } from '../simulator/truth.js';
import { CHANGES, codecs, EVENTS } from '../simulator/world.js';
import { land, landedChange, landedEvent, makeLandingTables, select, type LandedRow } from '../support/landed.js';
import { ChangesJudge, EventsJudge } from '../support/rules.js';
import type { ClickHouseEndpoint } from '../../src/read-store/endpoint.js';
import { eventRow } from '../contracts/read-store.contract.js';
import { openStore, readyEngine } from './read-store-fixture.js';

const SEEDS = 60;

interface SimulatedLog {
  readonly tenant: string;
  readonly events: LandedRow[];
  readonly changes: LandedRow[];
  readonly truth: Truth;
}

async function simulatedLog(seed: number): Promise<SimulatedLog> {
  const tenant = `t${seed}`;
  const events: LandedRow[] = [];
  const changes: LandedRow[] = [];
  const { truth, problems } = await simulate(planOf(seed), async (world) => {
    await world.run();
    for (const { offset, value } of world.log.records(EVENTS)) {
      const record = value === null ? undefined : codecs.events.decode(value);
      if (record !== undefined) events.push(landedEvent({ topic: `statefold.${tenant}.events`, offset }, record));
    }
    for (const { offset, value } of world.log.records(CHANGES)) {
      const record = value === null ? undefined : codecs.changes.decode(value);
      if (record !== undefined) changes.push(landedChange({ topic: `statefold.${tenant}.changes`, offset }, record));
    }
  });
  assert.ok(truth !== undefined, problems.join('\n'));
  return { tenant, events, changes, truth };
}

/** An engine with the tables and views of the connectors. */
async function landingEngine(context: TestContext): Promise<ClickHouseEndpoint> {
  const engine = await readyEngine(context);
  const endpoint = engine.endpoint() ?? assert.fail('the engine is ready, and has no endpoint');
  await makeLandingTables(endpoint);
  return endpoint;
}

it(
  '1, 5, 8, 9: the views over landed records hold the accepted ones, and no void one',
  { timeout: 120_000 },
  async (context) => {
    let voids = 0;
    const logs: SimulatedLog[] = [];
    for (let seed = 1; seed <= SEEDS; seed++) {
      const log = await simulatedLog(seed);
      voids += log.truth.voids;
      logs.push(log);
    }
    // Not before: a simulation has all timers of this process, and those of the engine's health checks would never let it end.
    const endpoint = await landingEngine(context);
    const [events, changes] = [logs.flatMap((log) => log.events), logs.flatMap((log) => log.changes)];
    // Connect delivers at least once, and in the order of the partitions' offsets: the last half comes twice.
    for (const rows of [events, events.slice(events.length / 2)]) await land(endpoint, 'events', rows);
    for (const rows of [changes, changes.slice(changes.length / 2)]) await land(endpoint, 'changes', rows);
    assert.ok(voids > SEEDS, `only ${voids} records were void`);

    const eventRows = await select<{
      tenant: string;
      aggregate_id: string;
      version: string;
      event_id: string;
      data_raw: string;
      log_offset: string;
    }>(
      endpoint,
      'SELECT tenant, aggregate_id, version, event_id, data_raw, log_offset FROM statefold_events ORDER BY tenant, log_offset, aggregate_id, version',
    );
    const changeRows = await select<{
      tenant: string;
      projection_id: string;
      sequence: string;
      key: string;
      state_raw: string | null;
    }>(
      endpoint,
      'SELECT tenant, projection_id, sequence, key, state_raw FROM statefold_changes ORDER BY tenant, sequence',
    );
    const of = (rows: readonly { readonly tenant: string }[], tenant: string): object[] =>
      normalized(rows.filter((row) => row.tenant === tenant));
    let transactions = 0;
    for (const { tenant, truth } of logs) {
      // Parts of a transaction have one offset.
      const commits = [...truth.commits].sort(
        (a, b) => a.offset - b.offset || (a.value.aggregateId < b.value.aggregateId ? -1 : 1),
      );
      transactions += new Set(commits.flatMap(({ offset, parts = 1 }) => (parts > 1 ? [offset] : []))).size;
      const expected = commits.flatMap(({ offset, value, eventIds }) =>
        value.events.map(({ data }, i) => ({
          tenant,
          aggregate_id: value.aggregateId,
          version: String(value.baseVersion + i + 1),
          event_id: eventIds[i] ?? '',
          data_raw: data.toString(),
          log_offset: String(offset),
        })),
      );
      assert.deepEqual(of(eventRows, tenant), expected, `events of seed ${tenant}`);
      const expectedChanges = truth.changes.map(({ sequence, value }) => ({
        tenant,
        projection_id: value.projectionId,
        sequence: String(sequence),
        key: value.key,
        state_raw: value.state?.toString() ?? null,
      }));
      assert.deepEqual(of(changeRows, tenant), expectedChanges, `changes of seed ${tenant}`);
    }
    assert.ok(transactions > SEEDS / 5, `${transactions} transactions`);
    assert.ok(eventRows.length > 10 * SEEDS && changeRows.length > SEEDS, 'there was something to compare');
  },
);

/** 64-bit numbers as text, whether ClickHouse quotes them or not. */
const normalized = (rows: readonly object[]): object[] =>
  rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        typeof value === 'number' ? String(value) : (value as unknown),
      ]),
    ),
  );

const CLAIM: ClaimBody = { kind: 'Claim', value: { rules: 1 } };

function commit(aggregateId: string, baseVersion: number, count: number): EventsBody {
  const events = Array.from({ length: count }, (_, i) => ({
    eventId: Buffer.alloc(16, i),
    eventType: 'E',
    data: Buffer.from('{}'),
  }));
  const value = {
    commandId: 'c',
    keyed: false,
    requestHash: Buffer.alloc(0),
    aggregateId,
    aggregateType: 'acc',
    baseVersion,
    timestamp: 0,
    correlationId: null,
    causationId: null,
    metadata: null,
    events,
  };
  return { kind: 'Commit', value };
}

function change(projectionId: string, inputOffset: number, inputIndex: number): ChangesBody {
  const value = {
    projectionId,
    revision: 1,
    className: 'C',
    key: 'k',
    inputOffset,
    inputIndex,
    eventId: 'e',
    aggregateId: 'a',
    aggregateType: 'acc',
    version: 1,
    timestamp: 0,
    cause: null,
    state: null,
    fault: null,
  };
  return { kind: 'Change', value };
}

/** Records that a correct process never writes, and that each clause of the views is there for. */
const HOSTILE: readonly (readonly [
  epoch: number,
  owner: string,
  events: EventsBody | ClaimBody,
  changes: ChangesBody | ClaimBody,
])[] = [
  [1, 'A', commit('x', 0, 1), change('p', 0, 0)], // before any claim
  [1, 'A', CLAIM, CLAIM],
  [1, 'A', commit('x', 0, 2), change('p', 2, 0)],
  [1, 'B', CLAIM, CLAIM], // lost the race for the epoch
  [1, 'B', commit('x', 2, 1), change('p', 3, 0)], // and writes all the same
  [1, 'A', commit('x', 0, 2), change('p', 2, 0)], // twice
  [1, 'A', commit('x', 2, 1), change('p', 2, 1)],
  [2, 'B', commit('x', 3, 1), change('p', 4, 0)], // before its claim
  [2, 'B', CLAIM, CLAIM],
  [1, 'A', commit('x', 3, 5), change('p', 9, 0)], // a zombie
  [2, 'B', commit('y', 0, 1), change('q', 2, 0)],
  [2, 'B', commit('x', 3, 1), change('p', 4, 0)],
  [2, 'B', commit('x', 3, 1), change('p', 2, 1)], // an input that was passed
  [1, 'A', CLAIM, CLAIM], // a late claim of an old epoch
  [2, 'B', commit('x', 4, 1), change('p', 4, 1)],
];

it(
  '8, 9: each clause of the views keeps out what readers of the log keep out',
  { timeout: 60_000 },
  async (context) => {
    const endpoint = await landingEngine(context);

    const [ofEvents, ofChanges] = [new EventsJudge(), new ChangesJudge()];
    const expected = { events: [] as number[], changes: [] as number[] };
    let [eventsState, changesState] = [EMPTY_FENCE, EMPTY_FENCE];
    for (const [offset, [epoch, owner, events, changes]] of HOSTILE.entries()) {
      const fence: Fence = { epoch, owner, recordId: String(offset), expectedOffset: offset, previous: '' };
      const event = foldRecord<EventsBody>(eventsState, offset, { fence, body: events }, (body) =>
        ofEvents.judge(body),
      );
      eventsState = event.state;
      if (event.verdict === 'accepted' && events.kind === 'Commit') {
        ofEvents.accept(events);
        expected.events.push(...events.value.events.map(() => offset));
      }
      const changed = foldRecord<ChangesBody>(changesState, offset, { fence, body: changes }, (body) =>
        ofChanges.judge(body),
      );
      changesState = changed.state;
      if (changed.verdict === 'accepted' && changes.kind === 'Change') {
        ofChanges.accept(changes);
        expected.changes.push(offset);
      }
      await land(endpoint, 'events', [landedEvent({ topic: 'statefold.h.events', offset }, { fence, body: events })]);
      await land(endpoint, 'changes', [
        landedChange({ topic: 'statefold.h.changes', offset }, { fence, body: changes }),
      ]);
    }
    assert.deepEqual(expected, { events: [2, 2, 6, 10, 11, 14], changes: [2, 6, 10, 11, 14] }, 'what the fold says');
    const events = await select<{ log_offset: string | number }>(
      endpoint,
      'SELECT log_offset FROM statefold_events ORDER BY log_offset, version',
    );
    const changes = await select<{ sequence: string | number }>(
      endpoint,
      'SELECT sequence FROM statefold_changes ORDER BY sequence',
    );
    assert.deepEqual(
      { events: events.map((row) => Number(row.log_offset)), changes: changes.map((row) => Number(row.sequence)) },
      expected,
    );
  },
);

/** Claims of changes, whose epochs are those of the events; once a partition counted its own. */
const GIVEN: ClaimBody = { kind: 'Claim', value: { rules: GIVEN_EPOCH_RULES } };
type GivenLog = readonly (readonly [epoch: number, owner: string, body: ChangesBody | ClaimBody])[];
const GIVEN_LOGS: Readonly<Record<string, { readonly log: GivenLog; readonly accepted: readonly number[] }>> = {
  'a claim that landed behind a higher one is void, and ends the term of none': {
    log: [
      [10, 'A', GIVEN],
      [10, 'A', change('p', 1, 0)],
      [12, 'B', GIVEN],
      [10, 'A', change('p', 2, 0)], // deposed
      [12, 'B', change('p', 2, 0)],
      [11, 'C', GIVEN], // late
      [10, 'A', change('p', 3, 0)],
      [11, 'C', change('p', 3, 0)],
      [12, 'B', change('p', 3, 0)],
    ],
    accepted: [1, 4, 8],
  },
  'epochs that are given may be lower than those that were counted before': {
    log: [
      [1, 'A', CLAIM],
      [1, 'A', change('p', 1, 0)],
      [2, 'A', CLAIM],
      [2, 'A', change('p', 2, 0)],
      [3, 'A', CLAIM],
      [3, 'A', change('p', 3, 0)],
      [4, 'B', CLAIM],
      [3, 'B', GIVEN],
      [3, 'A', change('p', 4, 0)],
      [4, 'B', change('p', 4, 0)],
      [3, 'B', change('p', 4, 0)],
      [4, 'C', GIVEN],
      [4, 'B', change('p', 5, 0)],
      [4, 'C', change('p', 5, 0)],
    ],
    accepted: [1, 3, 5, 10, 13],
  },
  'a claim that is counted is void behind one that was given': {
    log: [
      [10, 'A', GIVEN],
      [10, 'A', change('p', 1, 0)],
      [11, 'Z', CLAIM],
      [11, 'Z', change('p', 2, 0)],
      [10, 'A', change('p', 2, 0)],
    ],
    accepted: [1, 4],
  },
};

it('8: the views follow epochs that are given, as readers do', { timeout: 60_000 }, async (context) => {
  const endpoint = await landingEngine(context);
  for (const [i, [what, { log, accepted }]] of Object.entries(GIVEN_LOGS).entries()) {
    const topic = `statefold.g${i}.changes`;
    const folded: number[] = [];
    let state = EMPTY_FENCE;
    for (const [offset, [epoch, owner, body]] of log.entries()) {
      const fence: Fence = { epoch, owner, recordId: String(offset), expectedOffset: offset, previous: '' };
      const next = foldRecord<ChangesBody>(state, offset, { fence, body }, () => true, 'given');
      state = next.state;
      if (next.verdict === 'accepted') folded.push(offset);
    }
    assert.deepEqual(folded, accepted, `${what}: the fold`);
    await land(
      endpoint,
      'changes',
      log.map(([epoch, owner, body], offset) => {
        const fence = { epoch, owner, recordId: String(offset), expectedOffset: offset, previous: '' };
        return landedChange({ topic, offset }, { fence, body });
      }),
    );
    const changes = await select<{ sequence: string | number }>(
      endpoint,
      `SELECT sequence FROM statefold_changes WHERE topic = '${topic}' ORDER BY sequence`,
    );
    assert.deepEqual(
      changes.map((row) => Number(row.sequence)),
      accepted,
      `${what}: the view`,
    );
  }
});

it('what an event of a batch has of its own goes before what the batch has', { timeout: 60_000 }, async (context) => {
  const endpoint = await landingEngine(context);
  const fence: Fence = { epoch: 1, owner: 'A', recordId: 'r', expectedOffset: 0, previous: '' };
  const shared = { correlationId: 'all', causationId: 'all', metadata: Buffer.from('{"of":"all"}') };
  const event = (own: object): object => ({
    eventId: Buffer.alloc(16),
    eventType: 'E',
    data: Buffer.from('{}'),
    ...own,
  });
  const batch = (aggregateId: string, of: object, events: readonly object[]): EventsBody => {
    const body = commit(aggregateId, 0, 0);
    assert.ok(body.kind === 'Commit');
    return { kind: 'Commit', value: { ...body.value, ...of, events } as typeof body.value };
  };
  const bodies: (EventsBody | ClaimBody)[] = [
    CLAIM,
    batch('a', shared, [
      event({ correlationId: 'c1', metadata: Buffer.from('{"n":1.0}') }),
      event({}),
      event({ causationId: 'd3' }),
    ]),
    batch('b', shared, [event({})]),
    batch('c', {}, [event({})]),
  ];
  await land(
    endpoint,
    'events',
    bodies.map((body, offset) => landedEvent({ topic: 'statefold.acme.events', offset }, { fence, body })),
  );
  const rows = await select<{ row: string }>(
    endpoint,
    "SELECT concat(aggregate_id, toString(version), '|', correlation_id, '|', causation_id, '|', ifNull(metadata_raw, 'none')) AS row FROM statefold_events ORDER BY aggregate_id, version",
  );
  assert.deepEqual(
    rows.map(({ row }) => row),
    [
      'a1|c1|all|{"n":1.0}',
      'a2|all|all|{"of":"all"}',
      'a3|all|d3|{"of":"all"}',
      'b1|all|all|{"of":"all"}',
      'c1|||none',
    ],
  );
});

const LONG = '9'.repeat(400);
/** Of numbers that few types have room for, and of texts and names that look like them. */
const OF_NUMBERS = [
  '{"n":9007199254740993}',
  '{"n":9223372036854775808,"m":-9223372036854775808}',
  '{"n":18446744073709551615}',
  '{"n":18446744073709551616}',
  '{"n":-9223372036854775809}',
  '{"n":[1,123456789012345678901234567890],"of":{"m":-98765432109876543210}}',
  '{"n":0.12345678901234567890123456789012345}',
  '{"n":123456789012345678901234567890.5,"m":-0}',
  '{"n":12345678901234567890e3,"m":12345678901234567890.0E-3}',
  '{"n":1000000000000000000000 ,\t"m"\n:1}',
  '{"text":"99999999999999999999","quoted":"a\\"99999999999999999999","m":99999999999999999999}',
  '{"99999999999999999999":"ü – 99999999999999999999\\\\","m":99999999999999999999}',
  `{"n":${'9'.repeat(308)}}`,
  `{"n":1,"m":${LONG}}`,
  '{"n":1e400,"m":1}',
  '{"n":1,"n":99999999999999999999}',
];

it('the views have the numbers that the tables of the read store have', { timeout: 60_000 }, async (context) => {
  const engine = await readyEngine(context);
  const endpoint = engine.endpoint() ?? assert.fail('the engine is ready, and has no endpoint');
  await makeLandingTables(endpoint);
  const store = openStore(context, engine);
  await store.ensureSchema();
  await store.insert({
    table: 'events',
    rows: OF_NUMBERS.map((json, i) => eventRow('n', 'x', i + 1, json, { metadata: Buffer.from(json) })),
  });
  const fence = { epoch: 1, owner: 'A', recordId: '', expectedOffset: 0, previous: '' };
  const { value: empty } = commit('x', 0, 1) as Extract<EventsBody, { kind: 'Commit' }>;
  const events: EventsBody[] = OF_NUMBERS.map((json, i) => ({
    kind: 'Commit',
    value: {
      ...empty,
      baseVersion: i,
      metadata: Buffer.from(json),
      events: [{ eventId: Buffer.alloc(16, i), eventType: 'E', data: Buffer.from(json) }],
    },
  }));
  const { value: none } = change('p', 0, 0);
  const changes: ChangesBody[] = OF_NUMBERS.map((json, i) => ({
    kind: 'Change',
    value: { ...none, inputOffset: i, state: Buffer.from(json) },
  }));
  await land(
    endpoint,
    'events',
    [CLAIM, ...events].map((body, offset) => landedEvent({ topic: 'statefold.n.events', offset }, { fence, body })),
  );
  await land(
    endpoint,
    'changes',
    [CLAIM, ...changes].map((body, offset) => landedChange({ topic: 'statefold.n.changes', offset }, { fence, body })),
  );
  const columns = 'toString(data) AS data, toString(metadata) AS metadata, data_raw, metadata_raw';
  const told = await select<{ data: string; data_raw: string }>(
    endpoint,
    `SELECT ${columns} FROM events WHERE tenant = 'n' ORDER BY version`,
  );
  assert.deepEqual(
    told.map(({ data_raw }) => data_raw),
    OF_NUMBERS,
  );
  assert.equal(told.filter(({ data }) => data === '{}').length, 3, 'what no number has room for, and names twice');
  assert.deepEqual(await select(endpoint, `SELECT ${columns} FROM statefold_events ORDER BY version`), told);
  assert.deepEqual(
    await select(
      endpoint,
      'SELECT toString(state) AS data, state_raw AS data_raw FROM statefold_changes ORDER BY sequence',
    ),
    told.map(({ data, data_raw }) => ({ data, data_raw })),
  );
});
