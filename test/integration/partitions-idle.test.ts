// A tenant of several partitions that nobody uses is closed everywhere; an append to any of them wakes its projections too.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { partitionOf } from '../../src/core/murmur2.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { changesTopic } from '../../src/log/topics.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { storedName } from '../support/stored-name.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { AS_ADMIN, ROOT, until } from '../support/service.js';

const PARTITIONS = 8;
const COUNT = `public record Count(int Events);
public class CountProjection : IProjection<Count>
{
    public string? ResolveKey(Event e) => "all";
    public Count? Apply(Count? s, Event e) => new((s?.Events ?? 0) + 1);
}`;
const codecs = loadCodecs(join(ROOT, 'schemas', 'avro'));
/** An aggregate of each partition. */
const IDS = Array.from(
  { length: PARTITIONS },
  (_, partition) =>
    Array.from({ length: 1000 }, (_, n) => `a-${n}`).find((id) => partitionOf(id, PARTITIONS) === partition) ?? '',
);

test('an append to a partition of one process wakes the tenant in another', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2, env: { TENANT_IDLE_MS: '1000', STANDBYS: 'false' } });
  const service = await world.start();
  await until(async () => (await service.request('DELETE', '/admin/tenants/default', AS_ADMIN)).status === 204);
  assert.equal(
    (await service.post('/admin/tenants', { tenantId: 'default', partitions: PARTITIONS }, AS_ADMIN)).status,
    201,
  );
  await world.end('SIGTERM');
  await world.start();
  const form = new FormData();
  form.append('file', new Blob([COUNT]), 'Count.cs');
  await until(async () => (await world.at(0).request('POST', '/projections/upload', { raw: form })).status === 202);
  for (const aggregateId of IDS)
    await until(
      async () => (await world.at(0).post('/events', { aggregateId, eventType: 'Made', data: {} })).status === 201,
    );

  const log = await world.openLog();
  t.after(() => log.close());
  const changes = { topic: changesTopic(await storedName(world.at(0))), partition: 0 };
  const owns = async (process: number, id: string): Promise<boolean> =>
    (await world.at(process).get(`/events/${id}`, { asPeer: true })).status === 200;
  const primary = (await owns(0, IDS[0] ?? '')) ? 0 : 1;
  let elsewhere: string | undefined;
  for (const id of IDS) if (await owns(1 - primary, id)) elsewhere = id;
  assert.ok(elsewhere !== undefined, 'the other process owns no partition');

  const active = async (process: number): Promise<number> =>
    Number(/^statefold_active_tenants (\d+)/m.exec((await world.at(process).get('/metrics', AS_ADMIN)).text)?.[1]);
  await until(async () => (await active(0)) + (await active(1)) === 0, 60_000);
  const before = await log.endOffset(changes);
  assert.equal(
    (await world.at(1 - primary).post('/events', { aggregateId: elsewhere, eventType: 'Made', data: {} })).status,
    201,
  );
  // Not asked for over HTTP, which would wake it too.
  await until(async () =>
    (await log.read(changes, before, 1024 * 1024)).records.some(
      ({ value }) => value !== null && codecs.changes.decode(value)?.body.kind === 'Change',
    ),
  );
  await until(async () => (await active(primary)) === 1);
});
