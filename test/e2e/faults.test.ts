import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, problem, success, TIMESTAMP, type Appended, newTenant } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

interface Fault {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly eventType: string;
  readonly className: string;
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly at: string;
  readonly stopped?: true;
}
interface State {
  readonly version: number;
  readonly state: unknown;
  readonly fault?: Fault;
}
interface Released {
  readonly outcome: string;
  readonly version: number;
  readonly events: number;
  readonly fault?: Fault;
}
interface KeysReleased {
  readonly projectionId: string;
  readonly keys: readonly {
    readonly key: string;
    readonly className: string;
    readonly outcome: string;
    readonly changes: number;
    readonly fault?: Fault;
  }[];
}
interface Faults {
  readonly faults: readonly (Fault & { readonly key?: string })[];
  readonly nextCursor?: string;
}

/** Takes as many rounds as the event says: more than a short deadline allows, and not more than a long one. */
const slow = `namespace Tests;

[AggregateType("slow")]
public sealed class Slow : IReducer<SlowState>
{
    public SlowState? Apply(SlowState? state, Event e)
    {
        var (sum, rounds) = (0L, e.Data.GetProperty("rounds").GetInt64());
        for (var i = 0L; i < rounds; i++) sum = unchecked(sum * 31 + i);
        return new((state?.Count ?? 0) + 1, sum);
    }
}

public sealed record SlowState(int Count, long Sum);
`;
const ROUNDS = 2_500_000_000;

const metric = async (
  service: { request(method: string, path: string, options: object): Promise<{ text: string }> },
  series: string,
): Promise<number> => {
  const { text } = await service.request('GET', '/metrics', AS_ADMIN);
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${series} `))
      ?.split(' ')
      .at(-1) ?? Number.NaN,
  );
};

test('events on which tenant code throws', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const env = { FOLD_DEADLINE_MS: '30000', ARTEFACT_STRIKES: '2' };
  let service = await startService(t, { readStore: true, dataDirectory, env });
  let api = new Api(service);
  const apiKey = await newTenant(service, { name: 'Other' });
  const stateOf = (id: string): Promise<State> => api.read<State>(`/aggregate-types/job/${id}/state`);
  const release = async (id: string, mode: 'retry' | 'skip', body?: object): Promise<Released> =>
    success(await api.post(`/aggregate-types/job/${id}/${mode}`, body), 200).json<Released>();
  const batch = async (aggregateId: string, ...eventTypes: string[]): Promise<Appended> =>
    success(
      await api.post('/events/batch', {
        aggregateId,
        events: eventTypes.map((eventType) => ({ eventType, data: {} })),
      }),
      201,
    ).json<Appended>();

  await t.test('an aggregate: the fault says where, later events wait, others go on', async () => {
    await api.deployReducer({ 'Tally.cs': tally('job') });
    await batch('job-1', 'A', 'Boom', 'B', 'Boom', 'C');
    const { state, version, fault } = await stateOf('job-1');
    assert.deepEqual([version, state], [1, { count: 1, version: 1, last: 'A' }]);
    assert.match(fault?.at ?? '', TIMESTAMP);
    const { events } = await api.read<{ events: readonly { eventId: string }[]; fault?: Fault }>('/events/job-1');
    const { at: _, ...told } = fault ?? ({} as Fault);
    assert.deepEqual(told, {
      eventId: events[1]?.eventId,
      aggregateId: 'job-1',
      version: 2,
      eventType: 'Boom',
      className: 'Tests.Tally',
      message: 'InvalidOperationException: boom at 2',
      file: 'Tally.cs',
      line: 9,
    });
    assert.equal((await api.append('job-1', 'D')).stateStatus, 'faulted');
    assert.deepEqual((await api.append('job-2', 'A')).state, { count: 1, version: 1, last: 'A' });
    assert.deepEqual((await api.read<{ fault?: Fault }>('/events/job-1')).fault?.version, 2);
    assert.equal((await api.read<{ faultCount: number }>('/aggregate-types/job')).faultCount, 1);
    assert.equal(await metric(service, 'statefold_faulted_aggregates'), 1);
  });

  await t.test(
    'a retry of what throws again ends at the same event; a skip passes it over, to the next that throws',
    async () => {
      const again = await release('job-1', 'retry');
      assert.deepEqual([again.outcome, again.version, again.events, again.fault?.version], ['faulted', 1, 0, 2]);
      const passed = await release('job-1', 'skip', { version: 2 });
      assert.deepEqual([passed.outcome, passed.version, passed.events, passed.fault?.version], ['faulted', 3, 2, 4]);
      const mismatch = problem(
        await api.post('/aggregate-types/job/job-1/skip', { version: 2 }),
        409,
        'FAULT_MISMATCH',
      );
      assert.deepEqual([mismatch['version'], mismatch['aggregateId']], [4, 'job-1']);
      const last = await release('job-1', 'skip', { eventId: passed.fault?.eventId });
      assert.deepEqual([last.outcome, last.version, last.events, last.fault], ['released', 6, 3, undefined]);
      assert.deepEqual(await stateOf('job-1').then(({ state, fault }) => [state, fault]), [
        { count: 4, version: 6, last: 'D' },
        undefined,
      ]);
      assert.deepEqual((await api.append('job-1', 'E')).state, { count: 5, version: 7, last: 'E' });
      assert.equal((await api.read<{ faultCount: number }>('/aggregate-types/job')).faultCount, 0);
    },
  );

  await t.test('what can not be released is told so, and of another tenant nothing is known', async () => {
    problem(await api.post('/aggregate-types/job/job-1/retry'), 409, 'NOT_FAULTED');
    problem(await api.post('/aggregate-types/job/job-9/retry'), 404, 'NOT_FOUND');
    problem(await api.post('/aggregate-types/nothing/job-1/skip'), 404, 'NO_REDUCER_BOUND');
    problem(await api.post('/aggregate-types/job/job-1/skip', { version: 'two' }), 400, 'INVALID_REQUEST');
    problem(await api.get('/aggregate-types/job/job-1/skip'), 405, 'METHOD_NOT_ALLOWED');
    await batch('job-5', 'Boom');
    const other = new Api(service, apiKey);
    for (const mode of ['retry', 'skip'])
      problem(await other.post(`/aggregate-types/job/job-5/${mode}`), 404, 'NO_REDUCER_BOUND');
    assert.deepEqual((await other.read<Faults>('/aggregate-types/job/faults')).faults, []);
    assert.equal((await stateOf('job-5')).fault?.version, 1);
  });

  await t.test('the aggregates of a type that stand at a fault are listed by the page', async () => {
    for (const id of ['job-6', 'job-7']) await batch(id, 'A', 'Boom');
    const first = await api.read<Faults>('/aggregate-types/job/faults?limit=2');
    assert.deepEqual(
      first.faults.map(({ aggregateId, version }) => [aggregateId, version]),
      [
        ['job-5', 1],
        ['job-6', 2],
      ],
    );
    const second = await api.read<Faults>(`/aggregate-types/job/faults?limit=2&cursor=${first.nextCursor ?? ''}`);
    assert.deepEqual([second.faults.map(({ aggregateId }) => aggregateId), second.nextCursor], [['job-7'], undefined]);
  });

  let totalsId = '';
  const add = (aggregateId: string, key: string, n: number, eventType = 'Added'): Promise<Appended> =>
    api.append(aggregateId, eventType, { key, n });
  const keyOf = async (key: string): Promise<{ state: unknown; fault?: Fault }> => {
    const { states } = await api.read<{ states: readonly { state: unknown; fault?: Fault }[] }>(
      `/projections/${totalsId}/states/${key}`,
    );
    return states[0] ?? { state: undefined };
  };
  const releaseKeys = async (path: string, body?: object): Promise<KeysReleased['keys']> =>
    success(await api.post(`/projections/${totalsId}${path}`, body), 200).json<KeysReleased>().keys;

  await t.test(
    'a key: parked events wait in the log, a skip folds them in order, each with its notification, once',
    async () => {
      totalsId = await api.deployProjection({ 'Totals.cs': totals() });
      await add('a-1', 'x', 1);
      await add('a-2', 'x', 10, 'Boom');
      await add('a-3', 'x', 2);
      await add('a-1', 'x', 3);
      await add('a-1', 'y', 1);
      await api.notifications(totalsId, 1, '&key=y');
      const { state, fault } = await keyOf('x');
      assert.deepEqual(
        [state, fault?.aggregateId, fault?.version, fault?.eventType, fault?.file, fault?.line],
        [{ total: 1 }, 'a-2', 1, 'Boom', 'Totals.cs', 13],
      );
      assert.ok(fault !== undefined && !('place' in fault));
      const status = await api.read<{ faultCount: number; faults: readonly { key: string }[] }>(
        `/projections/${totalsId}/status`,
      );
      assert.deepEqual([status.faultCount, status.faults.map(({ key }) => key)], [1, ['x']]);
      assert.equal(await metric(service, 'statefold_faulted_keys'), 1);
      const [again] = await releaseKeys('/states/x/retry');
      assert.deepEqual([again?.outcome, again?.changes, again?.fault?.aggregateId], ['faulted', 0, 'a-2']);
      problem(await api.post(`/projections/${totalsId}/states/x/skip`, { eventId: 'another' }), 409, 'FAULT_MISMATCH');
      assert.deepEqual(await releaseKeys('/states/x/skip', { version: 1, className: 'Tests.Totals' }), [
        { key: 'x', className: 'Tests.Totals', outcome: 'released', changes: 2 },
      ]);
      assert.deepEqual(await keyOf('x').then(({ state: now, fault: left }) => [now, left]), [{ total: 6 }, undefined]);
      await add('a-1', 'x', 4);
      const told = await api.notifications(totalsId, 4, '&key=x');
      assert.deepEqual(
        told.map(({ state: after, aggregateId, cause }) => [after, aggregateId, cause]),
        [
          [{ total: 1 }, 'a-1', undefined],
          [{ total: 3 }, 'a-3', 'skip'],
          [{ total: 6 }, 'a-1', 'skip'],
          [{ total: 10 }, 'a-1', undefined],
        ],
      );
      assert.deepEqual(
        told.map(({ sequence }) => sequence),
        told.map(({ sequence }) => sequence).sort((a, b) => a - b),
      );
      assert.equal(
        await metric(service, 'statefold_fault_releases_total{kind="projection",mode="skip",outcome="released"}'),
        1,
      );
    },
  );

  await t.test('all keys at once, what has no key, and what is refused', async () => {
    for (const key of ['p', 'q']) {
      await add('a-1', key, 1, 'Boom');
      await add('a-1', key, 5);
    }
    await api.append('a-1', 'Added', { key: '' });
    await until(async () => (await api.read<Faults>(`/projections/${totalsId}/faults`)).faults.length === 3);
    const page = await api.read<Faults>(`/projections/${totalsId}/faults?limit=2`);
    assert.deepEqual([page.faults.map(({ key }) => key), page.nextCursor === undefined], [['', 'p'], false]);
    problem(await api.post(`/projections/${totalsId}/retry`, { key: '' }), 422, 'FAULT_WITHOUT_KEY');
    assert.deepEqual(
      (await releaseKeys('/retry')).map(({ key, outcome }) => [key, outcome]),
      [
        ['p', 'faulted'],
        ['q', 'faulted'],
      ],
    );
    assert.deepEqual(
      (await releaseKeys('/skip')).map(({ key, outcome }) => [key, outcome]),
      [
        ['', 'released'],
        ['p', 'released'],
        ['q', 'released'],
      ],
    );
    assert.deepEqual([(await keyOf('p')).state, (await keyOf('q')).state], [{ total: 5 }, { total: 5 }]);
    problem(await api.post(`/projections/${totalsId}/retry`), 409, 'NOT_FAULTED');
    problem(await api.post(`/projections/${totalsId}/states/nowhere/skip`), 404, 'NOT_FOUND');
    await add('a-1', 'p', 1, 'Boom');
    await until(async () => (await keyOf('p')).fault !== undefined);
    const other = new Api(service, apiKey);
    for (const path of ['/retry', '/skip', '/states/p/retry', '/states/p/skip'])
      problem(await other.post(`/projections/${totalsId}${path}`), 404, 'NOT_FOUND');
    problem(await other.get(`/projections/${totalsId}/faults`), 404, 'NOT_FOUND');
  });

  let wideKey = '';
  let wideId = '';
  const AGGREGATES = 8;
  const wideNow = async (): Promise<unknown[]> => {
    const wide = new Api(service, wideKey);
    const states = await Promise.all(
      Array.from({ length: AGGREGATES }, (_, n) =>
        wide.read<State & { state: { count: number } | null }>(`/aggregate-types/wide/wide-${n}/state`),
      ),
    );
    const { states: keys } = await wide.read<{ states: readonly { key: string; state: unknown; fault?: Fault }[] }>(
      `/projections/${wideId}/states`,
    );
    return [
      ...states.map(({ version, state, fault }) => [version, state?.count ?? 0, fault?.version]),
      ...keys.map(({ key, state, fault }) => [key, state, fault?.aggregateId]),
    ];
  };

  await t.test('a tenant of several partitions: each aggregate where it is, each key along the one order', async () => {
    wideKey = await newTenant(service, { name: 'Wide', partitions: 4 });
    const wide = new Api(service, wideKey);
    await wide.deployReducer({ 'Tally.cs': tally('wide') });
    wideId = await wide.deployProjection({ 'Totals.cs': totals() });
    for (const eventType of ['Added', 'Boom', 'Added'])
      for (let n = 0; n < AGGREGATES; n++)
        await wide.append(`wide-${n}`, eventType === 'Boom' && n % 2 === 0 ? 'Added' : eventType, {
          key: n === 1 || n === 2 ? 'some' : 'all',
          n: 1,
        });
    await until(async () => (await wide.read<Faults>(`/projections/${wideId}/faults`)).faults.length === 2);
    const { faults, nextCursor } = await wide.read<Faults>('/aggregate-types/wide/faults?limit=3');
    assert.deepEqual(
      faults.map(({ aggregateId, version }) => [aggregateId, version]),
      [
        ['wide-1', 2],
        ['wide-3', 2],
        ['wide-5', 2],
      ],
    );
    assert.deepEqual(
      (await wide.read<Faults>(`/aggregate-types/wide/faults?limit=3&cursor=${nextCursor ?? ''}`)).faults.map(
        ({ aggregateId }) => aggregateId,
      ),
      ['wide-7'],
    );
    for (const n of [1, 3, 5])
      assert.equal(
        success(await wide.post(`/aggregate-types/wide/wide-${n}/skip`), 200).json<Released>().outcome,
        'released',
      );
    // Of `all` there are three that throw, one behind the other; of `some` one.
    for (const outcome of ['faulted', 'faulted', 'released'])
      assert.equal(
        success(await wide.post(`/projections/${wideId}/states/all/skip`), 200).json<KeysReleased>().keys[0]?.outcome,
        outcome,
      );
    // The read store hears of it, though there was no event.
    const access = await wide.readStoreAccess();
    await until(async () => {
      const statement =
        "SELECT groupArray((aggregate_id, version)) AS rows FROM (SELECT aggregate_id, version FROM aggregate_states FINAL WHERE aggregate_id LIKE 'wide-%' ORDER BY aggregate_id) FORMAT JSONCompactEachRow";
      const answer = await fetch(`${access.url}/?database=${access.database}`, {
        method: 'POST',
        body: statement,
        headers: { 'X-ClickHouse-User': access.user, 'X-ClickHouse-Key': access.password },
      });
      return (await answer.text())
        .replaceAll('"', '')
        .includes('[wide-1,3],[wide-2,3],[wide-3,3],[wide-4,3],[wide-5,3],[wide-6,3],[wide-7,1]');
    });
    assert.deepEqual(await wideNow(), [
      ...[0, 1, 2, 3, 4, 5, 6].map((n) => [3, n % 2 === 1 ? 2 : 3, undefined]),
      [1, 1, 2],
      ['all', { total: 6 * 3 - 3 }, undefined],
      ['some', { total: 2 }, 'wide-1'],
    ]);
  });

  await t.test('code with too many strikes is not run, and takes on nothing', async () => {
    await api.deployReducer({ 'Tally.cs': tally('hung') });
    for (const id of ['hung-1', 'hung-2']) assert.equal((await api.append(id, 'Hang')).stateStatus, 'faulted');
    await until(async () => (await api.read<{ faulted?: object }>('/aggregate-types/hung')).faulted !== undefined);
    for (const mode of ['retry', 'skip'])
      problem(await api.post(`/aggregate-types/hung/hung-1/${mode}`), 409, 'ARTEFACT_FAULTED');
  });

  await t.test(
    'a process that was stopped: a fault of the log, for a restart with all the time in the world, too, until it is retried',
    async () => {
      await api.deployReducer({ 'Slow.cs': slow });
      await api.append('slow-1', 'Quick', { rounds: 1 });
      const stuck = await api.append('slow-1', 'Long', { rounds: ROUNDS });
      assert.equal(stuck.stateStatus, 'faulted');
      await api.append('slow-1', 'Quick', { rounds: 2 });
      const read = (): Promise<State & { state: { count: number } }> => api.read(`/aggregate-types/slow/slow-1/state`);
      const before = await read();
      assert.deepEqual(
        [before.version, before.state.count, before.fault?.version, before.fault?.stopped],
        [1, 1, 2, true],
      );

      const changes = await api.notifications(totalsId, 8);
      const wide = await wideNow();
      await service.stop();
      // Nothing but the log is left.
      rmSync(join(dataDirectory, 'store'), { recursive: true });
      service = await startService(t, {
        dataDirectory,
        env: {
          ...env,
          RUNNER_EVENT_DEADLINE_MS: '120000',
          RUNNER_BATCH_DEADLINE_MS: '120000',
          ANSWER_DEADLINE_MS: '120000',
        },
      });
      api = new Api(service);
      assert.deepEqual(await read(), before);
      // So are the releases of before: of aggregates and of keys.
      assert.deepEqual((await stateOf('job-1')).state, { count: 5, version: 7, last: 'E' });
      await until(async () => (await api.read<Faults>(`/projections/${totalsId}/faults`)).faults.length === 1);
      assert.deepEqual([(await keyOf('x')).state, (await keyOf('q')).state], [{ total: 10 }, { total: 5 }]);
      assert.deepEqual(await api.notifications(totalsId, changes.length), changes);
      await until(async () => JSON.stringify(await wideNow()) === JSON.stringify(wide));

      await api.post('/aggregate-types/slow/slow-1/retry');
      await until(async () => (await read()).version === 3);
      assert.deepEqual([(await read()).state.count, (await read()).fault], [3, undefined]);
    },
  );
});
