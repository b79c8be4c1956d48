// What was erased is in no byte of the data directory any more, once the cleaner came by and the service was started again; what others
// have is all there.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { environments } from '../../src/app/open-log.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { markForRewrite } from '../../src/log/embedded/rewrite-environment.js';
import { isErasable } from '../../src/log/topics.js';
import { Api, success } from '../support/api.js';
import { sample, startService, temporaryDirectory, until } from '../support/service.js';

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '' } = sample('bank');

/** What a read of the folder or file answers; nothing if it is gone: ClickHouse removes and renames parts meanwhile. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Files below the folder that hold one of the texts, by the text. */
function holders(folder: string, texts: readonly string[]): string[] {
  return (unlessGone(() => readdirSync(folder, { withFileTypes: true })) ?? []).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return holders(path, texts);
    const bytes = entry.isFile() ? unlessGone(() => readFileSync(path)) : undefined;
    return texts.filter((text) => bytes?.includes(text)).map((text) => `${path}: ${text}`);
  });
}

/** What the service does by itself once a minute. */
async function cleaned(dataDirectory: string): Promise<void> {
  const { log: inLog, store: inStore } = environments({ dataDirectory });
  const log = new LmdbLog({
    path: inLog.path,
    onDropped: (topic) => {
      if (isErasable(topic)) for (const one of [inLog, inStore]) markForRewrite(one);
    },
  });
  await log.clean();
  await log.close();
}

test('nothing of an erased aggregate is in any file', { timeout: 300_000 }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  let api = new Api(service);
  await api.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
  const canary = (): string => randomUUID();
  const [name, meta, inTransaction, correlation, key, kept] = [
    canary(),
    canary(),
    canary(),
    canary(),
    canary(),
    canary(),
  ];
  const gone = [name, meta, inTransaction, correlation, key];
  const asked = async (statement: string): Promise<{ readonly ok: boolean; readonly text: string }> => {
    const { url, user, password, database } = await api.readStoreAccess();
    const answer = await fetch(`${url}/?database=${database}`, {
      method: 'POST',
      body: statement,
      headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
    });
    return { ok: answer.ok, text: await answer.text() };
  };
  const sql = async (statement: string): Promise<string> => {
    const { ok, text } = await asked(statement);
    assert.ok(ok, text);
    return text;
  };
  // The service serves before its read store has its tables.
  for (const table of ['events', 'aggregate_states']) await until(async () => (await asked(`DESCRIBE ${table}`)).ok);
  // In place of eight minutes.
  for (const table of ['events', 'aggregate_states'])
    await sql(
      `ALTER TABLE ${table} MODIFY SETTING old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1`,
    );
  // Neighbours on the same pages, before, between and behind.
  for (let i = 0; i < 40; i++) {
    await api.append(`account-${i % 7}`, i < 7 ? 'Opened' : 'Deposited', { owner: `${kept}-${i}`, cents: 1 });
    if (i % 5 === 0)
      await api.append(
        'account-ann',
        i === 0 ? 'Opened' : 'Deposited',
        { owner: name, cents: 1, note: name.repeat(i + 1) },
        { metadata: { who: meta }, correlationId: correlation },
        i === 0 ? { 'idempotency-key': key } : {},
      );
  }
  success(
    await api.post('/events/transaction', {
      appends: [
        { aggregateId: 'account-ann', events: [{ eventType: 'Deposited', data: { cents: 1, note: inTransaction } }] },
        { aggregateId: 'account-1', events: [{ eventType: 'Deposited', data: { cents: 1, note: `${kept}-t` } }] },
      ],
    }),
    201,
  );
  success(await api.get('/aggregate-types/account/account-ann/state'), 200);
  const counted = (id: string): Promise<string> => sql(`SELECT count() FROM events WHERE aggregate_id = '${id}'`);
  await until(async () => (await counted('account-ann')).trim() === '9', 60_000);
  const found = holders(dataDirectory, gone);
  for (const text of gone)
    assert.ok(
      found.some((line) => line.endsWith(text)),
      `${text} is found while it is there`,
    );

  success(await api.request('DELETE', '/aggregates/account-ann'), 202);
  await until(
    async () =>
      success(await api.delete('/aggregates/account-ann'), 202).json<{ status: string }>().status === 'erased',
  );
  await until(async () => (await counted('account-ann')).trim() === '0', 60_000);
  const before = await api.read('/events/account-1');
  await service.stop();

  await cleaned(dataDirectory);
  service = await startService(t, { readStore: true, dataDirectory });
  api = new Api(service);
  assert.deepEqual(await api.read('/events/account-1'), before);
  await until(async () => (await asked('DESCRIBE events')).ok);
  assert.equal((await counted('account-1')).trim(), '7');
  // ClickHouse takes its time with parts that were replaced.
  await until(() => holders(join(dataDirectory, 'clickhouse'), gone).length === 0, 120_000);
  await service.stop();
  assert.deepEqual(holders(dataDirectory, gone), []);
  assert.ok(holders(dataDirectory, [`${kept}-t`]).length > 0);
});
