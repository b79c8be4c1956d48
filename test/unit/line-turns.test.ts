// What a stream of lines gathers while its portions wait for those of others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineTurns } from '../../src/http/bulk/line-turns.js';

/** Of one portion. */
const COST = 8;

function world(turn: () => Promise<void> | undefined) {
  const seen = { flushes: 0 };
  let flushed = (): void => undefined;
  const first = new Promise<void>((resolve) => (flushed = resolve));
  const flush = (): Promise<void> => {
    seen.flushes++;
    flushed();
    return Promise.resolve();
  };
  const turns = new LineTurns({ enter: () => undefined }, 'acme', flush, { turn });
  return { turns, seen, first };
}

async function goesOnBeforeTheEndOfItsPause(): Promise<void> {
  let end = (): void => undefined;
  const pause = new Promise<void>((resolve) => (end = resolve));
  const { turns, first } = world(() => pause);
  const paid = turns.pay(COST);
  await first;
  end();
  await paid;
}

test('what was gathered goes on before a pause that is long', goesOnBeforeTheEndOfItsPause);

test('also where its timer is early by the clock', (t) => {
  t.mock.method(performance, 'now', () => 1000);
  return goesOnBeforeTheEndOfItsPause();
});

test('and behind many short ones, not behind each', async () => {
  let pauses = 0;
  const { turns, seen } = world(() => {
    pauses++;
    return new Promise((resolve) => setImmediate(resolve));
  });
  while (seen.flushes === 0) await turns.pay(COST);
  assert.ok(pauses > 1);
});

test('nothing waits where there is room', () => {
  const { turns, seen } = world(() => undefined);
  assert.equal(turns.pay(COST), undefined);
  assert.equal(seen.flushes, 0);
});

test('a long line waits as often as short ones that cost as much', async () => {
  let [asked, pauses] = [0, 0];
  const { turns } = world(() => {
    if (++asked % 2 === 1) return undefined;
    pauses++;
    return Promise.resolve();
  });
  await turns.pay(10 * COST);
  assert.deepEqual([asked, pauses], [10, 5]);
});
