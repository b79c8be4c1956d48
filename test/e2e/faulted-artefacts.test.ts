import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api, success, type Appended } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { crashing, tally, totals } from '../support/csharp.js';
import { API_KEY, AS_ADMIN, startService, until } from '../support/service.js';

interface Faulted {
  readonly at: string;
  readonly strikes: number;
  readonly className: string;
  readonly message: string;
  readonly revision?: number;
}

const hanging =
  `${totals('Hanging').replace('if (e.EventType == "Forget") return null;', 'if (e.EventType == "Hang") return new(Deeper(1));')}
static class Depth { public static long Of(long n) => n + Of(n + 1) + Of(n + 2); }
`.replace('Deeper(1)', 'Depth.Of(1)');

test('code with too many strikes', async (t) => {
  const env = {
    ARTEFACT_STRIKES: '3',
    RUNNER_EVENT_DEADLINE_MS: '30000',
    RUNNER_BATCH_DEADLINE_MS: '60000',
    FOLD_DEADLINE_MS: '60000',
  };
  let service = await startService(t, { env });
  let api = new Api(service);
  const made = success(await api.post('/admin/tenants', { tenantId: 'other' }, AS_ADMIN), 201).json<{
    apiKey: string;
  }>();
  const other = (): Api => new Api(service, made.apiKey);
  const history = async (...name: string[]): Promise<string> => {
    const key = { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY };
    const { code, out, err } = await statefold(key, '.', 'history', ...name);
    assert.equal(code, 0, err);
    return out;
  };

  await t.test(
    'a reducer is faulted: its code is not run, appends go on, and revived it goes on from where it was',
    async () => {
      const reducerId = await api.deployReducer({ 'Tally.cs': crashing('shaky') });
      await api.deployReducer({ 'Calm.cs': tally('calm', 1, 'Calm') });
      assert.deepEqual((await api.append('shaky-good', 'A', {}, { aggregateType: 'shaky' })).state, {
        count: 1,
        version: 1,
        last: 'A',
      });
      for (const n of [1, 2, 3]) {
        const answer = success(
          await api.post('/events', { aggregateId: `shaky-${n}`, eventType: 'Hang', data: {}, aggregateType: 'shaky' }),
          201,
        ).json<Appended>();
        assert.equal(answer.stateStatus, 'faulted');
      }
      const status = async (): Promise<Faulted | undefined> =>
        (await api.read<{ faulted?: Faulted }>(`/reducers/${reducerId}/status`)).faulted;
      await until(async () => (await status()) !== undefined);
      const fault = await status();
      assert.deepEqual([fault?.strikes, fault?.className], [3, 'Tests.Tally']);
      assert.match(fault?.message ?? '', /stack overflow/);
      assert.deepEqual((await api.read<{ faulted?: Faulted }>('/aggregate-types/shaky')).faulted, fault);
      const { generations } = await api.read<{ generations: { faulted?: Faulted }[] }>(
        '/aggregate-types/shaky/history',
      );
      assert.deepEqual([generations.length, generations[0]?.faulted], [1, fault]);
      assert.match(await history('shaky'), /^1 +bound, halted /m);
      assert.match(await history(), /^calm +\S+ +\S+Z +\S+\nshaky +\S+ +\S+Z, halted /m);

      // Even an aggregate without a fault of its own gets no state; other code of the tenant is run.
      const halted = success(
        await api.post('/events', { aggregateId: 'shaky-good', eventType: 'B', data: {} }),
        201,
      ).json<Appended>();
      assert.deepEqual([halted.state, halted.stateStatus, halted.version], [undefined, 'faulted', 2]);
      const read = await api.read<{ version: number; state: object; stateStatus?: string; fault?: object }>(
        '/aggregate-types/shaky/shaky-good/state',
      );
      assert.deepEqual(
        [read.version, read.state, read.stateStatus, read.fault],
        [1, { count: 1, version: 1, last: 'A' }, 'faulted', undefined],
      );
      assert.deepEqual((await api.append('calm-1', 'A')).state, { count: 1, version: 1, last: 'A' });
      assert.match((await service.get('/metrics', AS_ADMIN)).text, /^statefold_faulted_artefacts 1$/m);

      // It holds over a restart.
      await service.stop();
      service = await startService(t, { env, dataDirectory: service.dataDirectory });
      api = new Api(service);
      assert.deepEqual(await status(), fault);
      assert.equal(
        success(
          await api.post('/events', { aggregateId: 'shaky-good', eventType: 'C', data: {} }),
          201,
        ).json<Appended>().stateStatus,
        'faulted',
      );

      assert.equal((await other().post(`/reducers/${reducerId}/revive`, {})).status, 404);
      assert.equal(
        success(await api.post(`/reducers/${reducerId}/revive`, {}), 200).json<{ faulted?: Faulted }>().faulted,
        undefined,
      );
      assert.equal(await status(), undefined);
      assert.deepEqual(
        (await api.read<{ version: number; state: object }>('/aggregate-types/shaky/shaky-good/state')).state,
        { count: 3, version: 3, last: 'C' },
      );
      // The aggregates that stopped for themselves stay so: that is for retry and skip.
      assert.equal(
        (await api.read<{ fault?: { version: number } }>('/aggregate-types/shaky/shaky-2/state')).fault?.version,
        1,
      );
      await until(
        async () =>
          (await api.read<{ catchUp?: { status: string } }>('/aggregate-types/shaky')).catchUp?.status === 'done',
      );
    },
  );

  await t.test(
    'a projection is faulted: others go on, and revived it goes on behind the last of its changes',
    async () => {
      const id = await api.deployProjection({ 'Hanging.cs': hanging });
      const calm = await api.deployProjection({ 'Totals.cs': totals() });
      const add = (key: string, eventType = 'Added'): Promise<unknown> =>
        api.post('/events', { aggregateId: `source-${key}`, eventType, data: { key, n: 1 } });
      const total = async (projection: string, key: string): Promise<number | undefined> => {
        const response = await api.get(`/projections/${projection}/states/${key}`);
        return response.status === 404
          ? undefined
          : response.json<{ states: { state: { total: number } | null }[] }>().states[0]?.state?.total;
      };
      const status = (): Promise<{
        faulted?: Faulted;
        live?: { revision: number };
        build?: { status: string; cause?: string };
      }> => api.read(`/projections/${id}/status`);
      for (const key of ['a', 'b']) await add(key);
      await until(async () => (await total(id, 'b')) === 1);
      for (const key of ['x', 'y', 'z']) await add(key, 'Hang');
      await until(async () => (await status()).faulted !== undefined);
      assert.deepEqual([(await status()).faulted?.strikes, (await status()).faulted?.revision], [3, 1]);
      const { revisions } = await api.read<{ revisions: { faulted?: Faulted }[] }>(`/projections/${id}/revisions`);
      assert.deepEqual([revisions.length, revisions[0]?.faulted?.strikes], [1, 3]);
      assert.match(await history(id), /^1 +live, halted /m);
      assert.match(await history(calm), /^1 +live +upload/m);
      assert.match(await history(), /^Tests\.Hanging +1 +compiled, halted /m);
      for (const key of ['a', 'a', 'c']) await add(key);
      await until(async () => (await total(calm, 'c')) === 1 && (await total(calm, 'a')) === 3);
      assert.deepEqual([await total(id, 'a'), await total(id, 'c')], [1, undefined]);

      assert.equal((await other().post(`/projections/${id}/revive`, {})).status, 404);
      const before = (await api.notifications(id, 2)).at(-1)?.sequence ?? 0;
      const revived = success(await api.post(`/projections/${id}/revive`, {}), 202).json<{
        revision: number;
        of: number;
      }>();
      assert.deepEqual([revived.revision, revived.of], [2, 1]);
      await until(async () => (await status()).live?.revision === 2);
      assert.equal((await status()).faulted, undefined);
      assert.deepEqual([await total(id, 'a'), await total(id, 'b'), await total(id, 'c')], [3, 1, 1]);
      await add('a');
      await until(async () => (await total(id, 'a')) === 4);
      // What was missed is told once a key; nothing is told again.
      const told = (await api.notifications(id, 3, `&afterSequence=${before}`)).map(({ key, cause, state }) => [
        key,
        cause,
        (state as { total: number } | null)?.total,
      ]);
      assert.deepEqual(
        told.sort(),
        [
          ['a', 'revive', 3],
          ['a', undefined, 4],
          ['c', 'revive', 1],
        ].sort(),
      );
      // Nothing to revive any more.
      assert.equal(
        success(await api.post(`/projections/${id}/revive`, {}), 200).json<{ status: string }>().status,
        'live',
      );
    },
  );

  await t.test('a revival holds over a kill of the service, and is made once', async () => {
    // Of another tenant: the first one's history would strike it while it is built.
    const id = await other().deployProjection({ 'Hanging.cs': hanging });
    const add = (key: string, eventType = 'Added'): Promise<unknown> =>
      other().post('/events', { aggregateId: `killed-${key}`, eventType, data: { key, n: 1 } });
    const total = async (key: string): Promise<number | undefined> => {
      const response = await other().get(`/projections/${id}/states/${key}`);
      return response.status === 404
        ? undefined
        : response.json<{ states: { state: { total: number } | null }[] }>().states[0]?.state?.total;
    };
    const status = (): Promise<{ faulted?: Faulted; live?: { revision: number } }> =>
      other().read(`/projections/${id}/status`);
    for (const key of ['k1', 'k2']) await add(key);
    for (const key of ['h1', 'h2', 'h3']) await add(key, 'Hang');
    await until(async () => (await status()).faulted !== undefined);
    for (let i = 0; i < 30; i++) await add(`k${(i % 3) + 1}`);
    const before = (await other().notifications(id, 2)).at(-1)?.sequence ?? 0;
    success(await other().post(`/projections/${id}/revive`, {}), 202);
    await service.kill();
    service = await startService(t, { env, dataDirectory: service.dataDirectory });
    await until(async () => (await status()).live?.revision === 2);
    assert.deepEqual([await total('k1'), await total('k2'), await total('k3')], [11, 11, 10]);
    await add('k1');
    await until(async () => (await total('k1')) === 12);
    const told = (await other().notifications(id, 4, `&afterSequence=${before}`)).map(({ key, cause, state }) =>
      [key, cause, (state as { total: number } | null)?.total].join(' '),
    );
    assert.deepEqual(told.sort(), ['k1  12', 'k1 revive 11', 'k2 revive 11', 'k3 revive 10']);
  });
});
