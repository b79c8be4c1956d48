import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { Pace } from '../../src/http/pace.js';

/** A pace on a clock of the test. */
function paceOf(limits: { perSecond: number; burst: number }): {
  readonly pace: Pace;
  readonly pass: (ms: number) => void;
  readonly taken: (tenantId?: string, amount?: number) => true | StatefoldError;
} {
  let now = 1_000;
  const pace = new Pace({ quota: 'eventsPerSecond', what: 'events', limitOf: () => limits, now: () => now });
  return {
    pace,
    pass: (ms) => void (now += ms),
    taken: (tenantId = 't', amount = 1) => {
      try {
        pace.take(tenantId, amount);
        return true;
      } catch (error) {
        assert.ok(error instanceof StatefoldError && error.code === 'RATE_LIMITED');
        return error;
      }
    },
  };
}

describe('a pace', () => {
  it('lets through what is saved up, then what refills, each tenant for itself', () => {
    const { taken, pass } = paceOf({ perSecond: 10, burst: 5 });
    for (let i = 0; i < 5; i++) assert.equal(taken(), true);
    assert.notEqual(taken(), true);
    assert.equal(taken('other'), true);
    pass(100);
    assert.equal(taken(), true);
    assert.notEqual(taken(), true);
    pass(60_000);
    for (let i = 0; i < 5; i++) assert.equal(taken(), true);
    assert.notEqual(taken(), true);
  });

  it('takes a batch that is larger than all that may be saved up, and what follows pays for it', () => {
    const { taken, pass } = paceOf({ perSecond: 10, burst: 10 });
    assert.equal(taken('t', 50), true);
    pass(3_900);
    assert.notEqual(taken(), true);
    pass(200);
    assert.equal(taken(), true);
    // Not while anything of it is spent.
    assert.notEqual(taken('t', 50), true);
    pass(1_000);
    assert.equal(taken('t', 50), true);
  });

  it('says when there is room, in the headers too', () => {
    const { taken } = paceOf({ perSecond: 2, burst: 2 });
    assert.equal(taken('t', 12), true);
    const refused = taken() as StatefoldError;
    assert.equal(refused.retryAfterSeconds, 6);
    assert.deepEqual(refused.headers, {
      'RateLimit-Policy': '"eventsPerSecond";q=2;w=1',
      RateLimit: '"eventsPerSecond";r=0;t=6',
    });
    assert.deepEqual(refused.details, { quota: 'eventsPerSecond', limit: 2 });
  });

  it('follows a limit that changes: none, nothing, and back', () => {
    const limits = { perSecond: Infinity, burst: Infinity };
    const { taken, pass } = paceOf(limits);
    for (let i = 0; i < 100; i++) assert.equal(taken('t', 1_000), true);
    Object.assign(limits, { perSecond: 0, burst: 1 });
    assert.equal((taken() as StatefoldError).retryAfterSeconds, 60);
    Object.assign(limits, { perSecond: 3, burst: 3 });
    pass(1_000);
    for (let i = 0; i < 3; i++) assert.equal(taken(), true);
    assert.notEqual(taken(), true);
  });

  it('tells what was taken in the last full second, and not what was refused', () => {
    const { pace, taken, pass } = paceOf({ perSecond: 5, burst: 5 });
    assert.equal(pace.lastSecond('t'), 0);
    for (let i = 0; i < 8; i++) taken();
    pass(1_000);
    assert.equal(pace.lastSecond('t'), 5);
    pass(1_000);
    assert.equal(pace.lastSecond('t'), 0);
  });

  it('goes on as it was for a tenant that was forgotten meanwhile', () => {
    const { pace, taken, pass } = paceOf({ perSecond: 1, burst: 100 });
    for (let i = 0; i < 100; i++) assert.equal(taken(), true);
    pass(61_000);
    assert.equal(taken('other'), true);
    let left = 0;
    while (taken() === true) left++;
    assert.equal(left, 61);
    pass(500_000);
    assert.equal(taken('other'), true);
    assert.equal(pace.lastSecond('t'), 0);
    for (let i = 0; i < 100; i++) assert.equal(taken(), true);
    assert.notEqual(taken(), true);
  });
});
