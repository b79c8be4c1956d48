import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FlushMoments } from '../../src/store/flush-moments.js';

describe('moments at which sections are written', () => {
  /** How many sections have each of the moments, by how long it is until then. */
  const spread = (count: number, now: number): [number, number][] => {
    const moments = new FlushMoments(250);
    const taken = new Map<number, number>();
    for (let i = 0; i < count; i++) {
      const at = moments.take(now);
      taken.set(at, (taken.get(at) ?? 0) + 1);
    }
    return [...taken].sort(([a], [b]) => a - b);
  };

  it('few sections have the next one, together', () => {
    assert.deepEqual(spread(64, 1100), [[150, 64]]);
  });

  it('many are spread over those that come, none of them far', () => {
    assert.deepEqual(spread(150, 1000), [
      [250, 64],
      [500, 64],
      [750, 22],
    ]);
    const all = spread(2 * 16 * 64, 1000);
    assert.equal(all.length, 16);
    assert.ok(all.every(([at, count]) => at <= 4000 && count === 128));
  });

  it('one that asks later has the next again', () => {
    const moments = new FlushMoments(250);
    for (let i = 0; i < 64; i++) moments.take(1000);
    assert.equal(moments.take(1000), 500);
    assert.equal(moments.take(1600), 150);
  });
});
