import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
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
