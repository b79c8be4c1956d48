import assert from 'node:assert/strict';
import test from 'node:test';
import {
  Api,
  newTenant,
  problem,
  success,
  TIMESTAMP,
  UUIDV7,
  withoutMoving,
  type Notification,
} from '../support/api.js';
import { tags, totals } from '../support/csharp.js';
import { sample, startService, temporaryDirectory, until } from '../support/service.js';

interface Projection {
  readonly id: string;
  readonly status: string;
  readonly kind: string;
  readonly revision: number;
  readonly sse: boolean;
  readonly webhook?: object;
  readonly discovered?: readonly object[];
  readonly compilationError?: string;
  readonly createdAt: string;
  readonly compiledAt?: string;
  readonly live?: { readonly revision: number; readonly artefactId: string };
  readonly build?: { readonly status: string };
  readonly faultCount?: number;
  readonly eventsPerSecond?: number;
  readonly lag?: { readonly commits: number; readonly events?: number; readonly since: string };
  readonly faults?: readonly {
    readonly key: string;
    readonly version: number;
    readonly message: string;
    readonly file: string;
    readonly line: number;
  }[];
}
interface States {
  readonly states: readonly {
    readonly key: string;
    readonly className: string;
    readonly state: unknown;
    readonly sequence: number;
    readonly lastModified: string;
    readonly fault?: { readonly version: number; readonly line: number };
  }[];
  readonly nextCursor?: string;
}

test('projections', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  const add = (aggregateId: string, key: string, n: number, eventType = 'Added'): ReturnType<Api['append']> =>
    api.append(aggregateId, eventType, { key, n });
  const states = async (id: string, query = ''): Promise<Record<string, unknown>> =>
    Object.fromEntries(
      (await api.read<States>(`/projections/${id}/states${query}`)).states.map(({ key, state }) => [key, state]),
    );
  const listed = async (query = ''): Promise<readonly Projection[]> =>
    (await api.read<{ projections: Projection[] }>(`/projections${query}`)).projections;
  const summary = ({ key, state, version, aggregateId, cause, className }: Notification): unknown[] => [
    key,
    state,
    aggregateId,
    version,
    className,
    cause,
  ];

  let totalsId = '';
  await t.test('an upload is answered, compiled and built over the history, one notification a key', async () => {
    for (const [id, key, n] of [
      ['a-1', 'x', 1],
      ['b-1', 'y', 2],
      ['a-1', 'x', 3],
      ['a-2', 'x', 4],
    ] as const)
      await add(id, key, n);
    await api.append('a-1', 'NotForIt', {});
    const answer = success(await api.upload('projections', { 'Totals.cs': totals() }), 202).json<
      Record<string, unknown>
    >();
    assert.deepEqual(Object.keys(answer), ['success', 'projectionId', 'status', 'message']);
    assert.deepEqual([answer['success'], answer['status']], [true, 'compiling']);
    totalsId = String(answer['projectionId']);
    assert.match(totalsId, UUIDV7);
    const record = await api.compiled<Projection>('projections', totalsId);
    assert.deepEqual(
      [record.id, record.status, record.kind, record.revision, record.sse, record.webhook],
      [totalsId, 'compiled', 'projection', 1, false, undefined],
    );
    assert.deepEqual(record.discovered, [
      { className: 'Tests.Totals', stateTypeName: 'Tests.TotalsState', kind: 'projection' },
    ]);
    assert.match(record.createdAt, TIMESTAMP);
    assert.match(record.compiledAt ?? '', TIMESTAMP);
    await api.live(totalsId);
    const found = await api.notifications(totalsId, 2);
    assert.deepEqual(found.map(summary).sort(), [
      ['x', { total: 8 }, 'a-2', 1, 'Tests.Totals', 'build'],
      ['y', { total: 2 }, 'b-1', 1, 'Tests.Totals', 'build'],
    ]);
    for (const one of found) {
      assert.deepEqual([one.projectionId, one.aggregateType], [totalsId, one.aggregateId.slice(0, 1)]);
      assert.match(one.timestamp, TIMESTAMP);
    }
    assert.ok((found[0]?.sequence ?? 0) >= 1);
    assert.deepEqual(await states(totalsId), { x: { total: 8 }, y: { total: 2 } });
  });

  await t.test('live: one notification for each event and key whose state changed, also inside a batch', async () => {
    const before = (await api.notifications(totalsId, 2)).at(-1)?.sequence ?? 0;
    const data = [
      ['x', 1],
      ['x', 0],
      ['y', 5],
      ['x', 1],
    ].map(([key, n]) => ({ eventType: 'Added', data: { key, n } }));
    const batch = success(await api.post('/events/batch', { aggregateId: 'c-1', events: data }), 201).json<{
      timestamp: string;
    }>();
    await add('a-1', 'y', 0);
    await add('d-1', 'z', 0);
    const found = await api.notifications(totalsId, 4, `&afterSequence=${before}`);
    assert.deepEqual(found.map(summary), [
      ['x', { total: 9 }, 'c-1', 1, 'Tests.Totals', undefined],
      ['y', { total: 7 }, 'c-1', 3, 'Tests.Totals', undefined],
      ['x', { total: 10 }, 'c-1', 4, 'Tests.Totals', undefined],
      ['z', { total: 0 }, 'd-1', 1, 'Tests.Totals', undefined],
    ]);
    assert.equal(found[0]?.timestamp, batch.timestamp);
    const sequences = found.map(({ sequence }) => sequence);
    assert.deepEqual(
      sequences,
      [...new Set(sequences)].sort((a, b) => a - b),
    );
    const { states: one } = await api.read<States>(`/projections/${totalsId}/states/x`);
    assert.deepEqual(one, [
      {
        key: 'x',
        className: 'Tests.Totals',
        state: { total: 10 },
        sequence: found[2]?.sequence,
        lastModified: found[2]?.timestamp,
      },
    ]);
    problem(await api.get(`/projections/${totalsId}/states/nothing`), 404, 'NOT_FOUND');
  });

  await t.test('a state that is gone is told as null', async () => {
    const { version } = await add('d-1', 'z', 0, 'Forget');
    await until(async () => (await api.notifications(totalsId, 1)).at(-1)?.key === 'z');
    await until(async () => (await api.notifications(totalsId, 1)).at(-1)?.version === version);
    assert.equal((await api.notifications(totalsId, 1)).at(-1)?.state, null);
  });

  await t.test(
    'several classes of one upload share its id; a multi-key projection has a state for each key',
    async () => {
      const id = await api.deployProjection({
        'Tags.cs': tags,
        'Sums.cs': totals('Sums'),
        'Doubles.cs': totals('Doubles', 2),
      });
      const record = await api.read<Projection>(`/projections/${id}/status`);
      assert.deepEqual(
        record.discovered?.map((one) => (one as { className: string }).className),
        ['Tests.Doubles', 'Tests.Sums', 'Tests.Tags'],
      );
      const last = (await api.notifications(id, 4)).at(-1)?.sequence ?? 0;
      await api.append('e-1', 'Tagged', { key: 'x', n: 1, tags: ['x', 'new', 'x'] });
      const found = await api.notifications(id, 4, `&afterSequence=${last}`);
      assert.deepEqual(
        found.map(({ key, className, state }) => [key, className, state]),
        [
          ['x', 'Tests.Doubles', { total: 22 }],
          ['x', 'Tests.Sums', { total: 11 }],
          ['x', 'Tests.Tags', { count: 1, tag: 'x' }],
          ['new', 'Tests.Tags', { count: 1, tag: 'new' }],
        ],
      );
      const { states: ofX } = await api.read<States>(`/projections/${id}/states/x`);
      assert.deepEqual(
        ofX.map(({ className, state }) => [className, state]),
        [
          ['Tests.Doubles', { total: 22 }],
          ['Tests.Sums', { total: 11 }],
          ['Tests.Tags', { count: 1, tag: 'x' }],
        ],
      );
    },
  );

  await t.test('states are listed by prefix, page by page, with keys of any length', async () => {
    const keys = [
      'page',
      'page/a b',
      'page/%2F',
      'page/\u{1f600}',
      'page/\uffee',
      `page/${'l'.repeat(251)}`,
      'page/__proto__',
      'pagf',
    ];
    for (const [i, key] of keys.entries()) await add('f-1', key, i + 1);
    await until(async () => (await api.get(`/projections/${totalsId}/states/pagf`)).status === 200);
    const sorted = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    for (const limit of [1, 3, 100]) {
      const found: string[] = [];
      for (let cursor = ''; ;) {
        const page = await api.read<States>(`/projections/${totalsId}/states?prefix=page&limit=${limit}${cursor}`);
        found.push(...page.states.map(({ key }) => key));
        if (page.nextCursor === undefined) break;
        assert.equal(page.states.length, limit);
        cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
      }
      assert.deepEqual(
        found,
        sorted.filter((key) => key.startsWith('page')),
        `limit ${limit}`,
      );
    }
    assert.deepEqual(Object.keys(await states(totalsId, `?prefix=${encodeURIComponent('page/\u{1f600}')}`)), [
      'page/\u{1f600}',
    ]);
    for (const key of keys)
      assert.equal(
        (await api.read<States>(`/projections/${totalsId}/states/${encodeURIComponent(key)}`)).states[0]?.key,
        key,
      );
    for (const query of ['limit=0', 'limit=1001', 'cursor=x', 'prefix=%00', 'prefix=a&prefix=b'])
      problem(await api.get(`/projections/${totalsId}/states?${query}`), 400, 'INVALID_REQUEST');
  });

  await t.test('a throw stops its key alone, and is not pushed', async () => {
    const last = (await api.notifications(totalsId, 1)).at(-1)?.sequence ?? 0;
    await add('g-1', 'bad', 1);
    await add('g-1', 'bad', 1, 'Boom');
    await add('g-1', 'bad', 1);
    await add('g-1', 'good', 1);
    await until(async () => (await api.get(`/projections/${totalsId}/states/good`)).status === 200);
    const found = await api.notifications(totalsId, 2, `&afterSequence=${last}`);
    assert.deepEqual(
      found.map(({ key, state }) => [key, state]),
      [
        ['bad', { total: 1 }],
        ['good', { total: 1 }],
      ],
    );
    const [bad] = (await api.read<States>(`/projections/${totalsId}/states/bad`)).states;
    assert.deepEqual([bad?.state, bad?.fault?.version, bad?.fault?.line], [{ total: 1 }, 2, 13]);
    const { faults } = await api.read<Projection>(`/projections/${totalsId}/status`);
    assert.deepEqual(
      faults?.map(({ key, version, message, file, line }) => [key, version, message, file, line]),
      [['bad', 2, 'InvalidOperationException: boom at 2', 'Totals.cs', 13]],
    );
  });

  await t.test('a key that code may not give faults what it was given for, and nothing else', async () => {
    const odd = await api.deployProjection({ 'Odd.cs': totals('Odd') });
    const last = (await api.notifications(odd, 1)).at(-1)?.sequence ?? 0;
    for (const key of ['', 'k'.repeat(257), 'a\u0001b']) await api.append('h-1', 'Added', { key, n: 1 });
    await api.append('h-1', 'Added', { key: 'fine', n: 1 });
    const found = await api.notifications(odd, 1, `&afterSequence=${last}`);
    assert.deepEqual(
      found.map(({ key, state }) => [key, state]),
      [['fine', { total: 1 }]],
    );
  });

  await t.test('a redeploy keeps the id, counts up, and tells only what changed', async () => {
    const before = await states(totalsId);
    const last = (await api.notifications(totalsId, 1)).at(-1)?.sequence ?? 0;
    problem(await api.upload('projections', { 'Totals.cs': totals() }, { projectionId: 'nothing' }), 404, 'NOT_FOUND');
    // Doubles what comes to an odd total; the others stay as they are.
    const changed = totals().replace(
      'new((state?.Total ?? 0) + n * 1)',
      'new((state?.Total ?? 0) + (ResolveKey(e) == "x" ? 2 * n : n))',
    );
    const answer = success(
      await api.upload('projections', { 'Totals.cs': changed }, { projectionId: totalsId }),
      202,
    ).json<{ projectionId: string }>();
    assert.equal(answer.projectionId, totalsId);
    await until(
      async () =>
        (await api.read<States>(`/projections/${totalsId}/states/x`)).states[0]?.sequence !== undefined &&
        ((await states(totalsId))['x'] as { total: number }).total === 22,
    );
    const record = await api.read<Projection>(`/projections/${totalsId}/status`);
    assert.deepEqual([record.status, record.revision], ['compiled', 2]);
    await api.live(totalsId);
    const found = await api.notifications(totalsId, 1, `&afterSequence=${last}`);
    assert.deepEqual(
      found.map(({ key, state, cause }) => [key, state, cause]),
      [['x', { total: 22 }, 'redeploy']],
    );
    assert.deepEqual({ ...(await states(totalsId)), x: before['x'] }, before);
    // One that doesn't compile leaves the running one as it was.
    success(await api.upload('projections', { 'Totals.cs': 'class {' }, { projectionId: totalsId }), 202);
    const broken = await api.compiled<Projection>('projections', totalsId);
    assert.deepEqual([broken.status, broken.revision, broken.discovered], ['failed', 3, undefined]);
    assert.match(broken.compilationError ?? '', /Totals\.cs/);
    await add('a-1', 'x', 1);
    await until(async () => ((await states(totalsId))['x'] as { total: number }).total === 24);
  });

  await t.test('both forms of the config are the same', async () => {
    const config = { webhook: { url: 'http://127.0.0.1:9/hook' }, isolateSecret: true, sse: true };
    for (const form of [
      config,
      { notifications: config },
      { webhook: { ...config.webhook, isolateSecret: true }, sse: true },
    ]) {
      const answer = success(
        await api.upload('projections', { 'Totals.cs': totals() }, { config: JSON.stringify(form) }),
        202,
      ).json<{ projectionId: string; notifications: { webhook: { secret: string } } }>();
      assert.match(answer.notifications.webhook.secret, /^whsec_[A-Za-z0-9+/]{32,}={0,2}$/);
      assert.deepEqual(answer.notifications, {
        webhook: { enabled: true, secret: answer.notifications.webhook.secret, isolated: true },
        sse: true,
      });
      const record = await api.compiled<Projection>('projections', answer.projectionId);
      assert.deepEqual([record.sse, record.webhook], [true, { url: config.webhook.url, isolated: true }]);
      success(await api.delete(`/projections/${answer.projectionId}`), 204);
    }
    const plain = success(await api.upload('projections', { 'Totals.cs': totals() }, { config: '{}' }), 202).json<{
      projectionId: string;
      notifications: { webhook: { secret: string } };
    }>();
    assert.match(plain.notifications.webhook.secret, /^whsec_/);
    assert.deepEqual(plain.notifications, {
      webhook: { enabled: false, secret: plain.notifications.webhook.secret, isolated: false },
      sse: false,
    });
    success(await api.delete(`/projections/${plain.projectionId}`), 204);
    for (const bad of [
      '',
      'x',
      '[]',
      'null',
      '1',
      '{"a":1}',
      '{"notifications":{"a":1}}',
      '{"notifications":null}',
      '{"webhook":{}}',
      '{"webhook":{"url":1}}',
      '{"webhook":{"url":""}}',
      '{"sse":"true"}',
      '{"webhook":{"url":"http://x.test"},"isolateSecret":1}',
      '{"sse":true}x',
    ])
      problem(await api.upload('projections', { 'Totals.cs': totals() }, { config: bad }), 400, 'INVALID_REQUEST');
    for (const url of ['x', 'ftp://example.com/', 'javascript:alert(1)', 'http://', 'http://user:pass@example.com/'])
      problem(
        await api.upload('projections', { 'Totals.cs': totals() }, { config: JSON.stringify({ webhook: { url } }) }),
        400,
        'WEBHOOK_URL_REFUSED',
      );
  });

  await t.test('what fails to compile says so', async () => {
    const { projectionId } = success(
      await api.upload('projections', {
        'Reducer.cs': sample('bank')['AccountReducer.cs'] ?? '',
        'Events.cs': sample('bank')['Events.cs'] ?? '',
      }),
      202,
    ).json<{ projectionId: string }>();
    const record = await api.compiled<Projection>('projections', projectionId);
    assert.equal(record.status, 'failed');
    assert.match(record.compilationError ?? '', /IProjection<T>/);
    assert.deepEqual(
      (await api.read<{ notifications: object[] }>(`/projections/${projectionId}/notifications`)).notifications,
      [],
    );
    assert.deepEqual(await states(projectionId), {});
  });

  await t.test('the list tells of each what its own answer tells, but for the faults themselves', async () => {
    const all = await listed();
    assert.ok(all.some(({ faultCount = 0 }) => faultCount > 0));
    assert.ok(all.some(({ status, faultCount }) => status === 'failed' && faultCount === undefined));
    for (const one of all) {
      const { faults, ...status } = await api.read<Projection>(`/projections/${one.id}/status`);
      assert.deepEqual(withoutMoving(one), withoutMoving(status));
      assert.equal(faults?.length ?? 0, one.faultCount ?? 0);
      if (one.status === 'compiled') assert.equal(one.live?.revision, one.revision);
    }
    const [first] = await listed('?limit=1');
    assert.deepEqual(withoutMoving(first), withoutMoving(all[0]));
  });

  await t.test('after a kill all goes on from where it was', async () => {
    const before = {
      states: (await api.get(`/projections/${totalsId}/states`)).text,
      notifications: (await api.get(`/projections/${totalsId}/notifications`)).text,
    };
    const added = await add('a-1', 'x', 10);
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    await until(async () => ((await states(totalsId))['x'] as { total: number }).total === 44);
    const after = await api.get(`/projections/${totalsId}/notifications`);
    assert.ok(after.text.startsWith(before.notifications.slice(0, -2)), 'what was told stays as it was');
    const told = after.json<{ notifications: Notification[] }>().notifications;
    assert.deepEqual(
      told
        .filter(({ aggregateId, version }) => aggregateId === 'a-1' && version === added.version)
        .map(({ key, state }) => [key, state]),
      [['x', { total: 44 }]],
    );
    const others = (text: string): unknown => (JSON.parse(text) as States).states.filter(({ key }) => key !== 'x');
    assert.deepEqual(others((await api.get(`/projections/${totalsId}/states`)).text), others(before.states));
  });

  await t.test('tells how far it is behind while its code takes its time, and nothing when it has all', async () => {
    const id = await api.deployProjection({
      'Slow.cs': `public record Sum(long N);
        public class Slow : IProjection<Sum>
        {
            public string? ResolveKey(Event e) => e.EventType == "Slowed" ? "slow" : null;
            public Sum? Apply(Sum? s, Event e)
            {
                var n = s?.N ?? 0;
                for (var i = 0; i < 300_000_000; i++) n = unchecked(n * 31 + i);
                return new(n);
            }
        }`,
    });
    const lag = async (): Promise<Projection['lag']> => (await api.read<Projection>(`/projections/${id}/status`)).lag;
    await until(async () => (await lag()) === undefined);
    assert.ok((await listed()).every((one) => one.lag === undefined));
    const events = Array.from({ length: 10 }, () => ({ eventType: 'Slowed', data: {} }));
    const appended = success(await api.post('/events/batch', { aggregateId: 'slow-1', events }), 201).json<{
      timestamp: string;
    }>();
    let behind: Projection['lag'];
    await until(async () => (behind = await lag()) !== undefined);
    assert.ok((behind?.commits ?? 0) >= 1);
    assert.equal(behind?.since, appended.timestamp);
    assert.equal(behind?.events, 10);
    const all = await listed();
    const [lagOfOne] = all.filter((one) => one.id === id).map((one) => one.lag);
    assert.equal(lagOfOne?.since, appended.timestamp);
    for (const one of all) assert.deepEqual(one.lag, one.live === undefined ? undefined : lagOfOne, one.id);
    await until(async () => (await lag()) === undefined);
    success(await api.get(`/projections/${id}/states/slow`), 200);
    success(await api.delete(`/projections/${id}`), 204);
  });

  await t.test('tells how many events a second it has worked off, each once however many classes it has', async () => {
    const other = new Api(service, await newTenant(service, { tenantId: 'rates', name: 'Rates' }));
    const id = await other.deployProjection({ 'Totals.cs': totals(), 'More.cs': totals('More') });
    assert.equal((await other.read<Projection>(`/projections/${id}/status`)).eventsPerSecond, 0);
    for (let i = 0; i < 5; i++) await other.append('a-1', i < 3 ? 'NotForIt' : 'Added', { key: 'x', n: 1 });
    await other.notifications(id, 2);
    const rates = async (): Promise<readonly (number | undefined)[]> => {
      const { projections } = await other.read<{ projections: readonly Projection[] }>('/projections');
      const { aggregateTypes } = await other.read<{
        aggregateTypes: readonly { readonly eventsPerSecond?: number }[];
      }>('/aggregate-types');
      const one = await other.read<Projection>(`/projections/${id}/status`);
      return [projections[0], one, aggregateTypes[0]].map((of) => of?.eventsPerSecond);
    };
    // Appended as many as worked off; the counts began a moment apart, which matters less from second to second.
    await until(async () => {
      const [listed = 0, one = 0, appended = 0] = await rates();
      return appended > 0 && [listed, one].every((rate) => rate / appended > 0.7 && rate / appended < 1.4);
    });
    const failed = (await listed()).find(({ status, live }) => status === 'failed' && live === undefined);
    assert.ok(failed !== undefined && failed.eventsPerSecond === undefined);
  });

  await t.test('a deleted projection is gone everywhere', async () => {
    success(await api.delete(`/projections/${totalsId}`), 204);
    for (const path of ['status', 'states', 'states/x', 'notifications', 'sse', 'stream'])
      problem(await api.get(`/projections/${totalsId}/${path}`), 404, 'NOT_FOUND');
    problem(await api.delete(`/projections/${totalsId}`), 404, 'NOT_FOUND');
    problem(await api.post(`/projections/${totalsId}/webhook/rotate`), 404, 'NOT_FOUND');
    problem(await api.upload('projections', { 'Totals.cs': totals() }, { projectionId: totalsId }), 404, 'NOT_FOUND');
    assert.ok(!(await listed()).some(({ id }) => id === totalsId));
  });
});
