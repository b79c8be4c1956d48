// A log that was restored goes on beside a ClickHouse server that has more of it: what came after the backup is no more.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { Api, success } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

test('a server that has rows of before a restore has those of the restored log alone', async (t) => {
  // The engine of another service is the server.
  const access = await new Api(await startService(t, { readStore: true })).readStoreAccess();
  const env = {
    CLICKHOUSE_URL: access.url,
    CLICKHOUSE_USER: access.user,
    CLICKHOUSE_PASSWORD: access.password,
    CLICKHOUSE_DATABASE: 'restored',
  };
  const rows = async (): Promise<string> => {
    const answer = await fetch(`${access.url}/?database=restored`, {
      method: 'POST',
      headers: { 'X-ClickHouse-User': access.user, 'X-ClickHouse-Key': access.password },
      body: "SELECT splitByChar('-', aggregate_id)[1] AS kind, count() FROM events FINAL GROUP BY kind ORDER BY kind FORMAT TSV",
    });
    return answer.text();
  };
  const append = async (api: Api, kind: string, count: number): Promise<void> => {
    for (let n = 0; n < count; n++)
      success(await api.post('/events', { aggregateId: `${kind}-${n}`, eventType: 'Noted', data: { n } }), 201);
  };
  const [data, folder] = [temporaryDirectory(t), join(temporaryDirectory(t), 'backup')];
  const before = await startService(t, { readStore: true, dataDirectory: data, env });
  await append(new Api(before), 'kept', 5);
  const taken = await statefold({ STATEFOLD_DATA_DIR: data }, data, 'backup', folder);
  assert.equal(taken.code, 0, taken.err);
  await append(new Api(before), 'lost', 10);
  await until(async () => (await rows()) === 'kept\t5\nlost\t10\n');
  await before.stop();

  const restored = join(temporaryDirectory(t), 'data');
  const again = await statefold({ STATEFOLD_DATA_DIR: restored }, data, 'restore', folder);
  assert.equal(again.code, 0, again.err);
  for (const [start, count] of [
    ['first', 20],
    ['second', 3],
  ] as const) {
    const service = await startService(t, { readStore: true, dataDirectory: restored, env });
    await append(new Api(service), start, count);
    const all = start === 'first' ? 'first\t20\nkept\t5\n' : 'first\t20\nkept\t5\nsecond\t3\n';
    await until(async () => (await rows()) === all).catch(async () => assert.equal(await rows(), all));
    await service.stop();
  }
});
