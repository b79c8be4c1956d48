import assert from 'node:assert/strict';
import { test } from 'node:test';
import { descendingOnce } from '../../src/core/descending.js';

test('series are merged from the highest number on, and each number is given once', () => {
  assert.deepEqual([...descendingOnce([9, 7, 7, 2], [], [9, 8, 1], [2])], [9, 8, 7, 2, 1]);
  assert.deepEqual([...descendingOnce()], []);
});

test('no more is asked of a series than is taken, and it is told when no more will be', () => {
  const asked: number[] = [];
  let isClosed = false;
  function* numbers(): Generator<number> {
    try {
      for (let number = 100; ; number--) {
        asked.push(number);
        yield number;
      }
    } finally {
      isClosed = true;
    }
  }
  const merged = descendingOnce(numbers(), [50]);
  assert.equal(merged.next().value, 100);
  assert.ok(asked.length <= 2, String(asked));
  merged.return(undefined);
  assert.ok(isClosed);
});
