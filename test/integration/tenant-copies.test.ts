// Copies of single tenants' rows, which statements of theirs are given.
import assert from 'node:assert/strict';
import test from 'node:test';
import { TenantCopies } from '../../src/read-store/embedded/tenant-copies.js';
import { openStore, SCHEMAS, startEngine } from './read-store-fixture.js';

const IDLE_MS = 1_000;

test('a copy that nobody asks for is removed, one that is asked for stays, and is made anew when it is wanted', async (t) => {
  const engine = startEngine(t);
  await engine.ready(60_000);
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
