// Copies of single tenants' rows, which statements of theirs are given.
import assert from 'node:assert/strict';
import test from 'node:test';
import { TenantCopies, type TenantCopy } from '../../src/read-store/embedded/tenant-copies.js';
import { openStore, rowsOf, SCHEMAS, readyEngine } from './read-store-fixture.js';

const IDLE_MS = 1_000;

test('a copy that nobody asks for is removed, one that is asked for stays, and is made anew when it is wanted', async (t) => {
  const engine = await readyEngine(t);
  const store = openStore(t, engine);
  let now = 0;
  const copies = new TenantCopies({
    endpoint: () => engine.endpoint(),
    ensureSchema: () => store.ensureSchema(),
    schemaDirectory: SCHEMAS,
    idleMs: IDLE_MS,
    now: () => now,
  });
  const tables = async (): Promise<number> => {
    const endpoint = engine.endpoint();
    assert.ok(endpoint);
    const url = new URL(endpoint.url);
    url.searchParams.set('query', "SELECT count() FROM system.tables WHERE database = 'statefold_sql'");
    const answer = await fetch(url, {
      headers: { 'X-ClickHouse-User': endpoint.user, 'X-ClickHouse-Key': endpoint.password },
    });
    return Number(await answer.text());
  };
  const { tables: ofOne } = await copies.refresh('one');
  const ofEach = ofOne.length;
  await copies.refresh('other');
  assert.equal(await tables(), 2 * ofEach);
  now = IDLE_MS - 1;
  await copies.removeIdle();
  assert.equal(await tables(), 2 * ofEach, 'it is not idle yet');
  await copies.refresh('other');
  now = IDLE_MS;
  await copies.removeIdle();
  assert.equal(await tables(), ofEach);
  const [kept] = (await copies.refresh('other')).tables;
  await copies.refresh('one');
  assert.equal(await tables(), 2 * ofEach);
  now = 3 * IDLE_MS;
  // A statement has just begun: its files stay.
  const asking = copies.refresh('other');
  await copies.removeIdle();
  assert.equal((await asking).tables[0]?.uuid, kept?.uuid);
  assert.equal(await tables(), ofEach);
});

test('tables that others took the place of: the next copy is of the new ones, and the former stays for those who read it', async (t) => {
  const engine = await readyEngine(t);
  const store = openStore(t, engine);
  let now = 0;
  const copies = new TenantCopies({
    endpoint: () => engine.endpoint(),
    ensureSchema: () => store.ensureSchema(),
    schemaDirectory: SCHEMAS,
    idleMs: IDLE_MS,
    now: () => now,
  });
  const exec = async (sql: string): Promise<void> => {
    for await (const _ of await store.query(sql, 'Null'));
  };
  const insert = (table: string, id: string): Promise<void> =>
    exec(`INSERT INTO ${table} (tenant, aggregate_id, version) VALUES ('one', '${id}', 1)`);
  const readOf = async ({ tables }: TenantCopy): Promise<string[]> => {
    const name = await rowsOf<{ name: string }>(
      store,
      `SELECT name FROM system.tables WHERE uuid = '${tables.find(({ table }) => table === 'events')?.uuid ?? ''}'`,
    );
    const rows = await rowsOf<{ id: string }>(
      store,
      `SELECT aggregate_id AS id FROM statefold_sql.${name[0]?.name ?? 'none'} ORDER BY id`,
    );
    return rows.map(({ id }) => id);
  };
  await store.ensureSchema();
  for (const id of ['a', 'b', 'c']) await insert('events', id);
  const former = await copies.refresh('one');
  assert.deepEqual(await readOf(former), ['a', 'b', 'c']);
  await exec('CREATE TABLE events__rebuild AS events');
  // As many inserts as the former table had: numbers of blocks alone would tell no difference.
  for (const id of ['d', 'e', 'f']) await insert('events__rebuild', id);
  await exec('EXCHANGE TABLES events AND events__rebuild');
  const copy = await copies.refresh('one');
  assert.deepEqual(await readOf(copy), ['d', 'e', 'f']);
  assert.deepEqual(await readOf(former), ['a', 'b', 'c'], 'a statement may still read it');
  await insert('events', 'g');
  assert.deepEqual(await readOf(await copies.refresh('one')), ['d', 'e', 'f', 'g']);
  now = IDLE_MS - 1;
  await copies.refresh('one');
  now = IDLE_MS;
  await copies.removeIdle();
  await assert.rejects(readOf(former), 'it is gone');
  assert.deepEqual(await readOf(copy), ['d', 'e', 'f', 'g']);
});
