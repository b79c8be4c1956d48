import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { runProgram } from '../../src/cli/program.js';
import { Api, form, problem, success } from '../support/api.js';
import { corrupt } from '../support/corrupt.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, API_KEY, startService, temporaryDirectory, until } from '../support/service.js';

type Verdicts = Readonly<Record<'equal' | 'different' | 'absent' | 'behind', number>>;
interface Verified {
  readonly complete: boolean;
  readonly cut?: string;
  readonly unknown?: readonly string[];
  readonly checked: number;
  readonly equal: number;
  readonly different: number;
  readonly absent: number;
  readonly readStore?: Verdicts;
  readonly differences: readonly {
    readonly aggregateId?: string;
    readonly key?: string;
    readonly version?: number;
    readonly store: string;
    readonly readStore?: string;
    readonly stored: unknown;
    readonly recomputed: unknown;
    readonly patch: unknown;
  }[];
}

const verify = async (api: Api, path: string, body: object): Promise<Verified> =>
  success(await api.post(`${path}/verify`, body), 200).json<Verified>();

/** Runs a statement on the service's ClickHouse. */
async function statement(api: Api, sql: string): Promise<void> {
  const { url, user, password, database } = await api.readStoreAccess();
  const answer = await fetch(`${url}/?database=${database}`, {
    method: 'POST',
    headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
    body: sql,
  });
  assert.equal(answer.status, 200, await answer.text());
}

test('verify compares what is stored with what the log gives', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  let api = new Api(service);
  await api.deployReducer({ 'Tally.cs': tally('tally') });
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  const projection = `/projections/${projectionId}`;
  for (let i = 1; i <= 5; i++) for (const n of [1, 2]) await api.append(`tally-${i}`, 'Added', { key: `k${i}`, n });
  await api.append('tally-5', 'Boom', { key: 'k5', n: 1 });

  await t.test('as it should be, all is equal, in the read store too', async () => {
    await until(async () => (await verify(api, '/aggregate-types/tally', {})).readStore?.equal === 5);
    const all = await verify(api, '/aggregate-types/tally', { sample: 100, seed: 3 });
    assert.deepEqual(
      [all.checked, all.equal, all.different, all.absent, all.complete, all.differences],
      [5, 5, 0, 0, true, []],
    );
    const some = await verify(api, '/aggregate-types/tally', { aggregateIds: ['tally-2', 'none', 'tally-2'] });
    assert.deepEqual([some.checked, some.equal, some.unknown], [1, 1, ['none']]);
    assert.equal((await verify(api, '/aggregate-types/tally', { sample: 2 })).checked, 2);
    await until(async () => (await verify(api, projection, {})).readStore?.equal === 5);
    const keys = await verify(api, projection, {});
    assert.deepEqual([keys.checked, keys.equal, keys.different, keys.complete], [5, 5, 0, true]);
    assert.deepEqual((await verify(api, projection, { keys: ['none', 'k1', 'none'] })).unknown, ['none']);
    assert.deepEqual(keys.unknown, []);
    assert.deepEqual(
      [
        (await verify(api, projection, { keys: ['k1', 'none'] })).checked,
        (await verify(api, projection, { sample: 2 })).checked,
      ],
      [1, 2],
    );
  });

  await t.test('a state that was changed on the disk is found', async () => {
    await service.stop();
    await corrupt(dataDirectory, (tables) => {
      const row = tables.reducerState('tally-3');
      assert.ok(row !== undefined);
      tables.setReducerState('tally-3', { ...row, state: Buffer.from('{"count":7,"version":2,"last":"Added"}') });
      const live = tables.liveProjection(projectionId);
      const key = tables.keyState(projectionId, live?.revision ?? 0, 'k4', 0);
      assert.ok(key !== undefined);
      tables.setKeyState(projectionId, live?.revision ?? 0, 'k4', 0, { ...key, state: Buffer.from('{"total":4}') });
      // And one that no event ever made.
      tables.setKeyState(projectionId, live?.revision ?? 0, 'k9', 0, { ...key, state: Buffer.from('{"total":9}') });
    });
    service = await startService(t, { readStore: true, dataDirectory });
    api = new Api(service);
    // It is what is told now.
    assert.deepEqual((await api.read<{ state: unknown }>('/aggregate-types/tally/tally-3/state')).state, {
      count: 7,
      version: 2,
      last: 'Added',
    });
    const all = await verify(api, '/aggregate-types/tally', {});
    assert.deepEqual([all.checked, all.equal, all.different], [5, 4, 1]);
    assert.deepEqual(
      all.differences.map(({ aggregateId, version, store, stored, recomputed, patch }) => ({
        aggregateId,
        version,
        store,
        stored,
        recomputed,
        patch,
      })),
      [
        {
          aggregateId: 'tally-3',
          version: 2,
          store: 'different',
          stored: { count: 7, version: 2, last: 'Added' },
          recomputed: { count: 2, version: 2, last: 'Added' },
          patch: [{ op: 'replace', path: '/count', value: 2 }],
        },
      ],
    );
    const keys = await verify(api, projection, {});
    assert.deepEqual([keys.checked, keys.equal, keys.different], [6, 4, 2]);
    assert.deepEqual(
      keys.differences.map(({ key, stored, recomputed }) => ({ key, stored, recomputed })),
      [
        { key: 'k4', stored: { total: 4 }, recomputed: { total: 3 } },
        { key: 'k9', stored: { total: 9 }, recomputed: null },
      ],
    );
    assert.equal((await verify(api, projection, { keys: ['k1', 'k2'] })).different, 0);
    assert.equal((await verify(api, projection, { keys: ['k9'] })).different, 1);
  });

  await t.test('and by the command line', async () => {
    const statefold = async (...args: string[]): Promise<{ code: number; out: string }> => {
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const said = Promise.all([text(stdout), text(stderr)]);
      const code = await runProgram(args, {
        env: { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY },
        stdin: Readable.from([]),
        stdout,
        stderr,
      });
      stdout.end();
      stderr.end();
      return { code, out: (await said).join('') };
    };
    const found = await statefold('verify', '--type', 'tally');
    assert.equal(found.code, 1, found.out);
    assert.match(found.out, /local store +4 +1 +0 +-/);
    assert.match(
      found.out,
      /tally-3 at version 2 differs in the local store; .*\n +\[\{"op":"replace","path":"\/count","value":2\}\]/,
    );
    const keys = await statefold('verify', '--projection', projectionId, 'k1', 'k2');
    assert.equal(keys.code, 0, keys.out);
    assert.equal(
      (JSON.parse((await statefold('--json', 'verify', '--type', 'tally', '--sample', '3')).out) as Verified).checked,
      3,
    );
    assert.deepEqual(await statefold('verify'), {
      code: 1,
      out: 'Give --type or --projection: aggregates of a type, or keys of a projection.\n',
    });
  });

  await t.test('a row of the read store that is another one is found', async () => {
    await until(
      async () => (await verify(api, '/aggregate-types/tally', { aggregateIds: ['tally-1'] })).readStore?.equal === 1,
    );
    await statement(
      api,
      "INSERT INTO aggregate_states (tenant, aggregate_type, aggregate_id, version, state_raw, last_modified, log_offset) SELECT tenant, aggregate_type, aggregate_id, version, '{\"count\":5}', last_modified, log_offset + 1 FROM aggregate_states FINAL WHERE aggregate_id = 'tally-1'",
    );
    const one = await verify(api, '/aggregate-types/tally', { aggregateIds: ['tally-1'] });
    assert.deepEqual(
      [one.equal, one.readStore, one.differences.map(({ store, readStore }) => [store, readStore])],
      [1, { equal: 0, different: 1, absent: 0, behind: 0 }, [['equal', 'different']]],
    );
  });

  await t.test('a key that went on by a skip is folded as it was', async () => {
    for (const n of [4, 8]) await api.append('tally-5', 'Added', { key: 'k5', n });
    const released = await api.post(`${projection}/states/k5/skip`, {});
    assert.ok([200, 202].includes(released.status), released.text);
    await until(
      async () =>
        (await api.read<{ states: { state: unknown }[] }>(`${projection}/states/k5`)).states[0]?.state !== undefined &&
        JSON.stringify(
          (await api.read<{ states: { state: unknown }[] }>(`${projection}/states/k5`)).states[0]?.state,
        ) === '{"total":15}',
    );
    assert.deepEqual(
      [
        (await verify(api, projection, { keys: ['k5'] })).equal,
        (await verify(api, projection, { keys: ['k1', 'k5'] })).different,
      ],
      [1, 0],
    );
    const skipped = await api.post('/aggregate-types/tally/tally-5/skip', {});
    assert.ok([200, 202].includes(skipped.status), skipped.text);
    await until(
      async () => (await api.read<{ version: number }>('/aggregate-types/tally/tally-5/state')).version === 5,
    );
    assert.equal((await verify(api, '/aggregate-types/tally', { aggregateIds: ['tally-5'] })).equal, 1);
    const { diff } = await api.read<{ diff: { version: number; skipped?: true; patch?: unknown[] }[] }>(
      '/aggregate-types/tally/tally-5/state?diff=true',
    );
    assert.deepEqual(
      diff.map(({ version, skipped, patch }) => [version, skipped === true, patch !== undefined]),
      [
        [1, false, true],
        [2, false, true],
        [3, true, false],
        [4, false, true],
        [5, false, true],
      ],
    );
  });

  await t.test('asks for what can be', async () => {
    for (const body of [
      { sample: 0 },
      { sample: 10_001 },
      { seed: -1 },
      { aggregateIds: [] },
      { aggregateIds: [''] },
      { aggregateIds: 'x' },
    ])
      problem(await api.post('/aggregate-types/tally/verify', body), 400, 'INVALID_REQUEST');
    for (const body of [{ keys: [] }, { sample: 1.5 }])
      problem(await api.post(`${projection}/verify`, body), 400, 'INVALID_REQUEST');
    problem(await api.post('/aggregate-types/other/verify', {}), 404, 'NO_REDUCER_BOUND');
    problem(await api.post('/projections/none/verify', {}), 404, 'NOT_FOUND');
  });

  await t.test("another tenant's are missing ones", async () => {
    const { apiKey } = success(await service.post('/admin/tenants', { name: 'Other' }, AS_ADMIN), 201).json<{
      apiKey: string;
    }>();
    const other = new Api(service, apiKey);
    problem(await other.post(`${projection}/verify`, {}), 404, 'NOT_FOUND');
    problem(await other.post('/aggregate-types/tally/verify', {}), 404, 'NO_REDUCER_BOUND');
    await other.deployReducer({ 'Tally.cs': tally('tally') });
    assert.deepEqual((await verify(other, '/aggregate-types/tally', { aggregateIds: ['tally-1'] })).unknown, [
      'tally-1',
    ]);
  });
});

test('a tenant of several partitions is verified, tried out and looked back at as any other', async (t) => {
  const service = await startService(t);
  const { apiKey } = success(
    await service.post('/admin/tenants', { tenantId: 'wide', partitions: 3 }, AS_ADMIN),
    201,
  ).json<{ apiKey: string }>();
  const api = new Api(service, apiKey);
  await api.deployReducer({ 'Tally.cs': tally('tally') });
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  for (let n = 1; n <= 24; n++) await api.append(`tally-${n % 8}`, 'Added', { key: `k${n % 5}`, n });
  for (let i = 0; i < 8; i++)
    assert.equal(
      (await api.read<{ state: { count: number } }>(`/aggregate-types/tally/tally-${i}/state?atVersion=2`)).state.count,
      2,
    );
  assert.deepEqual(
    [
      (await verify(api, '/aggregate-types/tally', {})).equal,
      (await verify(api, '/aggregate-types/tally', { aggregateIds: ['tally-0', 'tally-7', 'tally-8'] })).unknown,
    ],
    [8, ['tally-8']],
  );
  await until(async () => (await verify(api, `/projections/${projectionId}`, {})).equal === 5);
  const tried = success(
    await api.request('POST', '/reducers/dry-run', { raw: form({ 'Tally.cs': tally('tally', 2) }) }),
    200,
  ).json<{ events: number; classes: { folded: number; changed: number }[] }>();
  assert.deepEqual([tried.events, tried.classes[0]?.folded, tried.classes[0]?.changed], [24, 8, 8]);
  const projected = success(
    await api.request('POST', '/projections/dry-run', { raw: form({ 'Totals.cs': totals() }, { projectionId }) }),
    200,
  ).json<{ events: number; classes: { unchanged: number }[] }>();
  assert.deepEqual([projected.events, projected.classes[0]?.unchanged], [24, 5]);
});

test('a projection that was revived is verified with what was skipped before', async (t) => {
  const service = await startService(t, {
    env: { ARTEFACT_STRIKES: '1', RUNNER_EVENT_DEADLINE_MS: '30000', RUNNER_BATCH_DEADLINE_MS: '60000' },
  });
  const api = new Api(service);
  // A stack without an end needs no deadline, which a busy machine might overrun with any event.
  const code = `${totals().replace('if (e.EventType == "Forget")', 'if (e.EventType == "Crash") return new(Depth.Of(1)); if (e.EventType == "Forget")')} static class Depth { public static long Of(long n) => n + Of(n + 1) + Of(n + 2); }`;
  const projectionId = await api.deployProjection({ 'Totals.cs': code });
  const projection = `/projections/${projectionId}`;
  const total = async (key: string): Promise<unknown> =>
    (await api.read<{ states: { state: unknown }[] }>(`${projection}/states/${key}`).catch(() => ({ states: [] })))
      .states[0]?.state;
  for (const [type, n] of [
    ['Added', 1],
    ['Boom', 2],
    ['Added', 4],
  ] as const)
    await api.append('a-1', type, { key: 'k1', n });
  const status = (): Promise<{ faultCount?: number; faulted?: object; revision: number }> =>
    api.read(`${projection}/status`);
  await until(async () => (await status()).faultCount === 1);
  success(await api.post(`${projection}/states/k1/skip`, {}), 200);
  await until(async () => JSON.stringify(await total('k1')) === '{"total":5}');
  await api.append('b-1', 'Crash', { key: 'k2', n: 1 });
  await until(async () => (await status()).faulted !== undefined);
  problem(await api.post(`${projection}/verify`, {}), 409, 'PROJECTION_NOT_LIVE');
  await api.append('a-1', 'Added', { key: 'k1', n: 8 });
  success(await api.post(`${projection}/revive`, {}), 202);
  await api.live(projectionId);
  await until(async () => JSON.stringify(await total('k1')) === '{"total":13}');
  const verified = await verify(api, projection, { keys: ['k1'] });
  assert.deepEqual([verified.equal, verified.different], [1, 0]);
});
