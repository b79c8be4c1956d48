import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { Tail } from '../../src/feed/tail.js';

interface Item {
  readonly offset: number;
  readonly size: number;
}
const tailOf = (maxBytes: number, start: number): Tail<Item> =>
  new Tail<Item>({ positionOf: ({ offset }) => offset, bytesOf: ({ size }) => size }, maxBytes, start);

it('a tail gives all from an offset on, or says that it can not', () => {
  const gaps = fc.array(fc.record({ gap: fc.integer({ min: 1, max: 3 }), size: fc.integer({ min: 1, max: 50 }) }), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(
      fc.nat(20),
      fc.integer({ min: 1, max: 400 }),
      gaps,
      fc.nat(120),
      fc.integer({ min: 1, max: 30 }),
      (start, maxBytes, steps, from, limit) => {
        const tail = tailOf(maxBytes, start);
        const all: Item[] = [];
        for (const { gap, size } of steps) {
          const item = { offset: (all.at(-1)?.offset ?? start - 1) + gap, size };
          all.push(item);
          tail.push(item);
        }
        const got = tail.from(from, limit);
        if (from < tail.start) assert.equal(got, undefined);
        else assert.deepEqual(got, all.filter(({ offset }) => offset >= from).slice(0, limit));
        const kept = all.filter(({ offset }) => offset >= tail.start);
        assert.ok(kept.length <= 1 || kept.reduce((sum, { size }) => sum + size, 0) <= maxBytes, 'bounded');
        assert.ok(all.length === 0 || kept.length >= 1, 'the last one stays');
        assert.ok(tail.start >= start);
      },
    ),
  );
});
