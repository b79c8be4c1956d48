import assert from 'node:assert/strict';
import { test } from 'node:test';
import { background } from '../../src/core/background.js';
import { nextTurn, overWaitingSlices } from '../../src/core/slices.js';
import { busy, turnsDuring } from '../support/loop-turns.js';

const ITEMS = Array.from({ length: 40 }, (_, i) => i);

test('work that waits for nothing, or for what is there on the same turn, gives way to others', async () => {
  const works = {
    'waits for nothing': () => busy(1),
    'waits for what is there': () => {
      busy(1);
      return Promise.resolve();
    },
  };
  for (const [name, work] of Object.entries(works)) {
    const done: number[] = [];
    const { turns } = await turnsDuring(() =>
      overWaitingSlices('notifications', ITEMS, (item) => {
        done.push(item);
        return work();
      }),
    );
    assert.ok(turns >= ITEMS.length / 4, `${name}: ${turns} turns`);
    assert.deepEqual(done, ITEMS);
  }
});

test('while clients are about each round of the event loop has one slice, in the order in which they were asked for', async () => {
  background.asked('a');
  const names = ['first', 'second', 'third'];
  const done: string[] = [];
  const rounds = new Set<number>();
  await turnsDuring((sofar) =>
    Promise.all(
      names.map(async (name) => {
        await nextTurn();
        done.push(name);
        rounds.add(sofar());
      }),
    ),
  );
  assert.deepEqual(done, names);
  assert.equal(rounds.size, names.length);
});
