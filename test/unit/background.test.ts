import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Background } from '../../src/core/background.js';

/** An event loop whose rounds, time and timers go on when the test says so; each slice takes so many milliseconds, and the loop is idle while time passes otherwise. */
function world() {
  const rounds: (() => void)[] = [];
  const timers: { readonly at: number; readonly work: () => void }[] = [];
  const had: string[] = [];
  let now = 1000;
  let active = 0;
  const background = new Background({
    nextRound: (work) => void rounds.push(work),
    after: (milliseconds, work) => void timers.push({ at: now + milliseconds, work }),
    now: () => now,
    times: () => ({ active, idle: now - active }),
  });
  /** What is done on the loop beside. */
  const busy = (milliseconds: number): void => {
    now += milliseconds;
    active += milliseconds;
  };
  const work = (name: string, milliseconds: number, { tenantId = 't', isAwaited = false } = {}): void =>
    void background.turn(tenantId, isAwaited).then(() => {
      had.push(name);
      busy(milliseconds);
    });
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await Promise.resolve();
  };
  /** A round of the loop; gives who had a turn. */
  const round = async (): Promise<readonly string[]> => {
    const before = had.length;
    for (const due of timers.splice(0))
      if (due.at > now) timers.push(due);
      else due.work();
    for (const one of rounds.splice(0)) {
      one();
      await settle();
    }
    return had.slice(before);
  };
  return { background, work, busy, round, timers, rounds, pass: (milliseconds: number) => (now += milliseconds) };
}

/** How many rounds lie between the turns of a work that asks again and again, while a client asks in each round and `beside` is done. */
async function roundsApart(rounds: number, beside: (of: ReturnType<typeof world>) => void): Promise<readonly number[]> {
  const of = world();
  for (let i = 0; i < 100; i++) of.work('a', 1);
  const had: number[] = [];
  for (let i = 0; i < rounds; i++) {
    of.background.asked('t');
    if ((await of.round()).length > 0) had.push(i);
    beside(of);
  }
  return had.slice(1).map((at, i) => at - (had[i] ?? 0));
}

describe('background work', () => {
  it('all has its turn in the next round while no client is about', async () => {
    const { work, round, timers } = world();
    for (const name of ['a', 'b', 'c']) work(name, 20);
    assert.deepEqual(await round(), ['a', 'b', 'c']);
    work('a', 20);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(timers, []);
  });

  it('goes one at a time, in order, and rests as long as it took while clients are about', async () => {
    const { background, work, round, timers, pass } = world();
    background.asked('t');
    for (const name of ['a', 'b', 'c']) work(name, 5);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(await round(), []);
    pass(4);
    assert.deepEqual(await round(), []);
    assert.equal(timers.length, 1);
    pass(1);
    assert.deepEqual(await round(), ['b']);
    pass(5);
    assert.deepEqual(await round(), ['c']);
  });

  it('of one tenant goes in turn with that of others, however much it is, and what others wait for beside its own', async () => {
    const { background, work, round, pass } = world();
    background.asked('t');
    for (const name of ['a1', 'a2', 'a3', 'a4']) work(name, 1, { tenantId: 'a' });
    work('b1', 1, { tenantId: 'b' });
    work('a5', 1, { tenantId: 'a', isAwaited: true });
    work('c1', 1, { tenantId: 'c' });
    work('a6', 1, { tenantId: 'a', isAwaited: true });
    const had: string[] = [];
    while (had.length < 8) {
      had.push(...(await round()));
      pass(1);
    }
    assert.deepEqual(had, ['a1', 'b1', 'a5', 'c1', 'a2', 'a6', 'a3', 'a4']);
  });

  it('rests for what a slice led to as well', async () => {
    const { background, work, busy, round, pass } = world();
    background.asked('t');
    for (const name of ['a', 'b']) work(name, 1);
    assert.deepEqual(await round(), ['a']);
    busy(3);
    assert.deepEqual(await round(), []);
    pass(3);
    assert.deepEqual(await round(), []);
    pass(1);
    assert.deepEqual(await round(), ['b']);
  });

  it('does not rest where the loop was idle for as long by itself', async () => {
    const { background, work, round, pass, timers } = world();
    background.asked('t');
    work('a', 1);
    assert.deepEqual(await round(), ['a']);
    pass(1);
    await round();
    for (const name of ['b', 'c']) work(name, 0.5);
    assert.deepEqual(await round(), ['b']);
    pass(0.5);
    assert.deepEqual(await round(), ['c']);
    assert.deepEqual(timers, []);
  });

  it('has its turn where clients leave the loop no time, seldom at first', async () => {
    const apart = await roundsApart(1300, ({ busy }) => busy(1));
    const are = (from: number, to: number, least: number, most: number): void =>
      assert.ok(
        apart.slice(from, to).every((one) => one >= least && one <= most),
        apart.join(' '),
      );
    are(0, 3, 19, 23);
    are(3, 80, 9, 13);
    // Whether it is still full is seen when the background takes less of it.
    assert.ok(apart.slice(80).filter((one) => one > 15).length >= 3, apart.join(' '));
  });

  it('rests for as long as the loop has some time for clients', async () => {
    const apart = await roundsApart(1000, ({ busy, pass }) => {
      busy(0.9);
      pass(0.1);
    });
    for (const one of apart) assert.ok(one >= 18 && one <= 23, apart.join(' '));
  });

  it('does not make up later for a loop that was full', async () => {
    const { background, work, busy, round, pass } = world();
    for (let i = 0; i < 20; i++) work('before', 1);
    for (let i = 0; i < 300; i++) {
      background.asked('t');
      await round();
      busy(1);
    }
    for (let i = 0; i < 3; i++) {
      background.asked('t');
      pass(5);
      await round();
    }
    for (const name of ['a', 'b']) work(name, 1);
    assert.deepEqual(await round(), ['a']);
    pass(1);
    assert.deepEqual(await round(), ['b']);
  });

  it('puts short rests together, and rests no longer after a long slice', async () => {
    const { background, work, round, timers, pass } = world();
    background.asked('t');
    for (const name of ['a', 'b']) work(name, 0.6);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(timers, []);
    assert.deepEqual(await round(), ['b']);
    assert.equal(timers.length, 1);
    pass(2);
    await round();
    background.asked('t');
    work('long', 50);
    assert.deepEqual(await round(), ['long']);
    background.asked('t');
    work('next', 1);
    assert.deepEqual(await round(), []);
    pass(20);
    assert.deepEqual(await round(), ['next']);
  });

  it('goes on at full speed when the clients have left', async () => {
    const { background, work, round, pass } = world();
    background.asked('t');
    assert.equal(background.givesWay, true);
    for (const name of ['a', 'b', 'c']) work(name, 1);
    assert.deepEqual(await round(), ['a']);
    pass(1900);
    assert.equal(background.givesWay, true);
    pass(100);
    assert.equal(background.givesWay, false);
    assert.deepEqual(await round(), ['b', 'c']);
  });

  it('is done one slice at a time, without rests, while clients are about who ask seldom', async () => {
    const { background, work, round, timers, pass } = world();
    background.asked('t');
    pass(100);
    for (const name of ['a', 'b', 'c']) work(name, 5);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(await round(), ['b']);
    assert.deepEqual(await round(), ['c']);
    assert.deepEqual(timers, []);
  });

  it('is served again after it came to rest', async () => {
    const { work, round, rounds } = world();
    work('a', 1);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(rounds, []);
    work('b', 1);
    assert.deepEqual(await round(), ['b']);
  });

  it('is in the way of several tenants while one of them asked behind another', () => {
    const { background, pass } = world();
    background.asked('a');
    background.asked('a');
    assert.equal(background.isShared, false);
    pass(99);
    background.asked('b');
    assert.equal(background.isShared, true);
    for (let i = 0; i < 10; i++) {
      pass(99);
      background.asked('b');
    }
    assert.equal(background.isShared, true, 'a may wait for its answer');
    pass(10);
    background.asked('b');
    assert.equal(background.isShared, false, 'a has been gone for so long');
    pass(100);
    background.asked('a');
    assert.equal(background.isShared, false, 'nobody was about');
  });
});
