// Invariants 18 and 19: a tenant asks by SQL for the first time while the disk is full. It is refused, nothing of the read store is lost by
// that, and when there is room again it is answered, also by the next start.
import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { noJail } from '../hostile/escape-world.js';
import { AS_ADMIN, startService, until, type Answer, type Service } from '../support/service.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';

const EVENTS = 20;

test('a full disk under a statement', { skip: noJail }, async (t) => {
  const disk = smallDisk(t, 384);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const dataDirectory = join(disk, 'data');
  const start = (): Promise<Service> => startService(t, { readStore: true, dataDirectory });
  const ask = (of: Service): Promise<Answer> => of.post('/sql', { query: 'SELECT count() FROM events', format: 'TSV' });
  const isAnswered = async (of: Service): Promise<void> =>
    until(async () => {
      const { status, text } = await ask(of);
      return status === 200 && text === `${EVENTS}\n`;
    });
  const before = await start();
  for (let i = 0; i < EVENTS; i++)
    assert.equal((await before.post('/events', { aggregateId: `a-${i}`, eventType: 'Added', data: {} })).status, 201);
  await until(async () => {
    const { text } = await before.get('/metrics', AS_ADMIN);
    return text.includes(`statefold_read_store_rows_total{table="events"} ${EVENTS}\n`);
  });
  const balloon = join(disk, 'balloon');
  fill(balloon);
  for (let i = 0; i < 3; i++) {
    const { status, text } = await ask(before);
    assert.equal(status, 503, text);
    assert.match(text, /the disk of the service is full/);
  }
  const engine = join(dataDirectory, 'clickhouse', 'engine');
  const definitions = readdirSync(engine, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.sql'),
  );
  assert.ok(definitions.length > 4, definitions.join());
  assert.deepEqual(
    definitions.filter((path) => statSync(join(engine, path)).size === 0),
    [],
  );
  rmSync(balloon);
  await isAnswered(before);
  await before.kill();
  await isAnswered(await start());
});
