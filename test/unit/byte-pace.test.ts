import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BytePace } from '../../src/core/byte-pace.js';

test('so many bytes are moved at once, and then so many a second', () => {
  let now = 0;
  const pace = new BytePace(1_000, 100, () => now);
  assert.equal(pace.msAfter(600), 0);
  assert.equal(pace.msAfter(400), 0);
  let moved = 1_000;
  for (; now < 60_000; moved += 50) now += pace.msAfter(50);
  assert.ok(moved <= 1_000 + 100 * 60 + 100, `${moved} in a minute`);
  now += 10_000;
  assert.equal(pace.msAfter(1_000), 0);
  assert.equal(pace.msAfter(100), 1_000);
});
