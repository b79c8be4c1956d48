import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore } from '../../src/store/local-store.js';
import { CHECKPOINT_KEY } from '../../src/store/partition-tables.js';
import { Api, form, problem, success, withoutMoving } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until, type Answer } from '../support/service.js';

interface DryRun {
  readonly status: string;
  readonly complete: boolean;
  readonly cut?: string;
  readonly classes: readonly {
    readonly className: string;
    readonly aggregateType?: string;
    readonly comparedWith?: string;
    readonly total?: number;
    readonly folded: number;
    readonly changed: number;
    readonly unchanged: number;
    readonly added: number;
    readonly removed: number;
    readonly faulted: number;
    readonly faultedBefore: number;
  }[];
  readonly changes: readonly {
    readonly aggregateId?: string;
    readonly key?: string;
    readonly version?: number;
    readonly before: unknown;
    readonly after: unknown;
    readonly patch: unknown;
  }[];
  readonly faults: readonly {
    readonly key?: string;
    readonly aggregateId: string;
    readonly version: number;
    readonly message: string;
    readonly file: string | null;
    readonly line: number | null;
  }[];
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly compilationError?: string;
  readonly diagnostics?: readonly { readonly code: string; readonly line: number | null }[];
}

const dryRun = (
  api: Api,
  kind: 'reducers' | 'projections',
  sources: Record<string, string>,
  fields: Record<string, string> = {},
): Promise<Answer> => api.request('POST', `/${kind}/dry-run`, { raw: form(sources, fields) });
const report = async (answer: Promise<Answer>): Promise<DryRun> => success(await answer, 200).json<DryRun>();
const figures = ({ classes }: DryRun): unknown[] =>
  classes.map(({ folded, changed, unchanged, added, removed, faulted, faultedBefore }) => ({
    folded,
    changed,
    unchanged,
    added,
    removed,
    faulted,
    faultedBefore,
  }));

/** What a stopped service has stored of the tenant `default`, but for how far its log is read: each start puts a claim there. */
async function stored(dataDirectory: string): Promise<string[]> {
  const store = new LocalStore({ path: join(dataDirectory, 'store'), logger: silentLogger });
  const section = store.section('default');
  const rows = [...section.range('A', '~')].filter(([key]) => key !== CHECKPOINT_KEY).map((row) => JSON.stringify(row));
  await section.close();
  await store.close();
  return rows;
}

/** The file of the embedded log, every byte; on Kafka there is none. */
function inLog(dataDirectory: string): string {
  const file = join(dataDirectory, 'log', 'data.mdb');
  assert.equal(existsSync(file), process.env['STATEFOLD_TEST_LOG'] !== 'kafka');
  return existsSync(file) ? createHash('sha256').update(readFileSync(file)).digest('hex') : '';
}

test('a dry run leaves nothing: what is stored, and what is in the log, are what they were', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const first = await startService(t, { dataDirectory });
  let api = new Api(first);
  await api.deployReducer({ 'Tally.cs': tally('tally') });
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  for (let n = 0; n < 20; n++) await api.append(`tally-${n % 3}`, n === 19 ? 'Boom' : 'Added', { key: `k${n % 4}`, n });
  await until(
    async () => (await api.read<{ faultCount?: number }>(`/projections/${projectionId}/status`)).faultCount === 1,
  );
  await first.stop();
  const before = await stored(dataDirectory);
  assert.ok(before.length > 10, before.join('\n'));

  const service = await startService(t, { dataDirectory });
  api = new Api(service);
  const records = async (): Promise<unknown> =>
    withoutMoving([
      await api.read('/reducers'),
      await api.read('/projections'),
      await api.read(`/projections/${projectionId}/notifications`),
      await api.read('/events/tally-1'),
      await api.read('/aggregate-types'),
    ]);
  const told = await records();
  const log = inLog(dataDirectory);
  const changed = await report(dryRun(api, 'reducers', { 'Tally.cs': tally('tally', 3) }));
  assert.deepEqual([changed.classes[0]?.changed, changed.classes[0]?.faulted], [3, 1]);
  assert.equal(
    (await report(dryRun(api, 'projections', { 'Totals.cs': totals('Totals', 2) }, { projectionId }))).classes[0]
      ?.changed,
    4,
  );
  success(await api.get('/aggregate-types/tally/tally-1/state?diff=true'), 200);
  success(await api.post('/aggregate-types/tally/verify', {}), 200);
  assert.deepEqual(await records(), told);
  assert.equal(inLog(dataDirectory), log);
  await service.stop();
  assert.deepEqual(await stored(dataDirectory), before);
});

test('a dry run of a reducer', async (t) => {
  const service = await startService(t, { env: { RUNNER_BATCH_DEADLINE_MS: '2000' } });
  const api = new Api(service);
  const sources = { 'Tally.cs': tally('tally') };
  await api.append('tally-1', 'A');
  await api.append('tally-1', 'B');
  await api.append('tally-2', 'A');
  await api.append('tally-2', 'Reset');
  await api.append('other-1', 'A');

  await t.test('of a type that has no reducer adds states', async () => {
    const all = await report(dryRun(api, 'reducers', sources));
    assert.deepEqual(figures(all), [
      { folded: 2, changed: 0, unchanged: 1, added: 1, removed: 0, faulted: 0, faultedBefore: 0 },
    ]);
    assert.deepEqual(
      all.changes.map(({ aggregateId, version, before, after }) => ({ aggregateId, version, before, after })),
      [{ aggregateId: 'tally-1', version: 2, before: null, after: { count: 2, version: 2, last: 'B' } }],
    );
    assert.deepEqual(
      [all.status, all.complete, all.events, all.classes[0]?.total, all.classes[0]?.comparedWith],
      ['compiled', true, 4, 2, undefined],
    );
    assert.ok(all.eventsPerSecond > 0);
    problem(await api.get('/aggregate-types/tally'), 404, 'NO_REDUCER_BOUND');
    assert.deepEqual(await api.read('/reducers'), { reducers: [] });
  });

  await api.deployReducer(sources);

  await t.test('tells what would change, with a patch', async () => {
    const all = await report(dryRun(api, 'reducers', { 'Tally.cs': tally('tally', 5) }));
    assert.deepEqual(figures(all), [
      { folded: 2, changed: 1, unchanged: 1, added: 0, removed: 0, faulted: 0, faultedBefore: 0 },
    ]);
    assert.equal(all.classes[0]?.comparedWith, 'Tests.Tally');
    assert.deepEqual(
      all.changes.map(({ aggregateId, before, after, patch }) => ({ aggregateId, before, after, patch })),
      [
        {
          aggregateId: 'tally-1',
          before: { count: 2, version: 2, last: 'B' },
          after: { count: 10, version: 2, last: 'B' },
          patch: [{ op: 'replace', path: '/count', value: 10 }],
        },
      ],
    );
    assert.deepEqual(figures(await report(dryRun(api, 'reducers', sources))), [
      { folded: 2, changed: 0, unchanged: 2, added: 0, removed: 0, faulted: 0, faultedBefore: 0 },
    ]);
  });

  await t.test('tells what it would throw at, and where, and what it would heal', async () => {
    await api.append('tally-3', 'A');
    await api.append('tally-3', 'Boom');
    const same = await report(dryRun(api, 'reducers', sources));
    assert.deepEqual(figures(same), [
      { folded: 3, changed: 0, unchanged: 3, added: 0, removed: 0, faulted: 1, faultedBefore: 1 },
    ]);
    assert.deepEqual(
      same.faults.map(({ aggregateId, version, message, file, line }) => ({
        aggregateId,
        version,
        message,
        file,
        line,
      })),
      [
        {
          aggregateId: 'tally-3',
          version: 2,
          message: 'InvalidOperationException: boom at 2',
          file: 'Tally.cs',
          line: 9,
        },
      ],
    );
    const healed = await report(
      dryRun(api, 'reducers', { 'Tally.cs': tally('tally').replace('"Boom" =>', '"Bang" =>') }),
    );
    assert.deepEqual(figures(healed), [
      { folded: 3, changed: 1, unchanged: 2, added: 0, removed: 0, faulted: 0, faultedBefore: 1 },
    ]);
  });

  await t.test('of some of them: the first, a sample, those of a type', async () => {
    await api.post('/events/batch', {
      aggregateId: 'tally-4',
      events: Array.from({ length: 1000 }, (_, i) => ({ eventType: `E${i}`, data: {} })),
    });
    const first = await report(dryRun(api, 'reducers', sources, { limit: '2', show: '0' }));
    assert.deepEqual([first.classes[0]?.folded, first.classes[0]?.total, first.complete], [2, 4, false]);
    assert.match(first.cut ?? '', /2 of the 4 aggregates/);
    const sample = await report(dryRun(api, 'reducers', sources, { sample: '3', seed: '7' }));
    assert.deepEqual([sample.classes[0]?.folded, sample.complete], [3, true]);
    const other = await report(dryRun(api, 'reducers', sources, { aggregateType: 'other', className: 'Tests.Tally' }));
    assert.deepEqual(
      [other.classes[0]?.aggregateType, other.classes[0]?.folded, other.classes[0]?.added],
      ['other', 1, 1],
    );
    problem(await dryRun(api, 'reducers', sources, { aggregateType: 'other' }), 422, 'REDUCER_CLASS_NOT_FOUND');
    problem(await dryRun(api, 'reducers', sources, { className: 'None' }), 422, 'REDUCER_CLASS_NOT_FOUND');
    for (const fields of [
      { limit: '0' },
      { limit: '100001' },
      { sample: 'x' },
      { seed: '-1' },
      { show: '101' },
      { projectionId: 'x' },
      { aggregateType: 'a b' },
    ] as Record<string, string>[])
      problem(await dryRun(api, 'reducers', sources, fields), 400, 'INVALID_REQUEST');
  });

  await t.test('that does not compile says where', async () => {
    const failed = await report(dryRun(api, 'reducers', { 'Tally.cs': 'public class Tally : IReducer<int> { ' }));
    assert.equal(failed.status, 'failed');
    assert.match(failed.compilationError ?? '', /Tally\.cs\(1,/);
    assert.ok((failed.diagnostics ?? []).length > 0);
  });

  await t.test('counts an event without an end as a fault; one at a time for a tenant', async () => {
    // So long a run is still there when the other one is asked for.
    await api.append('tally-5', 'Hang');
    const both = await Promise.all([1, 2].map(() => dryRun(api, 'reducers', sources)));
    const [ran] = both.filter(({ status }) => status === 200);
    const [refused] = both.filter(({ status }) => status === 429);
    assert.ok(ran !== undefined && refused !== undefined, both.map(({ status }) => status).join());
    problem(refused, 429, 'RATE_LIMITED');
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    const hang = await report(Promise.resolve(ran));
    assert.deepEqual([hang.classes[0]?.faulted, hang.complete], [2, true]);
  });
});

test('a dry run of a projection', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  for (const [id, key, n] of [
    ['a-1', 'x', 1],
    ['a-1', 'y', 2],
    ['b-1', 'x', 4],
  ] as const)
    await api.append(id, 'Added', { key, n });
  await api.append('b-1', 'Added', { nothing: true });

  await t.test('without one to compare with adds states', async () => {
    const all = await report(dryRun(api, 'projections', { 'Totals.cs': totals() }));
    assert.deepEqual(figures(all), [
      { folded: 2, changed: 0, unchanged: 0, added: 2, removed: 0, faulted: 0, faultedBefore: 0 },
    ]);
    assert.deepEqual(
      all.changes.map(({ key, before, after }) => ({ key, before, after })),
      [
        { key: 'x', before: null, after: { total: 5 } },
        { key: 'y', before: null, after: { total: 2 } },
      ],
    );
    assert.equal(all.events, 4);
  });

  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });

  await t.test('beside the live one tells what would change, come and go', async () => {
    const changed = await report(
      dryRun(
        api,
        'projections',
        { 'Totals.cs': totals('Totals', 2).replace('return new(', 'if (n == 4) { return null; } return new(') },
        { projectionId },
      ),
    );
    assert.deepEqual(figures(changed), [
      { folded: 2, changed: 1, unchanged: 0, added: 0, removed: 1, faulted: 0, faultedBefore: 0 },
    ]);
    assert.deepEqual(changed.changes.find(({ key }) => key === 'y')?.patch, [
      { op: 'replace', path: '/total', value: 4 },
    ]);
    const renamed = await report(
      dryRun(api, 'projections', { 'Totals.cs': totals().replace('key.GetString()', '"all"') }, { projectionId }),
    );
    assert.deepEqual(figures(renamed), [
      { folded: 1, changed: 0, unchanged: 0, added: 1, removed: 2, faulted: 0, faultedBefore: 0 },
    ]);
    const other = await report(dryRun(api, 'projections', { 'Totals.cs': totals('Sums') }, { projectionId }));
    assert.deepEqual(
      other.classes.map(({ className, added, removed }) => [className, added, removed]),
      [
        ['Tests.Sums', 2, 0],
        ['Tests.Totals', 0, 2],
      ],
    );
    assert.deepEqual(figures(await report(dryRun(api, 'projections', { 'Totals.cs': totals() }, { projectionId }))), [
      { folded: 2, changed: 0, unchanged: 2, added: 0, removed: 0, faulted: 0, faultedBefore: 0 },
    ]);
  });

  await t.test('shows what it would throw at', async () => {
    await api.append('b-1', 'Boom', { key: 'y', n: 1 });
    // A dry run goes as far as the live projection has come.
    await until(
      async () => (await api.read<{ faultCount?: number }>(`/projections/${projectionId}/status`)).faultCount === 1,
    );
    const all = await report(dryRun(api, 'projections', { 'Totals.cs': totals('Totals', 3) }, { projectionId }));
    assert.deepEqual(
      all.faults.map(({ key, aggregateId, version, message, line }) => ({ key, aggregateId, version, message, line })),
      [{ key: 'y', aggregateId: 'b-1', version: 3, message: 'InvalidOperationException: boom at 3', line: 13 }],
    );
  });

  await t.test('with a limit of keys says that it was cut', async () => {
    const cut = await report(dryRun(api, 'projections', { 'Totals.cs': totals() }, { projectionId, limit: '1' }));
    assert.deepEqual([cut.classes[0]?.folded, cut.complete], [1, false]);
    assert.match(cut.cut ?? '', /limits of keys \(1\)/);
  });

  await t.test('beside live appends compares states of one and the same place', async () => {
    let going = true;
    const appends = (async () => {
      for (let n = 0; going; n++) await api.append(`c-${n % 7}`, 'Added', { key: `k${n % 11}`, n });
    })();
    try {
      for (let i = 0; i < 3; i++) {
        const [counts] = (await report(dryRun(api, 'projections', { 'Totals.cs': totals() }, { projectionId })))
          .classes;
        assert.equal((counts?.changed ?? 0) + (counts?.added ?? 0) + (counts?.removed ?? 0), 0);
      }
    } finally {
      going = false;
      await appends;
    }
  });

  await t.test("another tenant's projection is a missing one", async () => {
    const { apiKey } = success(await service.post('/admin/tenants', { name: 'Other' }, AS_ADMIN), 201).json<{
      apiKey: string;
    }>();
    const other = new Api(service, apiKey);
    problem(await dryRun(other, 'projections', { 'Totals.cs': totals() }, { projectionId }), 404, 'NOT_FOUND');
    assert.deepEqual(
      (await report(dryRun(other, 'projections', { 'Totals.cs': totals() }))).classes.map(({ folded }) => folded),
      [0],
    );
  });
});

test('a dry run that takes too long is cut, and tells how far it got', async (t) => {
  const service = await startService(t, {
    env: { INSPECTION_DEADLINE_MS: '3000', RUNNER_EVENT_DEADLINE_MS: '30000', RUNNER_BATCH_DEADLINE_MS: '30000' },
  });
  const api = new Api(service);
  for (let i = 0; i < 70; i++) await api.append(`tally-${String(i).padStart(3, '0')}`, i === 69 ? 'Hang' : 'A');
  const cut = await report(dryRun(api, 'reducers', { 'Tally.cs': tally('tally') }));
  assert.deepEqual([cut.complete, cut.classes[0]?.folded, cut.classes[0]?.total], [false, 64, 70]);
  assert.match(cut.cut ?? '', /3000 ms/);
  const hanging = totals()
    .replace(
      'public string? ResolveKey(Event e) =>',
      'public string? ResolveKey(Event e) => e.EventType == "Hang" ? Forever() :',
    )
    .replace('public TotalsState? Apply', 'static string Forever() { while (true) { } } public TotalsState? Apply');
  const early = await report(dryRun(api, 'projections', { 'Totals.cs': hanging }));
  assert.deepEqual([early.complete, early.classes[0]?.changed], [false, 0]);
  assert.match(
    early.cut ?? '',
    /3000 ms were over, at record 0 of the \d+ of the tenant's history: nothing was compared/,
  );
  // The process that hung is gone.
  assert.equal(
    (await report(dryRun(api, 'reducers', { 'Tally.cs': tally('tally') }, { limit: '10' }))).classes[0]?.folded,
    10,
  );
});
