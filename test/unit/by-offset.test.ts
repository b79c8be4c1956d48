import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByOffset } from '../../src/log/journal/by-offset.js';

test('values are gone through in the order of their offsets, from any of them on, whatever the order in which they came', () => {
  const values = new ByOffset<string>();
  assert.equal(values.isEmpty, true);
  assert.deepEqual([...values.within(0, Infinity)], []);
  const offsets = [5_000_000_000, 2047, 3, 1024, 1023, 2048, 9_000];
  const within = (first: number, last: number): number[] => [...values.within(first, last)].map(([offset]) => offset);
  for (const [i, offset] of offsets.entries()) {
    values.set(offset, `value of ${offset}`);
    const known = offsets.slice(0, i + 1).sort((a, b) => a - b);
    assert.deepEqual(within(0, Infinity), known);
    for (const first of known)
      for (const last of known)
        assert.deepEqual(
          within(first, last),
          known.filter((one) => one >= first && one <= last),
        );
  }
  assert.equal(values.isEmpty, false);
  assert.deepEqual(within(1024, 2047), [1024, 2047]);
  assert.deepEqual(within(9_001, 10_000), []);
  assert.equal(values.get(2047), 'value of 2047');
  assert.equal(values.get(2046), undefined);
  values.set(2047, 'another');
  assert.deepEqual([...values.within(2000, 2047)], [[2047, 'another']]);
});
