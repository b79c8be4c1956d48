import assert from 'node:assert/strict';
import { it } from 'node:test';
import { background } from '../../src/core/background.js';
import { nextTurnOfRows } from '../../src/core/slices.js';

const busy = (ms: number): void => {
  for (const until = performance.now() + ms; performance.now() < until;);
};

it('slices of rows of many tenants lie in rounds of their own, and the loop rests between them', async (t) => {
  t.mock.getter(background, 'isShared', () => true);
  let round = 0;
  let goesOn = true;
  const count = (): void => {
    round++;
    if (goesOn) setImmediate(count);
  };
  setImmediate(count);
  const rounds: number[] = [];
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 5; i++) {
        await nextTurnOfRows();
        rounds.push(round);
        busy(1);
      }
    }),
  );
  goesOn = false;
  assert.equal(rounds.length, 40);
  assert.equal(new Set(rounds).size, 40, rounds.join(' '));
  assert.ok(performance.now() - startedAt >= 2 * 40, 'a loop that is never idle rests for longer than it is active');
});
