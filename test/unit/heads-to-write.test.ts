import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { temporaryDirectory } from '../support/service.js';

const head = (version: number) => ({ version, type: 'a', timestamp: version });

test('a head that is about to be written is read from the store once, and is that of the last commit whenever it is asked for', async (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger: silentLogger });
  t.after(() => store.close());
  const section = store.section('acme');
  const tables = new PartitionTables(section);
  const read = t.mock.method(section, 'get');
  const readsOf = (work: () => void): number => {
    const before = read.mock.callCount();
    work();
    return read.mock.calls.slice(before).filter(({ arguments: [key] }) => key === 'ha-1').length;
  };
  tables.addCommit('a-1', head(1), 0, 10);
  // Rows that were written longer ago than the last two writes are read from the disk.
  for (let i = 0; i < 3; i++) {
    section.set('other', i);
    await section.flush();
  }
  tables.forgetHeads();
  const reads = readsOf(() => {
    assert.deepEqual(tables.headToWrite('a-1'), head(1));
    assert.deepEqual(tables.head('a-1'), head(1));
    tables.addCommit('a-1', head(3), 1, 11);
  });
  assert.equal(reads, 1);
  assert.deepEqual(tables.head('a-1'), head(3));

  // Kept while the row was not written yet, and written since.
  assert.deepEqual(tables.headToWrite('a-1'), head(3));
  await section.flush();
  tables.addCommit('a-1', head(4), 3, 12);
  await section.flush();
  assert.deepEqual(tables.head('a-1'), head(4));
  assert.deepEqual(tables.headToWrite('a-1'), head(4));
  assert.deepEqual(
    [...tables.commitOffsets('a-1', 0, 10)].map(([base, offset]) => [base, offset]),
    [
      [0, 10],
      [1, 11],
      [3, 12],
    ],
  );

  tables.erase('a-1', { aggregateType: 'a', offset: 13, timestamp: 13 });
  assert.equal(tables.headToWrite('a-1'), undefined);
  tables.erased('a-1');
  assert.equal(tables.head('a-1'), undefined);
});
