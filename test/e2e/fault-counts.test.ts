import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, form, success } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

/** Throws on what the other code folds. */
const faulty = (source: string): string => source.replaceAll('"Boom"', '"Fine"');
const FINE = 3;

test('what stands at a fault is counted as it is now, without a further append', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const env = { FOLD_DEADLINE_MS: '30000', ARTEFACT_STRIKES: '0' };
  let service = await startService(t, { dataDirectory, env });
  let api = new Api(service);
  const gauge = async (name: string): Promise<number> => {
    const { text } = success(await api.get('/metrics', AS_ADMIN), 200);
    return Number(new RegExp(`^statefold_${name} (\\d+)$`, 'm').exec(text)?.[1] ?? assert.fail(`no gauge ${name}`));
  };
  const upload = async (
    kind: 'reducers' | 'projections',
    source: string,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<string> => {
    const answer = success(
      await api.request('POST', `/${kind}/upload?waitSeconds=30`, { raw: form({ 'Code.cs': source }, fields) }),
      202,
    ).json<{ status: string; reducerId?: string; projectionId?: string }>();
    assert.equal(answer.status, 'compiled');
    return answer.reducerId ?? answer.projectionId ?? '';
  };
  const ofType = async (): Promise<number> =>
    (await api.read<{ faultCount: number }>('/aggregate-types/count')).faultCount;
  const standing = async (count: number): Promise<void> => {
    await until(async () => (await ofType()) === count && (await gauge('faulted_aggregates')) === count);
    assert.equal((await api.read<{ faults: object[] }>('/aggregate-types/count/faults')).faults.length, count);
    await until(
      async () => (await api.read<{ catchUp: { status: string } }>('/aggregate-types/count')).catchUp.status === 'done',
    );
    assert.equal(await ofType(), count);
  };
  const bind = async (reducerId: string): Promise<void> =>
    void success(await api.put('/aggregate-types/count', { reducerId }), 200);
  const good = await upload('reducers', tally('count'));
  for (let i = 0; i < 6; i++) await api.append(`count-${i}`, i < FINE ? 'Fine' : 'A');
  await standing(0);

  let bad = '';
  await t.test('reducers: a faulty one, back, to it again, and to new code', async () => {
    bad = await upload('reducers', faulty(tally('count')));
    await standing(FINE);
    await bind(good);
    await standing(0);
    await bind(bad);
    await standing(FINE);
    await upload('reducers', tally('count', 2));
    await standing(0);
    assert.deepEqual((await api.read<{ state: unknown }>('/aggregate-types/count/count-0/state')).state, {
      count: 2,
      version: 1,
      last: 'Fine',
    });
  });

  await t.test('a fault at the first event: version 0, and no time of a change', async () => {
    await bind(bad);
    const state = await api.read<{ version: number; state: unknown; fault: { version: number } }>(
      '/aggregate-types/count/count-0/state',
    );
    assert.deepEqual([state.version, state.state, state.fault.version, 'lastModified' in state], [0, null, 1, false]);
    const past = await api.read<{ version: number }>('/aggregate-types/count/count-0/state?atVersion=1');
    assert.deepEqual([past.version, 'lastModified' in past], [0, false]);
    await standing(FINE);
  });

  await t.test('projections: a faulty revision, back, to it again, and to new code', async () => {
    for (let i = 0; i < 4; i++) await api.append('sums', i < 2 ? 'Fine' : 'A', { key: `k${i}`, n: 1 });
    const id = await upload('projections', totals());
    const keys = async (count: number): Promise<void> => {
      await until(
        async () =>
          (await api.read<{ faultCount: number }>(`/projections/${id}/status`)).faultCount === count &&
          (await gauge('faulted_keys')) === count,
      );
      assert.equal((await api.read<{ faults: object[] }>(`/projections/${id}/faults`)).faults.length, count);
    };
    const live = (revision: number): Promise<void> =>
      until(
        async () =>
          (await api.read<{ live?: { revision: number } }>(`/projections/${id}/status`)).live?.revision === revision,
      );
    await keys(0);
    await upload('projections', faulty(totals()), { projectionId: id });
    await keys(2);
    success(await api.post(`/projections/${id}/rollback`), 202);
    await live(3);
    await keys(0);
    success(await api.post(`/projections/${id}/rollback`, { revision: 2 }), 202);
    await live(4);
    await keys(2);
    await upload('projections', totals('Totals', 2), { projectionId: id });
    await keys(0);
    await upload('projections', faulty(totals()), { projectionId: id });
    await keys(2);
  });

  await t.test('after a kill', async () => {
    await service.kill();
    service = await startService(t, { dataDirectory, env });
    api = new Api(service);
    await standing(FINE);
    await bind(good);
    await service.kill();
    service = await startService(t, { dataDirectory, env });
    api = new Api(service);
    await standing(0);
  });
});
