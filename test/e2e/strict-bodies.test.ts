import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, form, problem, success } from '../support/api.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

interface Full {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly eventType: string;
  readonly data: unknown;
  readonly version: number;
  readonly timestamp: string;
  readonly aggregateType?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly metadata?: unknown;
}
type Errors = readonly { readonly pointer: string; readonly message: string }[];

/** Keeps of every event what it carries. */
const CONTEXTS = `namespace Tests;

[AggregateType("context")]
public sealed class Contexts : IReducer<Seen>
{
    public Seen? Apply(Seen? state, Event e) => new([.. state?.All ?? [], $"{e.Version}|{e.CorrelationId}|{e.CausationId}|{e.Metadata?.GetRawText()}"]);
}

public sealed record Seen(string[] All);
`;
const PROJECTED = CONTEXTS.replace('[AggregateType("context")]\n', '').replace(
  'Contexts : IReducer<Seen>\n{',
  'Projected : IProjection<Seen>\n{\n    public string? ResolveKey(Event e) => e.AggregateType == "context" ? e.AggregateId : null;\n',
);

test('bodies of appends are strict', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  let api = new Api(service);

  await t.test('what would be ignored is refused, and nothing is stored', async () => {
    const misspelt = problem(
      await api.post('/events', { aggregateId: 'strict-1', eventType: 'A', data: {}, expectedversion: 7 }),
      400,
      'INVALID_REQUEST',
    );
    assert.match(misspelt.detail, /\/expectedversion is not a known member; did you mean "expectedVersion"\?/);
    assert.deepEqual(
      (misspelt['errors'] as Errors).map(({ pointer }) => pointer),
      ['/expectedversion'],
    );
    const elsewhere = problem(
      await api.post('/events/batch', {
        aggregateId: 'strict-1',
        events: [
          { eventType: 'A', data: {} },
          { aggregateId: 'strict-2', eventType: 'A', data: {} },
        ],
      }),
      400,
      'INVALID_REQUEST',
    );
    assert.match(elsewhere.detail, /\/events\/1\/aggregateId is of the whole batch/);
    assert.match(
      problem(
        await api.post('/events', { aggregateId: 'strict-1', eventType: 'A', data: {}, version: 1 }),
        400,
        'INVALID_REQUEST',
      ).detail,
      /\/version is assigned by the service: leave it out/,
    );
    for (const id of ['strict-1', 'strict-2']) problem(await api.get(`/events/${id}`), 404, 'NOT_FOUND');
  });

  const seen = ['1|c1|all|{"n":1.0}', '2|all|d2|{"of":"all"}', '3|all|all|{"of":"all"}', '4|||'];
  const full = [
    { version: 1, aggregateType: 'context', correlationId: 'c1', causationId: 'all', metadata: { n: 1 } },
    { version: 2, aggregateType: 'context', correlationId: 'all', causationId: 'd2', metadata: { of: 'all' } },
    { version: 3, aggregateType: 'context', correlationId: 'all', causationId: 'all', metadata: { of: 'all' } },
    { version: 4, aggregateType: 'context' },
  ];
  const readBack = async (): Promise<void> => {
    const { events } = await api.read<{ events: Full[] }>('/events/context-1?include=metadata');
    assert.deepEqual(
      events.map(({ eventId: _, aggregateId: _a, eventType: _t, data: _d, timestamp: _s, ...rest }) => rest),
      full,
    );
    const backward = await api.read<{ events: Full[] }>('/events/context-1?include=metadata&direction=backward');
    assert.deepEqual(backward.events, [...events].reverse());
    assert.match((await api.get('/events/context-1?include=metadata&limit=1')).text, /"metadata":\{"n": ?1\.0\}/);
    const plain = await api.read<{ events: Full[] }>('/events/context-1');
    assert.deepEqual(Object.keys(plain.events[0] ?? {}), [
      'eventId',
      'aggregateId',
      'eventType',
      'data',
      'version',
      'timestamp',
    ]);
    problem(await api.get('/events/context-1?include=all'), 400, 'INVALID_REQUEST');
  };
  let projection = '';

  await t.test(
    'events of a batch have ids and metadata of their own, before those of the batch: for code, for readers, for projections',
    async () => {
      success(
        await api.request('POST', '/reducers/upload?waitSeconds=30', { raw: form({ 'Contexts.cs': CONTEXTS }) }),
        202,
      );
      projection = success(
        await api.request('POST', '/projections/upload?waitSeconds=30', { raw: form({ 'Projected.cs': PROJECTED }) }),
        202,
      ).json<{ projectionId: string }>().projectionId;
      const batch =
        '{"aggregateId":"context-1","correlationId":"all","causationId":"all","metadata":{"of":"all"},"events":[' +
        '{"eventType":"A","data":{},"metadata":{"n":1.0},"correlationId":"c1"},{"eventType":"A","data":{},"causationId":"d2"},{"eventType":"A","data":{}}]}';
      const headers = { 'content-type': 'application/json', 'idempotency-key': 'once' };
      const first = success(await api.request('POST', '/events/batch', { raw: batch, headers }), 201);
      assert.deepEqual(first.json<{ state: { all: string[] } }>().state.all, seen.slice(0, 3));
      assert.equal(success(await api.request('POST', '/events/batch', { raw: batch, headers }), 201).text, first.text);
      assert.deepEqual((await api.append('context-1', 'A')).state, { all: seen });
      await readBack();
      const states = async (): Promise<{ state: { all: string[] } }[]> =>
        (await api.get(`/projections/${projection}/states/context-1`)).json<{
          states: { state: { all: string[] } }[];
        }>().states;
      await until(async () => (await states())[0]?.state.all.length === 4);
      assert.deepEqual((await states())[0]?.state.all, seen);
    },
  );

  await t.test('in the rows of the read store', async () => {
    const access = await api.readStoreAccess();
    const sql = async (statement: string): Promise<string> =>
      (
        await fetch(`${access.url}/?database=${access.database}`, {
          method: 'POST',
          body: statement,
          headers: { authorization: `Basic ${Buffer.from(`${access.user}:${access.password}`).toString('base64')}` },
        })
      ).text();
    const rows = (): Promise<string> =>
      sql(
        "SELECT concat(toString(version), '|', correlation_id, '|', causation_id, '|', ifNull(metadata_raw, '')) FROM events FINAL WHERE aggregate_id = 'context-1' ORDER BY version",
      );
    await until(async () => (await rows()).trim().split('\n').length === 4);
    assert.deepEqual((await rows()).trim().split('\n'), seen);
  });

  await t.test('after a restart, and for code that folds the history', async () => {
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    await readBack();
    const again = CONTEXTS.replace('?? []', '?? ["again"]');
    success(await api.request('POST', '/reducers/upload?waitSeconds=30', { raw: form({ 'Contexts.cs': again }) }), 202);
    assert.deepEqual(
      (await api.read<{ state: { all: string[] } }>('/aggregate-types/context/context-1/state')).state.all,
      ['again', ...seen],
    );
  });
});

test('of a body with thousands of faults some are told, and one of very many values is not taken apart', async (t) => {
  const api = new Api(await startService(t, { dataDirectory: temporaryDirectory(t), readStore: false }));
  const statement = (parameters: number): object => ({
    query: 'SELECT 1',
    parameters: Object.fromEntries(
      Array.from({ length: parameters }, (_, i) => [`-${i}`, 'x'.repeat(i === 0 ? 5_000 : 1)]),
    ),
  });
  const told = problem(await api.post('/sql', statement(4_000)), 400, 'INVALID_REQUEST');
  const errors = told['errors'] as Errors;
  assert.equal(errors.length, 21);
  assert.match(errors.at(-1)?.message ?? '', /at least 3980 more/);
  const many = await api.post('/sql', statement(60_000));
  assert.match(problem(many, 400, 'INVALID_REQUEST').detail, /more than 5000 values/);
  assert.ok(many.text.length < 1_000);
  const long = await api.post('/sql', { query: 'SELECT 1', parameters: { [`-${'n'.repeat(100_000)}`]: 1 } });
  problem(long, 400, 'INVALID_REQUEST');
  assert.ok(long.text.length < 2_000, `${long.text.length} bytes`);
});
