import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { SharedCache } from '../../src/core/shared-cache.js';
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

it('a tail holds nothing of what it let go, however few items that is', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const tail = tailOf(100, 0);
  const refs = Array.from({ length: 10 }, (_, offset) => {
    const item = { offset, size: 40 };
    tail.push(item);
    return new WeakRef(item);
  });
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    collect();
    const held = refs.flatMap((ref, offset) => (ref.deref() === undefined ? [] : [offset]));
    assert.deepEqual(held, [8, 9]);
    assert.deepEqual(
      tail.from(8, 10)?.map(({ offset }) => offset),
      [8, 9],
    );
  });
});

it('tails of many share a bound: those with nothing new for longest are let go, and say so', () => {
  const shared = new SharedCache(1_000_000);
  const tails = Array.from(
    { length: 20 },
    () => new Tail<Item>({ positionOf: ({ offset }) => offset, bytesOf: ({ size }) => size }, 1e9, 0, shared),
  );
  for (const tail of tails) for (let offset = 0; offset < 3; offset++) tail.push({ offset, size: 70_000 });
  assert.ok(shared.bytes <= 1_000_000);
  const kept = tails.map((tail) => tail.from(0, 10)?.length ?? 0);
  assert.deepEqual(kept, [...Array.from({ length: 16 }, () => 0), 3, 3, 3, 3]);
  const [first] = tails;
  assert.ok(first !== undefined);
  assert.deepEqual(first.from(3, 10), [], 'nothing is missing behind what was let go');
  const more = [7, 8, 9].map((offset) => ({ offset, size: 70_000 }));
  for (const item of more) first.push(item);
  assert.deepEqual(first.from(3, 10), more);
  assert.equal(tails[16]?.from(0, 10), undefined, 'the next one went for it');
  for (const tail of tails) tail.close();
  assert.equal(shared.bytes, 0);
  first.push({ offset: 10, size: 70_000 });
  assert.equal(shared.bytes, 0, 'what is pushed to a closed one is not counted');
});

it('thousands of tails that grow slowly keep no more than about the bound together', () => {
  const shared = new SharedCache(1_000_000);
  const tails = Array.from(
    { length: 5_000 },
    () => new Tail<Item>({ positionOf: ({ offset }) => offset, bytesOf: ({ size }) => size }, 1e9, 0, shared),
  );
  for (let offset = 0; offset < 40; offset++) for (const tail of tails) tail.push({ offset, size: 100 });
  const kept = tails.reduce((sum, tail) => sum + 100 * (tail.from(tail.start, 100)?.length ?? 0), 0);
  assert.ok(kept > 200_000, 'something is kept');
  assert.ok(kept <= 2_000_000, `${kept} bytes are`);
});
