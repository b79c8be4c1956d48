// Invariants 9 to 13: the revisions of a projection come and go beside its subscribers.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Api, problem, success, TIMESTAMP, type Notification } from '../support/api.js';
import { totals } from '../support/csharp.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

interface Revision {
  readonly revision: number;
  readonly status: string;
  readonly cause: string;
  readonly of?: number;
  readonly artefactId: string;
  readonly createdAt: string;
  readonly uploadedAt: string;
  readonly compiledAt?: string;
  readonly compilationError?: string;
  readonly changedKeys?: number;
}
interface Chosen {
  readonly revision: number;
  readonly of: number;
  readonly status: string;
}

/** Sums, but of what begins with `x` the double. */
const doubled = totals().replace('n * 1', "(ResolveKey(e)!.StartsWith('x') ? 2 * n : n)");

test('the revisions of a projection', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  const add = (key: string, n: number): ReturnType<Api['append']> => api.append(`a-${key}`, 'Added', { key, n });
  const states = async (id: string): Promise<Record<string, unknown>> =>
    Object.fromEntries(
      (
        await api.read<{ states: { key: string; state: { total: number } | null }[] }>(`/projections/${id}/states`)
      ).states.map(({ key, state }) => [key, state?.total ?? null]),
    );
  const revisions = async (id: string): Promise<Revision[]> =>
    (await api.read<{ revisions: Revision[] }>(`/projections/${id}/revisions`)).revisions;
  const summary = async (id: string): Promise<unknown[]> =>
    (await revisions(id)).map(({ revision, status, cause, of, changedKeys }) => [
      revision,
      status,
      cause,
      of,
      changedKeys,
    ]);
  const isLive = (id: string, revision: number): Promise<void> =>
    until(
      async () =>
        (await api.read<{ live?: { revision: number } }>(`/projections/${id}/status`)).live?.revision === revision,
    );
  const told = (all: readonly Notification[]): unknown[] =>
    all.map(({ key, state, cause }) => [key, (state as { total: number } | null)?.total ?? null, cause]);
  const last = async (id: string): Promise<number> => (await api.notifications(id, 1)).at(-1)?.sequence ?? 0;
  const rollback = async (id: string, body?: object): Promise<Chosen> =>
    success(await api.post(`/projections/${id}/rollback`, body), 202).json<Chosen>();

  let id = '';
  await t.test('there is nothing to roll back to at first', async () => {
    for (const [key, n] of [
      ['x1', 1],
      ['x2', 2],
      ['y', 3],
    ] as const)
      await add(key, n);
    id = await api.deployProjection({ 'Totals.cs': totals() });
    const [first] = await revisions(id);
    assert.deepEqual(await summary(id), [[1, 'live', 'upload', undefined, 3]]);
    for (const at of [first?.createdAt, first?.uploadedAt, first?.compiledAt]) assert.match(at ?? '', TIMESTAMP);
    problem(await api.post(`/projections/${id}/rollback`), 409, 'NO_EARLIER_REVISION');
    problem(await api.post(`/projections/${id}/rollback`, { revision: 2 }), 404, 'NOT_FOUND');
    problem(await api.post(`/projections/${id}/rollback`, { revision: 0 }), 400, 'INVALID_REQUEST');
    problem(await api.delete(`/projections/${id}/build`), 409, 'NO_BUILD');
    for (const [method, path] of [
      ['get', 'revisions'],
      ['post', 'rollback'],
      ['post', 'rebuild'],
      ['delete', 'build'],
    ] as const)
      problem(await api[method](`/projections/nothing/${path}`), 404, 'NOT_FOUND');
  });

  await t.test('a rollback tells the keys that differ, and goes on from the states that were kept', async () => {
    success(await api.upload('projections', { 'Totals.cs': doubled }, { projectionId: id }), 202);
    await isLive(id, 2);
    assert.deepEqual(await states(id), { x1: 2, x2: 4, y: 3 });
    assert.deepEqual(await summary(id), [
      [2, 'live', 'upload', undefined, 2],
      [1, 'kept', 'upload', undefined, 3],
    ]);
    await add('x1', 10);
    await add('y', 10);
    await until(async () => (await states(id))['y'] === 13);
    const before = await last(id);
    const chosen = await rollback(id);
    assert.deepEqual([chosen.revision, chosen.of, chosen.status], [3, 1, 'building']);
    await isLive(id, 3);
    assert.deepEqual(await states(id), { x1: 11, x2: 2, y: 13 });
    assert.deepEqual(told(await api.notifications(id, 2, `&afterSequence=${before}`)), [
      ['x1', 11, 'rollback'],
      ['x2', 2, 'rollback'],
    ]);
    assert.deepEqual(await summary(id), [
      [3, 'live', 'rollback', 1, 2],
      [2, 'kept', 'upload', undefined, 2],
      [1, 'gone', 'upload', undefined, 3],
    ]);
    await add('x2', 1);
    await until(async () => (await states(id))['x2'] === 3);
    // The same request again changes nothing.
    const again = success(await api.post(`/projections/${id}/rollback`, { revision: 1 }), 200).json<Chosen>();
    assert.deepEqual([again.revision, again.status], [3, 'live']);
  });

  await t.test('the revision before a rollback is what it was rolled back from', async () => {
    assert.deepEqual([(await rollback(id)).of], [2]);
    await isLive(id, 4);
    assert.deepEqual(await states(id), { x1: 22, x2: 6, y: 13 });
  });

  await t.test('a rebuild folds from the start, and tells nothing where nothing differs', async () => {
    const before = await last(id);
    const chosen = success(await api.post(`/projections/${id}/rebuild`), 202).json<Chosen>();
    assert.deepEqual([chosen.revision, chosen.of], [5, 4]);
    await isLive(id, 5);
    assert.deepEqual((await summary(id))[0], [5, 'live', 'rebuild', 4, 0]);
    await add('z', 1);
    assert.deepEqual(told(await api.notifications(id, 1, `&afterSequence=${before}`)), [['z', 1, undefined]]);
    // What was kept before is so still.
    assert.deepEqual((await rollback(id)).of, 3);
    await isLive(id, 6);
    assert.deepEqual(await states(id), { x1: 11, x2: 3, y: 13, z: 1 });
  });

  await t.test('what fails to compile leaves the live one live, and the status shows both', async () => {
    success(await api.upload('projections', { 'Totals.cs': 'class {' }, { projectionId: id }), 202);
    const record = await api.compiled<{ status: string; revision: number; live?: { revision: number } }>(
      'projections',
      id,
    );
    assert.deepEqual([record.status, record.revision, record.live?.revision], ['failed', 7, 6]);
    const [newest, before] = await revisions(id);
    assert.deepEqual([newest?.status, before?.status], ['failed', 'live']);
    assert.match(newest?.compilationError ?? '', /Totals\.cs/);
    problem(await api.post(`/projections/${id}/rollback`, { revision: 7 }), 422, 'REVISION_NOT_COMPILED');
    await add('y', 1);
    await until(async () => (await states(id))['y'] === 14);
  });

  await t.test('after a kill the revisions are what they were, and a rollback is instant still', async () => {
    const before = await summary(id);
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    // What the store had not written yet is folded again.
    await until(async () => isDeepStrictEqual(await summary(id), before));
    assert.equal((await rollback(id, { revision: 2 })).revision, 8);
    await isLive(id, 8);
    assert.deepEqual(await states(id), { x1: 22, x2: 6, y: 14, z: 1 });
  });

  await t.test('a build is called off by a newer upload, by a call, and by a rollback to what is live', async () => {
    // Longer than it takes to call it off: each event is looked at for a while, and what is far from the end is folded beside the live one.
    const slow = doubled.replace(
      'var n =',
      'for (var i = 0L; i < 3_000_000; i++) if (i == e.Version - 100) break;\n        var n =',
    );
    for (let i = 0; i < 20; i++)
      success(
        await api.post('/events/batch', {
          aggregateId: `many-${i}`,
          events: Array.from({ length: 100 }, () => ({ eventType: 'Added', data: { key: `m${i}`, n: 1 } })),
        }),
        201,
      );
    for (let i = 0; i < 24; i++)
      await Promise.all(Array.from({ length: 50 }, (_, n) => api.append(`one-${n}`, 'Added', { key: 'ones', n: 1 })));
    await until(async () => (await states(id))['ones'] === 1200);
    const upload = async (revision: number): Promise<void> => {
      success(await api.upload('projections', { 'Totals.cs': slow }, { projectionId: id }), 202);
      await until(async () => (await revisions(id)).find((one) => one.revision === revision)?.status === 'building');
    };
    await upload(9);
    problem(await api.post(`/projections/${id}/rebuild`), 409, 'BUILD_UNDER_WAY');
    success(await api.delete(`/projections/${id}/build`), 204);
    assert.deepEqual((await summary(id)).slice(0, 2), [
      [9, 'cancelled', 'upload', undefined, undefined],
      [8, 'live', 'rollback', 2, 2],
    ]);
    await upload(10);
    const stays = success(await api.post(`/projections/${id}/rollback`, { revision: 8 }), 200).json<Chosen>();
    assert.deepEqual([stays.revision, stays.status], [8, 'live']);
    assert.deepEqual((await revisions(id))[0]?.status, 'cancelled');
    await upload(11);
    success(await api.upload('projections', { 'Totals.cs': totals() }, { projectionId: id }), 202);
    await isLive(id, 12);
    assert.equal((await revisions(id)).find(({ revision }) => revision === 11)?.status, 'gone');
    assert.equal((await states(id))['x1'], 11);
  });
});
