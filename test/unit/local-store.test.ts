import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { silentLogger as logger } from '../../src/core/logger.js';
import { LocalStore, SEPARATOR } from '../../src/tasks/store/local-store.js';
import { PartitionTables } from '../../src/tasks/store/partition-tables.js';
import { temporaryDirectory } from '../support/service.js';

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
/** Around the length at which lmdb encodes keys in another way, and of characters whose order is not that of UTF-16. */
const id = fc.string({ unit: fc.constantFrom('a', 'z', '-', '\u00e9', '\uffee', '\u{1f600}'), minLength: 1, maxLength: 90 });

test('keys of every length are found by ranges, in the order of their bytes, before and after they are written', async (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger });
  t.after(() => store.close());
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(id, { maxLength: 12 }), fc.uniqueArray(id, { maxLength: 12 }), id, async (written, fresh, cut) => {
      const section = store.section(`tenant-${run++}`);
      for (const key of written) section.set(`h${key}`, key);
      await section.flush();
      for (const key of fresh) section.set(`h${key}`, key);
      section.set('i', 'another table');
      const sorted = [...new Set([...written, ...fresh])].sort(byBytes);
      const found = (from: string, reverse = false): unknown[] => [...section.range(from, 'i', { reverse })].map(([key, value]) => (assert.equal(key, `h${String(value)}`), value));
      assert.deepEqual(found('h'), sorted);
      assert.deepEqual(found('h', true), sorted.toReversed());
      assert.deepEqual(found(`h${cut}${SEPARATOR}`), sorted.filter((key) => byBytes(key, cut + SEPARATOR) >= 0));
      await section.close();
    }),
    { numRuns: 150 },
  );
});

test('states of keys are paged by prefix, whatever their length', async (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger });
  t.after(() => store.close());
  const tables = new PartitionTables(store.section('tenant'));
  const row = { state: null, sequence: 1, lastModified: 1, fault: undefined, origin: { eventId: '', aggregateId: '', aggregateType: '', version: 1 } };
  const keys = ['a', 'a\u{1f3ff}', 'a\u{1f3ff}b', 'a\uffff', 'a'.repeat(40), 'a'.repeat(256), 'b'].sort(byBytes);
  for (const [i, key] of keys.entries()) {
    if (i % 2 === 0) await tables.section.flush();
    for (const classIndex of [0, 1]) tables.setKeyState('0190a0a0-0000-7000-8000-000000000000', 1, key, classIndex, row);
  }
  const paged = (prefix: string): string[] => {
    const found: string[] = [];
    for (let cursor: readonly [string, number] | undefined; ; ) {
      const [next] = tables.keyStates('0190a0a0-0000-7000-8000-000000000000', 1, prefix, cursor);
      if (next === undefined) return found;
      cursor = [next[0], next[1]];
      found.push(`${next[0]}/${next[1]}`);
    }
  };
  for (const prefix of ['', 'a', 'a\u{1f3ff}', 'a\uffff', 'aaaa', 'b', 'c'])
    assert.deepEqual(paged(prefix), keys.filter((key) => key.startsWith(prefix)).flatMap((key) => [`${key}/0`, `${key}/1`]), prefix);
  await tables.section.close();
});
