import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Headroom } from '../../src/core/headroom.js';

/** An event loop with streams of lines on it: each portion, with what follows from it, takes so long. */
function world() {
  const clients = { isShared: true };
  const times = { active: 0, idle: 0 };
  const timers: { readonly at: number; readonly work: () => void }[] = [];
  const now = (): number => times.active + times.idle;
  const headroom = new Headroom({
    now,
    times: () => ({ ...times }),
    after: (milliseconds, work) => void timers.push({ at: now() + milliseconds, work }),
    clients,
  });
  const settled = async (): Promise<void> => {
    for (let i = 0; i < 8; i++) await Promise.resolve();
  };
  /**
   * Streams that go on for so long, and each of whose portions takes so many milliseconds of the loop, and as many as `elsewhere` of something
   * that the loop isn't there for. Resolves with the share of the time in which the loop was active, and the portions of each.
   */
  const run = async (
    milliseconds: number,
    { streams = 1, tenants = 1, active = 1, elsewhere = 0 },
  ): Promise<{ share: number; portions: number[] }> => {
    const [from, before] = [now(), times.active];
    const portions = Array.from({ length: streams }, () => 0);
    const ready: number[] = [...portions.keys()];
    let waiting = 0;
    while (now() < from + milliseconds) {
      const stream = ready.shift();
      if (stream === undefined) {
        // Whatever else is due, the loop sleeps until the next of it.
        timers.sort((a, b) => a.at - b.at);
        const next = timers.shift() ?? assert.fail('all streams wait, and nothing wakes them');
        times.idle += Math.max(0, next.at - now());
        next.work();
        await settled();
        continue;
      }
      const turn = headroom.turn(`tenant-${stream % tenants}`);
      const go = (): void => {
        times.active += active;
        portions[stream] = (portions[stream] ?? 0) + 1;
        if (elsewhere > 0) timers.push({ at: now() + elsewhere, work: () => void ready.push(stream) });
        else ready.push(stream);
      };
      if (turn === undefined) go();
      else {
        waiting++;
        void turn.then(() => (waiting--, go()));
      }
    }
    assert.ok(waiting <= streams);
    return { share: (times.active - before) / (now() - from), portions };
  };
  return { run, clients };
}

describe('headroom', () => {
  it('leaves the loop idle for a part of its time while several tenants ask, however long portions take and however many streams there are', async () => {
    for (const active of [0.1, 0.6, 5])
      for (const streams of [1, 8]) {
        const { run } = world();
        await run(1000, { active, streams });
        const { share, portions } = await run(2000, { active, streams });
        assert.ok(share > 0.57 && share < 0.63, `${share} of the time, ${streams} streams of ${active} ms`);
        assert.ok(Math.max(...portions) - Math.min(...portions) <= 2, `${portions.join(', ')}`);
      }
  });

  it('shares what is left among the tenants, not among their streams', async () => {
    const { run } = world();
    await run(1000, { streams: 9, tenants: 1 });
    // Of nine streams one is the second tenant's.
    const { portions } = await run(2000, { streams: 9, tenants: 8 });
    const [first = 0] = portions;
    assert.ok(first > 0);
    for (const [stream, count] of portions.entries()) {
      const due = stream % 8 === 0 ? first : 2 * first;
      assert.ok(Math.abs(count - due) <= 0.1 * due, portions.join(', '));
    }
  });

  it('keeps nothing apart while one tenant is alone, and no longer once it is', async () => {
    const { run, clients } = world();
    clients.isShared = false;
    assert.equal((await run(1000, { streams: 2 })).share, 1);
    for (const streams of [1, 8]) {
      clients.isShared = true;
      await run(1000, { streams, active: 5 });
      assert.ok((await run(1000, { streams, active: 5 })).share < 0.65);
      clients.isShared = false;
      await run(50, { streams, active: 5 });
      assert.equal((await run(1000, { streams, active: 5 })).share, 1);
    }
  });

  it('keeps nothing apart where the loop is idle by itself for as long, and what is lacking where it is for less', async () => {
    const calm = world();
    await calm.run(1000, { active: 2, elsewhere: 2 });
    assert.equal((await calm.run(1000, { active: 2, elsewhere: 2 })).share.toFixed(2), '0.50');
    const { run } = world();
    await run(1000, { active: 9, elsewhere: 1 });
    const { share } = await run(2000, { active: 9, elsewhere: 1 });
    assert.ok(share > 0.57 && share < 0.63, `${share} of the time`);
  });
});
