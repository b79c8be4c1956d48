// Records of the catalog as the first versions wrote them: without the members, the entities and the parts of artefacts that came since.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { ARTEFACTS_TOPIC } from '../../src/catalog/artefacts.js';
import type { Entities, EntityKind } from '../../src/catalog/catalog.js';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { Api, form, success, withoutMoving } from '../support/api.js';
import { Receiver } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import { openCatalog } from '../support/ground.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

/** What has always been there of each kind; all else came later, or is absent until it is needed. */
const FIRST = {
  tenant: ['tenantId', 'name', 'createdAt', 'partitions', 'webhookSecrets'],
  key: ['keyId', 'tenantId', 'hash', 'prefix', 'createdAt'],
  reducer: ['tenantId', 'reducerId', 'status', 'createdAt', 'compiledAt', 'artefactId', 'discovered'],
  binding: ['tenantId', 'aggregateType', 'reducerId', 'className', 'boundAt', 'generation'],
  projection: [
    ...['tenantId', 'projectionId', 'status', 'createdAt', 'compiledAt', 'artefactId', 'discovered'],
    ...['revision', 'sse', 'webhook'],
  ],
} as const satisfies Partial<Record<EntityKind, readonly string[]>>;

const only = <T extends object>(value: T, names: readonly string[]): T =>
  Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name))) as T;

/** The first endpoint of a projection was a part of it. */
async function intoProjections(catalog: FencedCatalog): Promise<void> {
  for (const { id, value } of catalog.list('endpoint', undefined)) {
    const { url = '', isolated, secrets } = value;
    await catalog.update('projection', id, (projection) => ({ ...projection, webhook: { url, isolated, secrets } }));
    await catalog.remove('endpoint', id);
  }
}

test('records without what came since mean what they meant', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const receiver = await Receiver.open(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  const reducerId = await api.deployReducer({ 'Tally.cs': tally('tally') });
  const config = JSON.stringify({ webhook: { url: `${receiver.url}/hook` }, isolateSecret: true });
  const uploaded = await api.request('POST', '/projections/upload?waitSeconds=30', {
    raw: form({ 'Totals.cs': totals() }, { config }),
  });
  const { projectionId, live, notifications } = success(uploaded, 202).json<{
    projectionId: string;
    live?: object;
    notifications: { webhook: { secret: string } };
  }>();
  assert.ok(live !== undefined, uploaded.text);
  for (let n = 1; n < 4; n++) await api.append('tally-1', 'Added', { key: 'x', n });
  await until(() => receiver.of('/hook').length === 3);
  // The cursor of the endpoint is stored a moment after.
  await until(
    async () =>
      (await api.read<{ through: number }>(`/webhooks/endpoints/${projectionId}`)).through >=
      ((await api.notifications(projectionId, 3)).at(-1)?.sequence ?? Infinity),
  );
  const answers = async (): Promise<unknown> =>
    withoutMoving(
      await Promise.all(
        [
          '/auth/whoami',
          '/reducers',
          '/projections',
          `/projections/${projectionId}/status`,
          `/projections/${projectionId}/revisions`,
          `/projections/${projectionId}/states`,
          '/aggregate-types',
          '/aggregate-types/tally/history',
          '/aggregate-types/tally/tally-1/state',
          '/state-types',
        ].map(async (path) => [path, await api.read<unknown>(path)]),
      ),
    );
  const before = await answers();
  const used = (await api.read<{ storageBytes?: number }>('/usage')) as object;
  await service.stop();

  const log = new LmdbLog({ path: join(dataDirectory, 'log') });
  const catalog = await openCatalog(t, log, 'an-earlier-version');
  await intoProjections(catalog);
  const artefacts: string[] = [];
  const strip = async <K extends keyof typeof FIRST>(kind: K): Promise<void> => {
    for (const { id } of catalog.list(kind, undefined))
      await catalog.update(kind, id, (value: Entities[K]) => only(value, FIRST[kind]));
  };
  for (const kind of ['tenant', 'key', 'reducer', 'binding', 'projection'] as const) await strip(kind);
  for (const kind of ['reducer', 'projection'] as const)
    for (const { value } of catalog.list(kind, undefined)) artefacts.push(value.artefactId);
  assert.equal(artefacts.length, 2);
  for (const artefactId of artefacts) {
    assert.ok((await catalog.artefacts.get(artefactId, 'types')) !== undefined);
    await log.append({ topic: ARTEFACTS_TOPIC, partition: 0 }, [
      { key: Buffer.from(`${artefactId}/types/0`), value: null },
    ]);
  }
  await catalog.close();
  await log.close();

  service = await startService(t, { dataDirectory });
  api = new Api(service);
  assert.deepEqual(await answers(), before);
  assert.deepEqual(Object.keys(await api.read<object>('/usage')), Object.keys(used));
  assert.equal((await api.append('tally-1', 'Added', { key: 'x', n: 4 })).version, 4);
  await until(() => receiver.of('/hook').length === 4);
  const fourth = receiver.of('/hook')[3];
  new Webhook(notifications.webhook.secret).verify(fourth?.body ?? '', { ...fourth?.headers });
  assert.deepEqual(fourth?.record.state, { total: 10 });

  await t.test('and go on: a further revision, the first one again, another binding, a changed endpoint', async () => {
    const isLive = (revision: number): Promise<void> =>
      until(
        async () =>
          (await api.read<{ live?: { revision: number } }>(`/projections/${projectionId}/status`)).live?.revision ===
          revision,
      );
    const total = async (): Promise<unknown> =>
      (await api.read<{ states: { state: unknown }[] }>(`/projections/${projectionId}/states`)).states[0]?.state;
    success(await api.upload('projections', { 'Totals.cs': totals('Totals', 2) }, { projectionId }), 202);
    await isLive(2);
    assert.deepEqual(await total(), { total: 20 });
    success(await api.post(`/projections/${projectionId}/rollback`), 202);
    await isLive(3);
    assert.deepEqual(await total(), { total: 10 });
    const second = await api.deployReducer({ 'Tally.cs': tally('tally', 2) });
    const { generations } = await api.read<{ generations: { reducerId: string }[] }>('/aggregate-types/tally/history');
    assert.deepEqual(
      generations.map((one) => one.reducerId),
      [second, reducerId],
    );
    success(await api.patch(`/webhooks/endpoints/${projectionId}`, { url: `${receiver.url}/moved` }), 200);
    await api.append('tally-1', 'Added', { key: 'moved', n: 1 });
    await until(() => receiver.of('/moved').some(({ record }) => record.key === 'moved'));
    success(await api.delete(`/projections/${projectionId}`), 204);
    assert.deepEqual(await api.read('/webhooks/endpoints'), { endpoints: [] });
  });
});
