import assert from 'node:assert/strict';
import test from 'node:test';
import { Rates } from '../../src/core/rates.js';

/** A moment at which a bucket begins, and another moment so many seconds later. */
const BEGAN = 1_800_000_000_000;
const after = (seconds: number): number => BEGAN + seconds * 1000;

test('a rate is of the last minute, or of the time since events are counted', () => {
  const rates = new Rates(BEGAN);
  assert.equal(rates.of('order', after(30)), 0);
  rates.add('order', 30, after(1));
  rates.add('order', 10, after(2));
  rates.add('cart', 1, after(2));
  assert.equal(rates.of('order', after(2)), 20);
  assert.equal(rates.of('order', after(40)), 1);
  assert.equal(rates.of('cart', after(40)), 1 / 40);
  rates.add('order', 55, after(50));
  // The first five seconds are forgotten, and with them what they had.
  assert.equal(rates.of('order', after(60)), 55 / 55);
  assert.equal(rates.of('cart', after(60)), 0);
  assert.equal(rates.of('order', after(109)), 55 / 59);
  assert.equal(rates.of('order', after(110)), 0);
  rates.add('order', 55, after(300));
  assert.equal(rates.of('order', after(305)), 1);
});

test('the first second counts as a whole one', () => {
  const rates = new Rates(BEGAN);
  rates.add('order', 3, BEGAN);
  assert.equal(rates.of('order', BEGAN), 3);
  assert.equal(rates.of('order', BEGAN + 10), 3);
});

test('what was before the count began is no part of it: history that is folded again, an import', () => {
  const rates = new Rates(BEGAN);
  rates.add('order', 1_000, after(-1));
  rates.add('order', 1_000, 5);
  assert.equal(rates.of('order', after(10)), 0);
});

test('events come out of order by a little, or with a clock that was set back', () => {
  const rates = new Rates(after(-1_000));
  rates.add('order', 59, after(30));
  rates.add('order', 60, after(21));
  assert.equal(rates.of('order', after(59)), 119 / 59);
  rates.add('order', 59, after(-500));
  assert.equal(rates.of('order', after(-500) + 4_000), 1);
  rates.add('order', 59, after(-496));
  assert.equal(rates.of('order', after(-496)), 2);
});

test('as many names as are told have a rate; past them nobody knows, for a minute', () => {
  const rates = new Rates(BEGAN, 2);
  rates.add('a', 30, after(0));
  rates.add('b', 30, after(0));
  assert.deepEqual([rates.of('a', after(30)), rates.of('b', after(30))], [1, 1]);
  rates.add('c', 30, after(20));
  for (const name of ['a', 'b', 'c', 'none']) assert.equal(rates.of(name, after(30)), undefined);
  for (const name of ['a', 'b', 'c', 'none']) assert.equal(rates.of(name, after(79)), undefined);
  assert.deepEqual([rates.of('a', after(80)), rates.of('c', after(80))], [0, 0]);
  // Those without events of late give way.
  rates.add('c', 59, after(100));
  rates.add('d', 118, after(100));
  const at = after(104);
  assert.deepEqual([rates.of('c', at), rates.of('d', at), rates.of('a', at)], [1, 2, 0]);
});
