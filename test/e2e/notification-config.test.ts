import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, form, problem, success } from '../support/api.js';
import { totals } from '../support/csharp.js';
import { startService } from '../support/service.js';

interface Block {
  readonly webhook: { readonly enabled: boolean; readonly secret: string; readonly isolated: boolean };
  readonly sse: boolean;
}
interface Uploaded {
  readonly projectionId: string;
  readonly notifications?: Block;
}
type Errors = readonly { readonly pointer: string; readonly message: string }[];

test('the config of a projection', async (t) => {
  const service = await startService(t, { env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const api = new Api(service);
  const sources = { 'Totals.cs': totals() };
  const upload = async (config: object | undefined, projectionId?: string): Promise<Uploaded> =>
    success(
      await api.upload('projections', sources, {
        ...(config === undefined ? {} : { config: JSON.stringify(config) }),
        ...(projectionId === undefined ? {} : { projectionId }),
      }),
      202,
    ).json<Uploaded>();
  const block = async (...asked: Parameters<typeof upload>): Promise<Block> =>
    (await upload(...asked)).notifications ?? assert.fail('no notifications');
  const recordOf = (id: string): Promise<{ sse: boolean; webhook?: object }> => api.read(`/projections/${id}/status`);
  const rotate = async (id: string): Promise<string> =>
    success(await api.post(`/projections/${id}/webhook/rotate`), 200).json<{ webhook: { secret: string } }>().webhook
      .secret;
  const url = 'http://127.0.0.1:9/hook';

  await t.test(
    'a secret of its own holds without a URL, from the start: beside webhook or inside it, wrapped or not',
    async () => {
      for (const config of [
        { isolateSecret: true },
        { webhook: { isolateSecret: true } },
        { notifications: { isolateSecret: true } },
        { notifications: { webhook: { isolateSecret: true } } },
      ]) {
        const { projectionId, notifications } = await upload(config);
        const secret = notifications?.webhook.secret ?? '';
        assert.match(secret, /^whsec_/);
        assert.deepEqual(notifications, { webhook: { enabled: false, secret, isolated: true }, sse: false });
        const rotated = await rotate(projectionId);
        assert.notEqual(rotated, secret);
        // The URL comes later, and finds the secret that was rotated to.
        assert.deepEqual(await block({ webhook: { url } }, projectionId), {
          webhook: { enabled: true, secret: rotated, isolated: true },
          sse: false,
        });
        assert.deepEqual((await recordOf(projectionId)).webhook, { url, isolated: true });
        success(await api.delete(`/projections/${projectionId}`), 204);
      }
    },
  );

  await t.test(
    'whenever a config was given the answer has the whole block; a shared secret is the tenant’s',
    async () => {
      const [first, second] = [await upload({}), await upload({ sse: true })];
      const secret = first.notifications?.webhook.secret ?? '';
      assert.deepEqual(first.notifications, { webhook: { enabled: false, secret, isolated: false }, sse: false });
      assert.deepEqual(second.notifications, { webhook: { enabled: false, secret, isolated: false }, sse: true });
      assert.deepEqual(await block({ webhook: { url } }), {
        webhook: { enabled: true, secret, isolated: false },
        sse: false,
      });
      assert.equal((await upload(undefined)).notifications, undefined);
      problem(await api.post(`/projections/${first.projectionId}/webhook/rotate`), 400, 'WEBHOOK_NOT_CONFIGURED');
    },
  );

  await t.test('a redeploy keeps what its config leaves out, and null removes the webhook', async () => {
    const { projectionId, notifications } = await upload({ webhook: { url }, isolateSecret: true, sse: true });
    const secret = notifications?.webhook.secret ?? '';
    const whole = { webhook: { enabled: true, secret, isolated: true }, sse: true };
    assert.deepEqual(notifications, whole);
    assert.deepEqual(await block({}, projectionId), whole);
    assert.deepEqual(await block({ sse: true }, projectionId), whole);
    assert.deepEqual(await block({ isolateSecret: true }, projectionId), whole);
    assert.deepEqual(await block({ sse: false }, projectionId), { ...whole, sse: false });
    assert.deepEqual(await block({ webhook: null }, projectionId), {
      webhook: { enabled: false, secret, isolated: true },
      sse: false,
    });
    assert.deepEqual((await recordOf(projectionId)).webhook, { isolated: true });
    assert.deepEqual(await block({ webhook: { url }, sse: true }, projectionId), whole);
    const shared = await block({ isolateSecret: false }, projectionId);
    assert.deepEqual(
      [shared.webhook.enabled, shared.webhook.isolated, shared.webhook.secret === secret],
      [true, false, false],
    );
    problem(await api.post(`/projections/${projectionId}/webhook/rotate`), 400, 'WEBHOOK_SECRET_SHARED');
    assert.equal((await upload(undefined, projectionId)).notifications, undefined);
    assert.deepEqual((await recordOf(projectionId)).webhook, { url, isolated: false });
  });

  await t.test('it may be a part with a filename', async () => {
    const raw = form(sources);
    raw.append(
      'config',
      new Blob(['{"isolateSecret":true,"sse":true}'], { type: 'application/json' }),
      'notifications.json',
    );
    const { notifications } = success(await api.request('POST', '/projections/upload', { raw }), 202).json<Uploaded>();
    assert.deepEqual([notifications?.webhook.isolated, notifications?.sse], [true, true]);
    raw.append('config', '{}');
    problem(await api.request('POST', '/projections/upload', { raw }), 400, 'INVALID_REQUEST');
  });

  await t.test('what is misspelt, or contradicts itself, is refused with its place', async () => {
    const refused = async (config: object): Promise<Errors> =>
      problem(await api.upload('projections', sources, { config: JSON.stringify(config) }), 400, 'INVALID_REQUEST')[
        'errors'
      ] as Errors;
    assert.deepEqual(await refused({ isolatesecret: true }), [
      { pointer: '/isolatesecret', message: 'is not a known member; did you mean "isolateSecret"?' },
    ]);
    assert.deepEqual(await refused({ notifications: { webhook: { URL: url }, SSE: true } }), [
      { pointer: '/notifications/SSE', message: 'is not a known member; did you mean "sse"?' },
      { pointer: '/notifications/webhook/URL', message: 'is not a known member; did you mean "url"?' },
    ]);
    assert.deepEqual(
      (await refused({ notifications: {}, colour: 'red' })).map(({ pointer }) => pointer),
      ['/colour'],
    );
    assert.deepEqual(
      (await refused({ webhook: { url, isolateSecret: false }, isolateSecret: true })).map(({ pointer }) => pointer),
      ['/webhook/isolateSecret'],
    );
    assert.deepEqual(
      (await refused({ webhook: {} })).map(({ pointer }) => pointer),
      ['/webhook'],
    );
  });
});
