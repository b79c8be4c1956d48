// Invariants 9 and 10: reducers of one type take turns beside appends and reads.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success, TIMESTAMP } from '../support/api.js';
import { tally } from '../support/csharp.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

interface Generation {
  readonly generation: number;
  readonly reducerId: string;
  readonly className: string;
  readonly boundAt: string;
  readonly status: string;
}
interface State {
  readonly version: number;
  readonly state: { readonly count: number } | null;
}

const AGGREGATES = 20;
const EVENTS = 10;

test('the reducers of a type', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory, env: { FOLD_DEADLINE_MS: '30000' } });
  let api = new Api(service);
  const caughtUp = (type = 'redo'): Promise<void> =>
    until(
      async () =>
        (await api.read<{ catchUp: { status: string } }>(`/aggregate-types/${type}`)).catchUp.status === 'done',
    );
  const history = async (): Promise<Generation[]> =>
    (await api.read<{ generations: Generation[] }>('/aggregate-types/redo/history')).generations;
  const bind = async (reducerId: string): Promise<void> =>
    void success(await api.put('/aggregate-types/redo', { reducerId }), 200);
  const counts = async (): Promise<number[]> => {
    const found = await Promise.all(
      Array.from({ length: AGGREGATES }, (_, i) => api.read<State>(`/aggregate-types/redo/redo-${i}/state`)),
    );
    return found.map(({ state, version }) => (state?.count ?? 0) / version);
  };

  let [first, second] = ['', ''];
  await t.test('the bindings of a type are told, and whether their states are there', async () => {
    problem(await api.get('/aggregate-types/redo/history'), 404, 'NO_REDUCER_BOUND');
    for (let i = 0; i < AGGREGATES; i++)
      success(
        await api.post('/events/batch', {
          aggregateId: `redo-${i}`,
          events: Array.from({ length: EVENTS }, () => ({ eventType: 'A', data: {} })),
        }),
        201,
      );
    first = await api.deployReducer({ 'Redo.cs': tally('redo') });
    await caughtUp();
    second = await api.deployReducer({ 'Redo.cs': tally('redo', 5) });
    await caughtUp();
    const [bound, kept, ...others] = await history();
    assert.deepEqual(
      [bound?.generation, bound?.reducerId, bound?.status, kept?.generation, kept?.reducerId, kept?.status, others],
      [2, second, 'bound', 1, first, 'kept', []],
    );
    assert.equal(bound?.className, 'Tests.Tally');
    assert.match(bound.boundAt, TIMESTAMP);
    assert.deepEqual(new Set(await counts()), new Set([5]));
  });

  await t.test('back to one whose states are kept there is nothing to catch up with', async () => {
    await bind(first);
    // Nothing was appended since: there was not one commit to fold.
    const { catchUp } = await api.read<{ catchUp: { status: string; eventsPerSecond: number } }>(
      '/aggregate-types/redo',
    );
    assert.deepEqual(catchUp, { ...catchUp, status: 'done', eventsPerSecond: 0 });
    assert.deepEqual(new Set(await counts()), new Set([1]));
    assert.deepEqual(
      (await history()).map(({ status }) => status),
      ['bound', 'kept', 'gone'],
    );
  });

  await t.test('what came meanwhile is folded then, on demand and in a short catch-up', async () => {
    await api.append('redo-3', 'A');
    await bind(second);
    assert.deepEqual([(await api.read<State>('/aggregate-types/redo/redo-3/state')).state?.count], [55]);
    await caughtUp();
    assert.deepEqual(new Set(await counts()), new Set([5]));
  });

  await t.test('appends and reads never see a mix of two', async () => {
    let over = false;
    const seen = new Set<number>();
    const look = ({ version, state }: { readonly version: number; readonly state?: unknown }): void => {
      const count = (state as State['state'])?.count ?? Number.NaN;
      seen.add(count / version);
    };
    const load = Array.from({ length: 4 }, async (_, lane) => {
      for (let i = 0; !over; i++) {
        look(await api.append(`redo-${(4 * i + lane) % AGGREGATES}`, 'A'));
        look(await api.read<State>(`/aggregate-types/redo/redo-${(3 * i + lane) % AGGREGATES}/state`));
      }
    });
    try {
      for (let i = 0; i < 10; i++) {
        await bind(i % 2 === 0 ? first : second);
        // The binding that was answered holds for every append from now on.
        const { version, state } = await api.append('redo-0', 'A');
        assert.equal((state as State['state'])?.count, version * (i % 2 === 0 ? 1 : 5));
      }
    } finally {
      over = true;
    }
    await Promise.all(load);
    assert.deepEqual([...seen].sort(), [1, 5]);
  });

  await t.test('all of it is there after a kill', async () => {
    const before = await history();
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    assert.deepEqual(new Set(await counts()), new Set([5]));
    await bind(first);
    assert.deepEqual(new Set(await counts()), new Set([1]));
    assert.deepEqual(
      (await history()).slice(1).map(({ generation }) => generation),
      before.map(({ generation }) => generation),
    );
  });

  await t.test('a reducer is deleted when no type is bound to it', async () => {
    const refused = problem(await api.delete(`/reducers/${first}`), 409, 'REDUCER_BOUND');
    assert.match(refused.detail, /redo/);
    success(await api.delete(`/reducers/${second}`), 204);
    for (const answer of [
      await api.get(`/reducers/${second}/status`),
      await api.delete(`/reducers/${second}`),
      await api.put('/aggregate-types/redo', { reducerId: second }),
      await api.delete('/reducers/nothing'),
    ])
      problem(answer, 404, 'NOT_FOUND');
    const { reducers } = await api.read<{ reducers: { id: string }[] }>('/reducers');
    assert.deepEqual(
      reducers.map(({ id }) => id).filter((id) => id === first || id === second),
      [first],
    );
    assert.deepEqual(new Set(await counts()), new Set([1]));
  });
});
