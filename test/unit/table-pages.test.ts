import assert from 'node:assert/strict';
import test from 'node:test';
import { pagesOf, sampleOf } from '../../src/inspection/table-pages.js';

const TABLE = Array.from({ length: 1234 }, (_, i) => i);
const read = (after: number | undefined): number[] => TABLE.filter((one) => after === undefined || one > after);
const between = (): Promise<void> => Promise.resolve();

test('a table is read to its end, a page at a time', async () => {
  const found: number[] = [];
  let pagesRead = 0;
  let waits = 0;
  for await (const page of pagesOf(read, () => Promise.resolve(void waits++))) {
    found.push(...page);
    pagesRead++;
  }
  assert.deepEqual(found, TABLE);
  assert.ok(pagesRead > 1 && waits === pagesRead - 1);
  const none: number[] = [];
  for await (const page of pagesOf<number>(() => [], between)) none.push(...page);
  assert.deepEqual(none, []);
});

test('a sample is the same for the same seed, has each entry once, and none is favoured', async () => {
  const sample = (count: number, seed: number): Promise<number[]> => sampleOf(pagesOf(read, between), count, seed);
  assert.deepEqual(await sample(50, 7), await sample(50, 7));
  assert.notDeepEqual(await sample(50, 7), await sample(50, 8));
  assert.equal(new Set(await sample(50, 7)).size, 50);
  assert.deepEqual(
    (await sample(5000, 1)).sort((a, b) => a - b),
    TABLE,
  );
  let early = 0;
  for (let seed = 0; seed < 60; seed++)
    early += (await sample(20, seed)).filter((one) => one < TABLE.length / 2).length;
  // Of 1,200 half, give or take far more than chance does.
  assert.ok(early > 450 && early < 750, String(early));
});

test('a page ends with what is large, and all pages have each entry once', async () => {
  const sizes = Array.from({ length: 40 }, (_, i) => (i % 3 === 0 ? 700_000 : 10));
  const pages: (readonly number[])[] = [];
  let waits = 0;
  const rowsAfter = (after: number | undefined): number[] =>
    Array.from(sizes.keys()).filter((i) => after === undefined || i > after);
  const paged = pagesOf(
    rowsAfter,
    () => Promise.resolve(void waits++),
    (i) => sizes[i] ?? 0,
  );
  for await (const page of paged) pages.push(page);
  assert.deepEqual(pages.flat(), Array.from(sizes.keys()));
  for (const page of pages) assert.ok(page.reduce((sum, i) => sum + (sizes[i] ?? 0), 0) <= 1024 * 1024 + 700_000);
  assert.ok(waits >= pages.length - 1 && pages.length >= 7);
});
