import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sliced } from '../../src/core/slices.js';
import { FrameMeter, sliceFrame, whole } from '../../src/code-host/dotnet/frame-slices.js';

const unexpected = (value: unknown): never => assert.fail(`${String(value)} was not expected`);

function* count(to: number, seen: string[], name: string): Sliced<number> {
  const meter = new FrameMeter();
  for (let i = 0; i < to; i++)
    if (meter.due(0)) {
      seen.push(name);
      yield;
    }
  return to;
}

test('what is small is done at once; what is not leaves the thread to others, in turn', async () => {
  const seen: string[] = [];
  let small: number | undefined;
  assert.equal(
    sliceFrame(count(1000, seen, 'small'), (value) => (small = value), unexpected),
    undefined,
  );
  assert.deepEqual([small, seen], [1000, []]);
  const turns: string[] = [];
  let going = true;
  const others = (): void => {
    turns.push(seen.at(-1) ?? '');
    if (going) setImmediate(others);
  };
  setImmediate(others);
  const results: number[] = [];
  const a = sliceFrame(count(5000, seen, 'a'), (value) => results.push(value), unexpected);
  await sliceFrame(count(5000, seen, 'b'), (value) => results.push(value), unexpected);
  await a;
  going = false;
  assert.deepEqual(results, [5000, 5000]);
  assert.deepEqual(seen, ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b']);
  assert.ok(turns.length >= 6, `${turns.length} turns of others`);
});

test('what a later slice throws is told, and no further', async () => {
  function* broken(): Sliced<void> {
    yield;
    throw new Error('on purpose');
  }
  let told: unknown;
  await sliceFrame(broken(), unexpected, (error) => (told = error));
  assert.equal((told as Error).message, 'on purpose');
  assert.throws(() => whole(broken()), /on purpose/);
});
