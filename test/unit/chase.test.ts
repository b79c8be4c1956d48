import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Chase } from '../../src/projections/chase.js';

/** A build whose tenant appends so much for each of its batches, of `usual` inputs at the usual pace; gives how far it is from the end. */
function world(left: number, usual: number) {
  const chase = new Chase();
  let [position, end] = [0, left];
  const batches = (count: number, appended: number): number => {
    for (let i = 0; i < count; i++) {
      position = Math.min(end, position + usual * chase.timesOf(1));
      end += appended;
      chase.took(position, end);
    }
    return end - position;
  };
  return { chase, batches };
}

it('a build comes to the end of what grows faster than it goes at its usual pace', () => {
  const { chase, batches } = world(1_000_000, 128);
  assert.ok(batches(10_000, 700) < 1000);
  assert.deepEqual(
    [1, 2, 3, 99].map((builds) => chase.timesOf(builds)),
    [8, 4, 2, 1],
  );
});

it('one that is faster anyway goes at its usual pace, however far the end is', () => {
  const { chase, batches } = world(10_000_000, 128);
  const left = batches(1000, 64);
  assert.equal(chase.timesOf(1), 1);
  assert.equal(left, 10_000_000 - 1000 * 64);
});

it('goes at its usual pace again when no more is appended', () => {
  const { chase, batches } = world(1_000_000, 128);
  batches(200, 300);
  assert.ok(chase.timesOf(1) > 1);
  batches(100, 0);
  assert.equal(chase.timesOf(1), 1);
});

it('its pace stays where it is fast enough', () => {
  const { chase, batches } = world(10_000_000, 128);
  batches(100, 120);
  assert.equal(chase.timesOf(1), 2);
  for (let i = 0; i < 20; i++) {
    batches(16, 120);
    assert.equal(chase.timesOf(1), 2);
  }
});
