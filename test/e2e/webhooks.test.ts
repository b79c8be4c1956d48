import assert from 'node:assert/strict';
import test from 'node:test';
import { Webhook } from 'standardwebhooks';
import { Api, problem, success, TIMESTAMP } from '../support/api.js';
import { Receiver, type Delivery } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

const verify = (delivery: Delivery, secret: string): unknown =>
  new Webhook(secret).verify(delivery.body, { ...delivery.headers });

test('webhooks', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const receiver = await Receiver.open(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  let n = 0;
  const add = (key = 'x'): ReturnType<Api['append']> => api.append(`a-${key}`, 'Added', { key, n: ++n });
  const deploy = async (
    path: string,
    isolateSecret: boolean | undefined,
  ): Promise<{ id: string; secret: string; isolated: boolean }> => {
    const config = { webhook: { url: receiver.url + path }, ...(isolateSecret === undefined ? {} : { isolateSecret }) };
    const answer = success(
      await api.upload('projections', { 'Totals.cs': totals() }, { config: JSON.stringify(config) }),
      202,
    ).json<{
      projectionId: string;
      notifications: { webhook: { enabled: boolean; secret: string; isolated: boolean } };
    }>();
    const { enabled, secret, isolated } = answer.notifications.webhook;
    assert.equal(enabled, true);
    assert.equal((await api.compiled<{ status: string }>('projections', answer.projectionId)).status, 'compiled');
    await api.live(answer.projectionId);
    return { id: answer.projectionId, secret, isolated };
  };
  /** The delivery that an append to the key leads to. */
  const delivered = async (path: string, key = 'x'): Promise<Delivery> => {
    const { timestamp, version } = await add(key);
    const found = (): Delivery | undefined =>
      receiver
        .of(path)
        .find(({ record }) => record.timestamp === timestamp && record.version === version && record.key === key);
    await until(() => found() !== undefined);
    return found() as Delivery;
  };

  let shared: Awaited<ReturnType<typeof deploy>>;
  let isolated: Awaited<ReturnType<typeof deploy>>;
  await t.test('a delivery holds the record of polling, and verifies with its secret', async () => {
    shared = await deploy('/shared', undefined);
    const second = await deploy('/second', false);
    isolated = await deploy('/isolated', true);
    assert.deepEqual([shared.isolated, second.isolated, isolated.isolated], [false, false, true]);
    assert.equal(second.secret, shared.secret);
    assert.notEqual(isolated.secret, shared.secret);
    for (const [path, { id, secret }, wrong] of [
      ['/shared', shared, isolated],
      ['/second', second, isolated],
      ['/isolated', isolated, shared],
    ] as const) {
      const delivery = await delivered(path);
      verify(delivery, secret);
      assert.throws(() => verify(delivery, wrong.secret));
      const answer = await api.get(
        `/projections/${id}/notifications?afterSequence=${delivery.record.sequence - 1}&limit=1`,
      );
      assert.equal(
        delivery.body,
        `{"type":"projection.state_changed","timestamp":"${delivery.record.timestamp}","data":${answer.text.slice('{"notifications":['.length, -2)}}`,
      );
      assert.deepEqual([delivery.headers['content-type'], delivery.record.projectionId], ['application/json', id]);
      assert.match(delivery.headers['webhook-id'] ?? '', /^msg_/);
      assert.ok(Math.abs(Number(delivery.headers['webhook-timestamp']) - Date.now() / 1000) < 60);
    }
    success(await api.delete(`/projections/${second.id}`), 204);
  });

  await t.test('order is kept within a key, and nothing is left out', async () => {
    const before = receiver.of('/isolated').length;
    await Promise.all(Array.from({ length: 30 }, (_, i) => add(`k${i % 3}`)));
    await until(() => receiver.of('/isolated').length >= before + 30);
    const fresh = receiver.of('/isolated').slice(before);
    assert.equal(new Set(fresh.map(({ headers }) => headers['webhook-id'])).size, 30);
    for (const key of ['k0', 'k1', 'k2']) {
      const versions = fresh.filter(({ record }) => record.key === key).map(({ record }) => record.version);
      assert.deepEqual(versions, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
  });

  await t.test('the rotation of the tenant changes shared secrets alone; old and new sign', async () => {
    const answer = success(await api.post('/webhooks/rotate'), 200).json<{ webhook: { secret: string } }>();
    assert.deepEqual(Object.keys(answer), ['webhook']);
    assert.deepEqual(Object.keys(answer.webhook), ['secret']);
    assert.match(answer.webhook.secret, /^whsec_/);
    assert.notEqual(answer.webhook.secret, shared.secret);
    const both = await delivered('/shared');
    verify(both, shared.secret);
    verify(both, answer.webhook.secret);
    const other = await delivered('/isolated');
    verify(other, isolated.secret);
    assert.throws(() => verify(other, answer.webhook.secret));
    const next = await deploy('/next', undefined);
    assert.equal(next.secret, answer.webhook.secret);
    success(await api.delete(`/projections/${next.id}`), 204);
    shared = { ...shared, secret: answer.webhook.secret };
  });

  await t.test('the rotation of a projection changes its own secret; of a shared one it is refused', async () => {
    problem(await api.post(`/projections/${shared.id}/webhook/rotate`), 400, 'WEBHOOK_SECRET_SHARED');
    const plain = await api.deployProjection({ 'Totals.cs': totals() });
    problem(await api.post(`/projections/${plain}/webhook/rotate`), 400, 'WEBHOOK_NOT_CONFIGURED');
    problem(await api.post('/projections/nothing/webhook/rotate'), 404, 'NOT_FOUND');
    const secrets = [isolated.secret];
    for (let i = 0; i < 4; i++) {
      const answer = success(await api.post(`/projections/${isolated.id}/webhook/rotate`), 200).json<{
        projectionId: string;
        webhook: { secret: string; isolated: boolean };
      }>();
      assert.deepEqual(answer, {
        projectionId: isolated.id,
        webhook: { secret: answer.webhook.secret, isolated: true },
      });
      secrets.push(answer.webhook.secret);
    }
    assert.equal(new Set(secrets).size, 5);
    const delivery = await delivered('/isolated');
    for (const secret of secrets.slice(1)) verify(delivery, secret);
    // The current one and the latest three before it.
    assert.throws(() => verify(delivery, secrets[0] ?? ''));
    const ofShared = await delivered('/shared');
    for (const secret of secrets) assert.throws(() => verify(ofShared, secret));
    isolated = { ...isolated, secret: secrets.at(-1) ?? '' };
  });

  await t.test('what was not delivered before a kill is delivered after it, under the same id', async () => {
    receiver.statuses.set('/isolated', 500);
    const { timestamp } = await add('late');
    const attempts = (): Delivery[] =>
      receiver.of('/isolated').filter(({ record }) => record.key === 'late' && record.timestamp === timestamp);
    await until(() => attempts().length === 1);
    assert.equal(attempts()[0]?.record.sequence, (await api.notifications(isolated.id, 1)).at(-1)?.sequence);
    await service.kill();
    receiver.statuses.set('/isolated', 204);
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    await until(() => attempts().length === 2);
    const [first, second] = attempts();
    assert.equal(second?.headers['webhook-id'], first?.headers['webhook-id']);
    assert.equal(second?.body, first?.body);
    verify(second as Delivery, isolated.secret);
    await until(() =>
      receiver.of('/shared').some(({ record }) => record.key === 'late' && record.timestamp === timestamp),
    );
  });

  await t.test('a redeploy with another URL moves the deliveries; one without config leaves them', async () => {
    const redeploy = async (
      fields: Record<string, string>,
    ): Promise<{ notifications?: { webhook: { secret: string } } }> => {
      const answer = success(
        await api.upload('projections', { 'Totals.cs': totals() }, { projectionId: isolated.id, ...fields }),
        202,
      ).json<{ notifications?: { webhook: { secret: string } } }>();
      assert.equal((await api.compiled<{ status: string }>('projections', isolated.id)).status, 'compiled');
      await api.live(isolated.id);
      return answer;
    };
    assert.equal((await redeploy({})).notifications, undefined);
    verify(await delivered('/isolated'), isolated.secret);
    const moved = await redeploy({
      config: JSON.stringify({ webhook: { url: `${receiver.url}/moved`, isolateSecret: true } }),
    });
    assert.equal(moved.notifications?.webhook.secret, isolated.secret);
    verify(await delivered('/moved'), isolated.secret);
  });

  await t.test('410 ends the deliveries to an endpoint, and the record says since when', async () => {
    const gone = await deploy('/gone', true);
    receiver.statuses.set('/gone', 410);
    await add('gone');
    const webhook = async (): Promise<{ disabledAt?: string }> =>
      (await api.read<{ webhook: { disabledAt?: string } }>(`/projections/${gone.id}/status`)).webhook;
    await until(async () => (await webhook()).disabledAt !== undefined);
    assert.match((await webhook()).disabledAt ?? '', TIMESTAMP);
    receiver.statuses.delete('/gone');
    const count = receiver.of('/gone').length;
    await delivered('/moved', 'gone');
    await delivered('/shared', 'gone');
    assert.equal(receiver.of('/gone').length, count);
    // A redeploy that names it again gives it another chance.
    success(
      await api.upload(
        'projections',
        { 'Totals.cs': totals() },
        {
          projectionId: gone.id,
          config: JSON.stringify({ webhook: { url: `${receiver.url}/gone`, isolateSecret: true } }),
        },
      ),
      202,
    );
    await until(
      async () =>
        (await api.read<{ status: string; build?: object }>(`/projections/${gone.id}/status`)).status === 'compiled',
    );
    await api.live(gone.id);
    assert.equal((await webhook()).disabledAt, undefined);
    verify(await delivered('/gone', 'again'), gone.secret);
  });

  await t.test(
    'one that a later deployment adds gets what comes after it, also where the process is killed before its first delivery',
    async () => {
      const { projectionId } = success(await api.upload('projections', { 'Totals.cs': totals() }), 202).json<{
        projectionId: string;
      }>();
      await api.compiled('projections', projectionId);
      await api.live(projectionId);
      await add('later');
      const before = (await api.notifications(projectionId, 1)).at(-1)?.sequence ?? 0;
      assert.ok(before > 0);
      receiver.statuses.set('/later', 503);
      success(
        await api.upload(
          'projections',
          { 'Totals.cs': totals() },
          { projectionId, config: JSON.stringify({ webhook: { url: `${receiver.url}/later` } }) },
        ),
        202,
      );
      await service.kill();
      receiver.statuses.delete('/later');
      service = await startService(t, { dataDirectory });
      api = new Api(service);
      await api.compiled('projections', projectionId);
      await api.live(projectionId);
      const first = await delivered('/later', 'later');
      assert.ok(first.record.sequence > before);
      assert.deepEqual(
        receiver.of('/later').filter(({ record }) => record.sequence <= before),
        [],
      );
    },
  );

  await t.test('private addresses are refused unless they are allowed', async () => {
    await service.stop();
    const strict = new Api(await startService(t, { dataDirectory, env: { WEBHOOK_ALLOW_PRIVATE: 'false' } }));
    const count = receiver.deliveries.length;
    for (const host of [
      '127.0.0.1',
      'localhost',
      '10.0.0.1',
      '192.168.1.1',
      '169.254.169.254',
      '[::1]',
      '[::ffff:7f00:1]',
      '2130706433',
      '0x7f.1',
      '0.0.0.0',
      '[fd00::1]',
      '100.64.0.1',
      'nothing.invalid',
    ])
      problem(
        await strict.upload(
          'projections',
          { 'Totals.cs': totals() },
          { config: JSON.stringify({ webhook: { url: `http://${host}:${new URL(receiver.url).port}/ssrf` } }) },
        ),
        400,
        'WEBHOOK_URL_REFUSED',
      );
    // What was uploaded while they were allowed is refused at the connect.
    const last = (await strict.notifications(shared.id, 1)).length;
    await strict.append('a-x', 'Added', { key: 'x', n: 1 });
    await strict.notifications(shared.id, last + 1);
    const failed = async (): Promise<number> => {
      const { text } = await strict.get('/metrics', AS_ADMIN);
      return Number(
        /^statefold_webhook_attempt_duration_seconds_count\{outcome="failed"\} (\d+)/m.exec(text)?.[1] ?? 0,
      );
    };
    await until(async () => (await failed()) > 0);
    assert.equal(receiver.deliveries.length, count);
  });
});
