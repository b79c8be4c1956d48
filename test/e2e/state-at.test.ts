import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { Api, problem, success, type Appended } from '../support/api.js';
import { tally } from '../support/csharp.js';
import { AS_ADMIN, startService, until } from '../support/service.js';

interface Effect {
  readonly version: number;
  readonly eventId: string;
  readonly eventType: string;
  readonly timestamp: string;
  readonly patch?: readonly { readonly op: string; readonly path: string; readonly value?: unknown }[];
  readonly fault?: { readonly version: number; readonly message: string; readonly file: string; readonly line: number };
}
interface StateAt {
  readonly version: number;
  readonly state: { readonly count: number; readonly version: number; readonly last: string } | null;
  readonly headVersion: number;
  readonly className: string;
  readonly lastModified: string;
  readonly fault?: { readonly version: number; readonly message: string };
  readonly diff?: readonly Effect[];
  readonly nextVersion?: number;
}

test('the state of an aggregate at any version', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const reducerId = await api.deployReducer({ 'Tally.cs': tally('tally') });
  const path = '/aggregate-types/tally/tally-1/state';
  const appended: Appended[] = [];
  for (const type of ['A', 'B', 'Reset', 'C']) appended.push(await api.append('tally-1', type));
  await api.post('/events/batch', {
    aggregateId: 'tally-1',
    events: Array.from({ length: 300 }, (_, i) => ({ eventType: `E${i}`, data: {} })),
  });
  const at = (query: string): Promise<StateAt> => api.read<StateAt>(`${path}?${query}`);

  await t.test('is folded from its first event', async () => {
    const states = [];
    for (const version of [1, 2, 3, 4, 104]) states.push((await at(`atVersion=${version}`)).state);
    assert.deepEqual(states, [
      { count: 1, version: 1, last: 'A' },
      { count: 2, version: 2, last: 'B' },
      null,
      { count: 1, version: 4, last: 'C' },
      { count: 101, version: 104, last: 'E99' },
    ]);
    const { version, headVersion, className, lastModified } = await at('atVersion=2');
    assert.deepEqual([version, headVersion, className, lastModified], [2, 304, 'Tests.Tally', appended[1]?.timestamp]);
  });

  await t.test(
    'in a process that gives way to the live ones',
    { skip: process.platform !== 'linux' && 'it looks at /proc' },
    () => {
      const below = (pid: string): string[] =>
        readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
          .trim()
          .split(' ')
          .filter((one) => one !== '')
          .flatMap((one) => [one, ...below(one)]);
      // Threads of a process each have a priority: the nineteenth of what follows the name.
      const niceOf = (pid: string): number[] =>
        readdirSync(`/proc/${pid}/task`).map((thread) =>
          Number(
            readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
              .replace(/^.*\) /, '')
              .split(' ')[16],
          ),
        );
      const runners = below(String(service.pid)).filter((pid) =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('Statefold.Runner'),
      );
      const own = Math.min(...niceOf(String(service.pid)));
      assert.deepEqual(runners.map((pid) => Math.min(...niceOf(pid)) > own).sort(), [false, true]);
    },
  );

  await t.test('and the live state is what it was', async () => {
    assert.equal((await api.read<StateAt>(path)).version, 304);
    assert.deepEqual((await api.append('tally-1', 'Z')).state, { count: 302, version: 305, last: 'Z' });
  });

  await t.test('at a time, that of the last append at or before it', async () => {
    for (const { timestamp, version } of appended) {
      const found = await at(`atTime=${timestamp}`);
      // Appends of the same millisecond are told apart by their versions alone.
      assert.equal(found.version, appended.filter((one) => one.timestamp === timestamp).at(-1)?.version);
      assert.ok(found.version >= version);
    }
    assert.equal((await at('atTime=2999-01-01T00:00:00%2B02:00')).version, 305);
    const { detail } = problem(await api.get(`${path}?atTime=2001-01-01T00:00:00Z`), 404, 'NOT_FOUND');
    assert.match(detail, /did not exist at 2001-01-01T00:00:00.000Z; its first event came at 20/);
  });

  await t.test('with what each event did to it, in pages', async () => {
    const first = await at('atVersion=4&diff=true');
    assert.deepEqual(
      first.diff?.map(({ version, eventType, patch }) => [version, eventType, patch]),
      [
        [1, 'A', [{ op: 'replace', path: '', value: { count: 1, version: 1, last: 'A' } }]],
        [
          2,
          'B',
          [
            { op: 'replace', path: '/count', value: 2 },
            { op: 'replace', path: '/version', value: 2 },
            { op: 'replace', path: '/last', value: 'B' },
          ],
        ],
        [3, 'Reset', [{ op: 'replace', path: '', value: null }]],
        [4, 'C', [{ op: 'replace', path: '', value: { count: 1, version: 4, last: 'C' } }]],
      ],
    );
    assert.deepEqual(
      first.diff.map(({ eventId }) => eventId),
      appended.map(({ eventId }) => eventId),
    );
    assert.equal(first.nextVersion, undefined);
    const seen: number[] = [];
    for (let fromVersion: number | undefined = 1; fromVersion !== undefined;) {
      const page: StateAt = await at(`diff=true&limit=120&fromVersion=${fromVersion}`);
      assert.equal(page.version, 305);
      seen.push(...(page.diff ?? []).map(({ version }) => version));
      fromVersion = page.nextVersion;
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 305 }, (_, i) => i + 1),
    );
  });

  await t.test('by another compiled reducer', async () => {
    await api.deployReducer({ 'Tally.cs': tally('tally', 10) });
    assert.equal((await at('atVersion=2')).state?.count, 20);
    assert.equal((await at(`atVersion=2&reducerId=${reducerId}`)).state?.count, 2);
    assert.equal((await at(`reducerId=${reducerId}&className=Tests.Tally`)).state?.count, 302);
    problem(await api.get(`${path}?reducerId=${reducerId}&className=Tests.None`), 422, 'REDUCER_CLASS_NOT_FOUND');
    problem(await api.get(`${path}?reducerId=none`), 404, 'NOT_FOUND');
  });

  await t.test('up to the event that stops it, which is shown in its place', async () => {
    for (const type of ['A', 'Boom', 'A']) await api.append('tally-2', type);
    const state = await api.read<StateAt>('/aggregate-types/tally/tally-2/state?atVersion=3&diff=true');
    assert.deepEqual(
      [state.version, state.state?.count, state.fault?.version, state.fault?.message],
      [1, 10, 2, 'InvalidOperationException: boom at 2'],
    );
    assert.deepEqual(
      state.diff?.map(({ version, patch }) => [version, patch !== undefined]),
      [
        [1, true],
        [2, false],
      ],
    );
    const fault = state.diff.at(-1)?.fault;
    assert.deepEqual([fault?.version, fault?.file, fault?.line], [2, 'Tally.cs', 9]);
    assert.equal((await api.read<StateAt>('/aggregate-types/tally/tally-2/state?atVersion=1')).fault, undefined);
  });

  await t.test('an event without an end is a fault too, and holds up nobody', async () => {
    for (const type of ['A', 'Hang']) await api.append('tally-3', type);
    const slow = api.read<StateAt>('/aggregate-types/tally/tally-3/state?diff=true');
    assert.equal((await api.append('tally-4', 'A')).version, 1);
    const state = await slow;
    assert.deepEqual([state.version, state.fault?.version], [1, 2]);
    const stopped = (diff: StateAt['diff']): unknown[] =>
      (diff ?? []).map(({ version, eventType, patch, fault }) => [
        version,
        eventType,
        patch !== undefined,
        fault?.version,
      ]);
    assert.deepEqual(stopped(state.diff), [
      [1, 'A', true, undefined],
      [2, 'Hang', false, 2],
    ]);
    // It is in the log by then that it stands there: it is not tried again.
    await until(async () => (await api.read<StateAt>('/aggregate-types/tally/tally-3/state')).fault !== undefined);
    const again = await api.read<StateAt>('/aggregate-types/tally/tally-3/state?diff=true');
    assert.deepEqual([again.version, stopped(again.diff)], [1, stopped(state.diff)]);
    assert.deepEqual(
      (await api.read<StateAt>('/aggregate-types/tally/tally-3/state?diff=true&fromVersion=2')).diff?.map(
        ({ version }) => version,
      ),
      [2],
    );
    const verified = success(
      await api.post('/aggregate-types/tally/verify', { aggregateIds: ['tally-2', 'tally-3'] }),
      200,
    ).json<{ equal: number }>();
    assert.equal(verified.equal, 2);
    assert.equal((await at('atVersion=2')).version, 2);
  });

  await t.test('refuses what can not be', async () => {
    const { currentVersion } = problem(await api.get(`${path}?atVersion=306`), 404, 'NOT_FOUND');
    assert.equal(currentVersion, 305);
    for (const query of [
      'atVersion=0',
      'atVersion=x',
      'atTime=yesterday',
      'atTime=2026-01-01',
      'atVersion=1&atTime=2026-01-01T00:00:00Z',
      'className=X',
      'fromVersion=1',
      'limit=5',
      'diff=yes',
      'diff=true&limit=1001',
      'diff=true&fromVersion=0',
    ])
      problem(await api.get(`${path}?${query}`), 400, 'INVALID_REQUEST');
    problem(await api.get('/aggregate-types/tally/none/state?atVersion=1'), 404, 'NOT_FOUND');
    problem(await api.get('/aggregate-types/other/tally-1/state?atVersion=1'), 404, 'NO_REDUCER_BOUND');
  });

  await t.test("another tenant's ids are missing ones", async () => {
    const { apiKey } = success(await service.post('/admin/tenants', { name: 'Other' }, AS_ADMIN), 201).json<{
      apiKey: string;
    }>();
    const other = new Api(service, apiKey);
    problem(await other.get(`${path}?atVersion=1`), 404, 'NO_REDUCER_BOUND');
    problem(await other.get(`${path}?atVersion=1&reducerId=${reducerId}`), 404, 'NOT_FOUND');
    await other.deployReducer({ 'Tally.cs': tally('tally') });
    problem(await other.get(`${path}?atVersion=1`), 404, 'NOT_FOUND');
  });
});

test('a state that takes too long says so', async (t) => {
  const service = await startService(t, { env: { INSPECTION_DEADLINE_MS: '100', RUNNER_EVENT_DEADLINE_MS: '30000' } });
  const api = new Api(service);
  await api.append('tally-1', 'Hang');
  await api.upload('reducers', { 'Tally.cs': tally('tally') });
  const { reducers } = await api.read<{ reducers: { id: string }[] }>('/reducers');
  await api.compiled('reducers', reducers[0]?.id ?? '');
  const { detail } = problem(
    await api.get('/aggregate-types/tally/tally-1/state?atVersion=1'),
    503,
    'INSPECTION_DEADLINE',
  );
  assert.match(detail, /within 100 ms/);
});
