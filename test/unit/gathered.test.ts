import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gathered } from '../../src/core/gathered.js';

test('who asks while the work is under way shares the next one, whatever becomes of the first', async () => {
  for (const fails of [false, true]) {
    const ends: (() => void)[] = [];
    const gathered = new Gathered(
      () =>
        new Promise((resolve, reject) => {
          ends.push(fails && ends.length === 0 ? () => reject(new Error('away')) : resolve);
        }),
    );
    const first = gathered.asked();
    const [second, third] = [gathered.asked(), gathered.asked()];
    assert.equal(second, third);
    assert.equal(ends.length, 1);
    ends[0]?.();
    if (fails) await assert.rejects(first, /away/);
    else await first;
    // It begins behind the first.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(ends.length, 2);
    const fourth = gathered.asked();
    assert.notEqual(fourth, second);
    ends[1]?.();
    await second;
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(ends.length, 3);
    ends[2]?.();
    await fourth;
    // Nothing is under way: the next one begins at once.
    void gathered.asked();
    assert.equal(ends.length, 4);
  }
});
