import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByOffset } from '../../src/log/journal/by-offset.js';
import { seeded } from '../support/load.js';

test('rows are gone through in the order of their offsets, from any of them on, whatever the order in which they came', () => {
  const rows = new ByOffset(2);
  assert.equal(rows.isEmpty, true);
  assert.deepEqual([...rows.within(0, Infinity)], []);
  const offsets = [5_000_000_000, 2047, 3, 1024, 1023, 2048, 0, 9_000, 2046, 2045, 2044, 2043];
  const within = (first: number, last: number): number[] => [...rows.within(first, last)].map(([offset]) => offset);
  for (const [i, offset] of offsets.entries()) {
    rows.set(offset, [offset + 0.5, -offset]);
    const known = offsets.slice(0, i + 1).sort((a, b) => a - b);
    assert.deepEqual(within(0, Infinity), known);
    assert.deepEqual(rows.offsets, known);
    for (const one of offsets) {
      assert.equal(rows.has(one), known.includes(one));
      assert.deepEqual(rows.get(one), known.includes(one) ? [one + 0.5, -one] : undefined);
    }
    for (const first of known)
      for (const last of known)
        assert.deepEqual(
          within(first, last),
          known.filter((one) => one >= first && one <= last),
        );
  }
  assert.equal(rows.isEmpty, false);
  assert.deepEqual(within(1024, 2044), [1024, 2043, 2044]);
  assert.deepEqual(within(9_001, 10_000), []);
  assert.deepEqual([rows.has(1), rows.get(4), rows.has(4_999_999_999)], [false, undefined, false]);
  rows.set(2047, [1, 2]);
  assert.deepEqual(
    [...rows.within(2047, 2048)],
    [
      [2047, [1, 2]],
      [2048, [2048.5, -2048]],
    ],
  );
});

test('offsets alone are kept too', () => {
  const rows = new ByOffset(0);
  for (let offset = 5000; offset >= 0; offset -= 2) rows.set(offset, []);
  assert.deepEqual(
    rows.offsets,
    Array.from({ length: 2501 }, (_, i) => 2 * i),
  );
  assert.deepEqual([rows.has(1024), rows.has(1025), rows.get(1024)], [true, false, []]);
});

const ORDERS: Readonly<Record<string, (i: number, random: () => number) => number>> = {
  'in order': (i) => 3 * i,
  'against it': (i) => 1e7 - 3 * i,
  'far apart': (i) => 1e6 * ((i * 7919) % 3000),
  'between others': (i) => (i < 1500 ? 10_000 * i : 10_000 * 511 + (3000 - i)),
  anywhere: (_, random) => Math.floor(4000 * random()),
};

for (const [name, offsetOf] of Object.entries(ORDERS))
  test(`thousands of rows are found, and take the room of their numbers: ${name}`, () => {
    const rows = new ByOffset(1);
    const model = new Map<number, number>();
    const random = seeded(7);
    for (let i = 0; i < 3000; i++) {
      const offset = offsetOf(i, random);
      rows.set(offset, [i]);
      model.set(offset, i);
    }
    const ascending = [...model.keys()].sort((a, b) => a - b);
    assert.deepEqual(rows.offsets, ascending);
    for (const [offset, i] of model) assert.deepEqual(rows.get(offset), [i]);
    assert.deepEqual(
      [...rows.within(ascending[700] as number, ascending[1800] as number)],
      ascending.slice(700, 1801).map((offset) => [offset, [model.get(offset)]]),
    );
    assert.ok(rows.room <= 2.1 * model.size, `room for ${rows.room} rows is had for ${model.size}`);
  });
