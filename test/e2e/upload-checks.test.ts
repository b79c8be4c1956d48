// What an upload would come to, asked without one; and notifications that are changed without one.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, form, problem, success } from '../support/api.js';
import { Receiver } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import { startService, type Answer } from '../support/service.js';

interface Checked {
  readonly status: string;
  readonly sameAs?: string | number;
  readonly discovered?: readonly { readonly className: string; readonly aggregateType?: string }[];
  readonly compilationError?: string;
}

test('an upload is checked without being kept', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const ask = (
    kind: 'reducers' | 'projections',
    sources: Readonly<Record<string, string>>,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<Answer> => api.request('POST', `/${kind}/check`, { raw: form(sources, fields) });
  const check = async (...asked: Parameters<typeof ask>): Promise<Checked> =>
    success(await ask(...asked), 200).json<Checked>();

  await t.test(
    'what compiles is told with its classes, what does not with the reasons, and nothing is there afterwards',
    async () => {
      const reducer = await check('reducers', { 'Tally.cs': tally('tally') });
      assert.deepEqual(
        [
          reducer.status,
          reducer.discovered?.map(({ className, aggregateType }) => [className, aggregateType]),
          reducer.sameAs,
        ],
        ['compiled', [['Tests.Tally', 'tally']], undefined],
      );
      assert.equal((await check('projections', { 'Totals.cs': totals() })).status, 'compiled');
      for (const kind of ['reducers', 'projections'] as const) {
        const failed = await check(kind, { 'A.cs': 'class A { B b; }' });
        assert.equal(failed.status, 'failed');
        assert.match(failed.compilationError ?? '', /^A\.cs\(1,11\): error CS0246/);
      }
      assert.deepEqual((await api.read<{ reducers: unknown[] }>('/reducers')).reducers, []);
      assert.deepEqual((await api.read<{ projections: unknown[] }>('/projections')).projections, []);
    },
  );

  await t.test('sources that are there already are told, whatever the order of their files', async () => {
    const sources = { 'Tally.cs': tally('tally'), 'More.cs': 'class More;' };
    const reducerId = await api.deployReducer(sources);
    await api.deployReducer({ 'Tally.cs': tally('tally', 2) });
    assert.equal((await check('reducers', Object.fromEntries(Object.entries(sources).reverse()))).sameAs, reducerId);
    assert.equal((await check('reducers', { ...sources, 'More.cs': 'class Less;' })).sameAs, undefined);
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    assert.equal((await check('projections', { 'Totals.cs': totals() }, { projectionId })).sameAs, 1);
    assert.equal(
      (await check('projections', { 'Totals.cs': totals('Totals', 2) }, { projectionId })).sameAs,
      undefined,
    );
    assert.equal(
      (await check('projections', { 'Totals.cs': totals() })).sameAs,
      undefined,
      'a new projection is no redeploy',
    );
  });

  await t.test('it refuses what an upload would be refused for', async () => {
    const sources = { 'Totals.cs': totals() };
    const refused = problem(
      await ask('projections', sources, { config: '{"webhok":{"url":"https://example.com"}}' }),
      400,
      'INVALID_REQUEST',
    );
    assert.match(refused.detail, /\/webhok is not a known member; did you mean "webhook"\?/);
    problem(
      await ask('projections', sources, { config: '{"webhook":{"url":"ftp://example.com"}}' }),
      400,
      'WEBHOOK_URL_REFUSED',
    );
    problem(await ask('projections', sources, { projectionId: 'nothing' }), 404, 'NOT_FOUND');
    problem(await ask('reducers', sources, { config: '{}' }), 400, 'INVALID_REQUEST');
  });
});

test('a check that does not come to a compiler in time is refused, and says when to come again', async (t) => {
  const service = await startService(t, {
    env: { COMPILERS: '1', COMPILERS_WARM: '0', COMPILATIONS_DIR: '', INSPECTION_DEADLINE_MS: '100' },
  });
  const api = new Api(service);
  // The first one waits for its compiler to start, and the others for that one.
  const uploads = await Promise.all(
    Array.from({ length: 6 }, async (_, i) =>
      success(await api.request('POST', '/reducers/upload', { raw: form({ 'Tally.cs': tally(`type${i}`) }) }), 202),
    ),
  );
  for (const path of ['/reducers/check', '/reducers/dry-run']) {
    const answer = await api.request('POST', path, { raw: form({ 'Tally.cs': tally('tally') }) });
    problem(answer, 429, 'RATE_LIMITED');
    assert.equal(answer.headers.get('retry-after'), '5', path);
  }
  for (const upload of uploads) await api.compiled('reducers', upload.json<{ readonly reducerId: string }>().reducerId);
  const answer = await api.request('POST', '/reducers/check', { raw: form({ 'Tally.cs': tally('tally') }) });
  assert.equal(success(answer, 200).json<Checked>().status, 'compiled');
});

test('the notifications of a projection are changed without a revision', async (t) => {
  const service = await startService(t);
  const receiver = await Receiver.open(t);
  const api = new Api(service);
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  interface Status {
    readonly revision: number;
    readonly sse: boolean;
    readonly webhook?: { readonly url?: string; readonly isolated: boolean };
  }
  const status = (): Promise<Status> => api.read<Status>(`/projections/${projectionId}/status`);
  const configure = (config: unknown): Promise<Answer> => api.put(`/projections/${projectionId}/config`, config);

  const { notifications } = success(
    await configure({ webhook: { url: `${receiver.url}/hook`, isolateSecret: true }, sse: true }),
    200,
  ).json<{ notifications: { webhook: { enabled: boolean; secret: string; isolated: boolean }; sse: boolean } }>();
  assert.deepEqual(
    [notifications.webhook.enabled, notifications.webhook.isolated, notifications.sse],
    [true, true, true],
  );
  assert.match(notifications.webhook.secret, /^whsec_/);
  const told = await status();
  assert.deepEqual([told.revision, told.sse, told.webhook], [1, true, { url: `${receiver.url}/hook`, isolated: true }]);

  // A rotation that was answered holds, whatever config was under way, and one config does not undo another.
  for (let round = 0; round < 10; round++) {
    const [rotated, ...configured] = await Promise.all([
      api.post(`/projections/${projectionId}/webhook/rotate`, {}),
      configure({ sse: round % 2 === 0 }),
      configure({ webhook: { url: `${receiver.url}/hook${round}` } }),
    ]);
    for (const answer of configured) success(answer, 200);
    const { secret } = success(rotated, 200).json<{ webhook: { secret: string } }>().webhook;
    const now = success(await configure({}), 200).json<{ notifications: { webhook: { secret: string } } }>();
    assert.equal(now.notifications.webhook.secret, secret);
    assert.deepEqual(
      [(await status()).sse, (await status()).webhook?.url],
      [round % 2 === 0, `${receiver.url}/hook${round}`],
    );
  }

  success(await configure({ webhook: null, sse: false }), 200);
  const none = await status();
  // The URL is gone; the secret of its own is kept for the next one.
  assert.deepEqual([none.revision, none.sse, none.webhook], [1, false, { isolated: true }]);

  problem(await configure({ webhok: null }), 400, 'INVALID_REQUEST');
  problem(await configure({ webhook: { url: 'ftp://example.com' } }), 400, 'WEBHOOK_URL_REFUSED');
  problem(await api.put('/projections/nothing/config', {}), 404, 'NOT_FOUND');
  assert.equal((await status()).revision, 1);
});
