import assert from 'node:assert/strict';
import { test } from 'node:test';
import { overWaitingSlices } from '../../src/core/slices.js';

const ITEMS = 40;
const busy = (milliseconds: number): void => {
  for (const until = performance.now() + milliseconds; performance.now() < until;);
};

/** How often others had their turn while the work was done. */
async function turnsDuring(work: (item: number) => void | Promise<void>): Promise<{ turns: number; done: number[] }> {
  const done: number[] = [];
  let turns = 0;
  let ended = false;
  const others = (): void => {
    if (ended) return;
    turns++;
    setImmediate(others);
  };
  setImmediate(others);
  const items = Array.from({ length: ITEMS }, (_, i) => i);
  await overWaitingSlices('notifications', items, (item) => {
    done.push(item);
    return work(item);
  });
  ended = true;
  return { turns, done };
}

test('work that waits for nothing, or for what is there on the same turn, gives way to others', async () => {
  const works = {
    'waits for nothing': () => busy(1),
    'waits for what is there': () => {
      busy(1);
      return Promise.resolve();
    },
  };
  for (const [name, work] of Object.entries(works)) {
    const { turns, done } = await turnsDuring(work);
    assert.ok(turns >= ITEMS / 4, `${name}: ${turns} turns`);
    assert.deepEqual(
      done,
      Array.from({ length: ITEMS }, (_, i) => i),
    );
  }
});
