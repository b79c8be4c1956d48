import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Background } from '../../src/core/background.js';

/** An event loop whose rounds, time and timers go on when the test says so; what each slice does takes so many milliseconds. */
function world() {
  const rounds: (() => void)[] = [];
  const timers: { readonly at: number; readonly work: () => void }[] = [];
  const had: string[] = [];
  let now = 1000;
  const background = new Background({
    nextRound: (work) => void rounds.push(work),
    after: (milliseconds, work) => void timers.push({ at: now + milliseconds, work }),
    now: () => now,
  });
  const work = (name: string, milliseconds: number): void =>
    void background.turn().then(() => {
      had.push(name);
      now += milliseconds;
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
  return { background, work, round, timers, rounds, pass: (milliseconds: number) => (now += milliseconds) };
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

  it('puts short rests together, and never rests long', async () => {
    const { background, work, round, timers, pass } = world();
    background.asked('t');
    for (const name of ['a', 'b']) work(name, 1);
    assert.deepEqual(await round(), ['a']);
    assert.deepEqual(timers, []);
    assert.deepEqual(await round(), ['b']);
    assert.equal(timers.length, 1);
    pass(2);
    work('long', 5000);
    assert.deepEqual(await round(), ['long']);
    background.asked('t');
    work('next', 1);
    assert.deepEqual(await round(), ['next']);
  });

  it('goes on at full speed when the clients have left', async () => {
    const { background, work, round, pass } = world();
    background.asked('t');
    assert.equal(background.givesWay, true);
    for (const name of ['a', 'b', 'c']) work(name, 1);
    assert.deepEqual(await round(), ['a']);
    pass(100);
    assert.equal(background.givesWay, false);
    assert.deepEqual(await round(), ['b', 'c']);
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
