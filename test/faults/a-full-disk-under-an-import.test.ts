// Invariants 1 and 9: the disk of the data directory is full while a tenant is imported, and the log is elsewhere. The import is refused
// with a retryable 503, the service lives, nothing of it stays, and it is taken when there is space again.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { IdSets } from '../../src/store/id-set.js';
import { admin, Api, newTenant, problem, success } from '../support/api.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { startService } from '../support/service.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';
import { importLines } from '../support/transfer.js';

const MEGABYTES = 80;
const EVENTS = 3_000;

test('which ids were there is not kept on a full disk', async (t) => {
  const disk = smallDisk(t, MEGABYTES);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const sets = new IdSets(join(disk, 'imports'));
  const ids = sets.open();
  t.after(() => ids.close());
  const [first, ...others] = Array.from({ length: EVENTS }, () => Buffer.from(randomUUID()));
  assert.ok(first !== undefined);
  assert.equal(await ids.add(first), true);
  assert.equal(await ids.add(first), false);
  fill(join(disk, 'balloon'));
  const added = await Promise.allSettled(others.map((id) => ids.add(id)));
  const refused = added.filter((one) => one.status === 'rejected');
  assert.ok(refused.length > 0);
  for (const { reason } of refused) assert.match((reason as Error).message, /the disk is full/);
  assert.throws(() => sets.open(), { code: 'UNAVAILABLE' });
  rmSync(join(disk, 'balloon'));
  const again = sets.open();
  assert.equal(await again.add(first), true);
  await again.close();
});

test('an import with the log on Kafka', { skip: needsKafka }, async (t) => {
  const disk = smallDisk(t, MEGABYTES);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const { brokers } = await kafkaForTests();
  const service = await startService(t, {
    dataDirectory: disk,
    env: { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: freshPrefix(), LOG_LEVEL: 'fatal' },
  });
  const key = await newTenant(service, { tenantId: 'moved' });
  const lines = Array.from({ length: EVENTS }, (_, i) =>
    JSON.stringify({
      specversion: '1.0',
      id: randomUUID(),
      source: '/elsewhere',
      type: 'Noted',
      subject: `note-${i}`,
      time: '2026-01-31T09:30:00.123Z',
      aggregateversion: 1,
      data: { n: i },
    }),
  );
  const balloon = join(disk, 'balloon');
  fill(balloon);
  assert.match(
    problem(await importLines(service, 'moved', lines), 503, 'UNAVAILABLE').detail,
    /the disk is full: \d+ bytes/,
  );
  const tenant = success(await admin(service, 'GET', '/admin/tenants/moved'), 200);
  assert.equal(tenant.json()['importingSince'], undefined, 'it is open again');
  rmSync(balloon);
  assert.equal(success(await importLines(service, 'moved', lines), 200).json()['events'], EVENTS);
  await new Api(service, key).append('note-0', 'Noted');
});
