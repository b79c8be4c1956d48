import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { pastAll, SEPARATOR } from '../../src/store/keys.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { TABLES } from '../../src/store/tables.js';
import { temporaryDirectory } from '../support/service.js';

test('a key that is used again past the window is remembered from there', (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger: silentLogger });
  t.after(() => store.close());
  const tables = new PartitionTables(store.section('acme'));
  const at = (offset: number) => ({ offset, requestHash: Buffer.from([1]) });
  tables.setCommand('a-1', 'key', at(10));
  tables.setCommand('a-1', 'other', at(11));
  tables.setCommand('a-1', 'key', at(500));
  tables.forgetCommands(200);
  assert.equal(tables.command('a-1', 'key')?.offset, 500);
  assert.equal(tables.command('a-1', 'other'), undefined);
  tables.forgetCommands(501);
  assert.equal(tables.command('a-1', 'key'), undefined);
});

test('commands of an erased aggregate go in slices, also after a restart in between, and others stay', async (t) => {
  const path = join(temporaryDirectory(t), 'store');
  const opened = (): { store: LocalStore; tables: PartitionTables } => {
    const store = new LocalStore({ path, logger: silentLogger });
    return { store, tables: new PartitionTables(store.section('acme')) };
  };
  const first = opened();
  const at = (offset: number) => ({ offset, requestHash: Buffer.from([1]) });
  for (let i = 0; i < 25; i++) first.tables.setCommand('a-1', `key-${i}`, at(i));
  first.tables.setCommand('a-10', 'key', at(25));
  first.tables.setCommand('a-2', 'key', at(26));
  let told = 0;
  first.tables.erasedRows.onAdded(() => told++);
  for (const aggregateId of ['a-1', 'a-3'])
    first.tables.erase(aggregateId, { aggregateType: 'a', offset: 27, timestamp: 1 });
  assert.equal(told, 1);
  assert.equal(first.tables.erasedRows.removeSome(10), true);
  const left = (tables: PartitionTables): number =>
    tables.section.keys(`${TABLES.commands}a-1${SEPARATOR}`, pastAll(`${TABLES.commands}a-1${SEPARATOR}`), 100).length;
  assert.equal(first.tables.command('a-1', 'key-24'), undefined);
  assert.equal(left(first.tables), 15);
  await first.tables.section.flush();
  await first.store.close();

  const { store, tables } = opened();
  t.after(() => store.close());
  for (let slices = 0; tables.erasedRows.removeSome(10); slices++)
    assert.ok(slices < 2, 'two slices are left, and none removes nothing');
  assert.equal(left(tables), 0);
  assert.equal(tables.command('a-10', 'key')?.offset, 25);
  tables.forgetCommands(26);
  assert.equal(tables.command('a-10', 'key'), undefined);
  assert.equal(tables.command('a-2', 'key')?.offset, 26);
});

test('where the commits of an erased aggregate lay goes in slices, and what is said of it later stays', (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger: silentLogger });
  t.after(() => store.close());
  const tables = new PartitionTables(store.section('acme'));
  const commits = 1000;
  for (const aggregateId of ['a-1', 'a-10'])
    for (let i = 0; i < commits; i++)
      tables.addCommit(aggregateId, { version: i + 1, type: 'a', timestamp: 1 }, i, 2 * i);
  const rows = (aggregateId: string): number => {
    const base = `${TABLES.commits}${aggregateId}${SEPARATOR}`;
    return tables.section.keys(base, pastAll(base), commits).length;
  };
  const before = rows('a-1');
  assert.ok(before > 40, `${before} rows`);
  tables.addControl('a-1', 5000);
  tables.erase('a-1', { aggregateType: 'a', offset: 6000, timestamp: 1 });
  assert.deepEqual(
    [...tables.recordsOf('a-1')],
    [5000, ...Array.from({ length: commits }, (_, i) => 2 * (commits - 1 - i))],
    'until its records are out of the log they are found',
  );
  assert.equal(tables.erasedRows.removeSome(20), false);
  tables.erased('a-1');
  assert.deepEqual([...tables.recordsOf('a-1')], []);
  assert.equal(rows('a-1'), before, 'none goes on the turn of the fold');
  tables.addControl('a-1', 7000);
  assert.equal(tables.erasedRows.removeSome(20), true);
  assert.equal(rows('a-1'), before - 20);
  while (tables.erasedRows.removeSome(20));
  assert.equal(rows('a-1'), 0);
  assert.deepEqual([...tables.recordsOf('a-1')], [7000]);
  assert.equal(rows('a-10'), before);
});
