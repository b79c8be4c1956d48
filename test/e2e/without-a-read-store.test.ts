// READ_STORE=none: all but SQL works, and a read store that is switched on later has what was appended before.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

test('without a read store', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory, env: { READ_STORE: 'none' } });
  let api = new Api(service);
  await api.deployProjection({ 'Totals.cs': totals() });
  for (let n = 1; n <= 3; n++) await api.append('a-1', 'Added', { key: 'k', n });

  await t.test('SQL and what is about the tables are refused for good, with the setting', async () => {
    for (const answer of [
      await api.post('/sql', { query: 'SELECT 1' }),
      await api.post('/sql?waitFor=1', { query: 'SELECT 1' }),
      await api.get('/admin/read-store', AS_ADMIN),
      await api.post('/admin/read-store/rebuild', undefined, AS_ADMIN),
      await api.request('DELETE', '/admin/read-store/rebuild', AS_ADMIN),
    ]) {
      assert.match(String(problem(answer, 501, 'READ_STORE_DISABLED').detail), /READ_STORE is none/);
    }
  });

  await t.test('it is ready without that part', async () => {
    const ready = success(await api.get('/health/ready'), 200);
    assert.doesNotMatch(JSON.stringify(ready), /readStore/);
  });

  await service.stop();
  service = await startService(t, { dataDirectory, env: { READ_STORE: 'clickhouse' } });
  api = new Api(service);
  await t.test('one that is switched on starts, and is not taken for one that is away', async () => {
    const seen = new Set<string>();
    await until(async () => {
      const { checks } = success(await api.get('/health/ready'), 200).json<{ checks: { readStore: string } }>();
      seen.add(checks.readStore);
      return checks.readStore === 'up';
    });
    assert.ok(!seen.has('down'), [...seen].join());
  });
  await t.test('one that is switched on has all of it', async () => {
    const counted = async (table: string): Promise<string> =>
      (await api.post('/sql', { query: `SELECT count() FROM ${table}`, format: 'TSV' })).text.trim();
    await until(async () => (await counted('events')) === '3');
    await until(async () => (await counted('notifications')) === '3');
    await until(async () => (await counted('projection_states FINAL')) === '1');
  });
});
