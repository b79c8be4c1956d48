import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { background } from '../../src/core/background.js';
import { inSlices, mapped, overSlices, timedSlice } from '../../src/core/slices.js';
import { Turns } from '../../src/core/turns.js';

/** Turns whose rounds end when the test says so, and what began, in order. */
function world(round = 16, atOnce = 8) {
  const rounds: (() => void)[] = [];
  const began: string[] = [];
  const clock = { now: 0 };
  const clients = { isShared: false, asked: () => undefined };
  const nextRound = (work: () => void): void => void rounds.push(work);
  const looks: (() => void)[] = [];
  const behind = (work: () => void): void => void looks.push(work);
  const turns = new Turns({ round, atOnce, nextRound, behind, now: () => clock.now, clients });
  const ask = (name: string, cost = 1): void => {
    const turn = turns.enter(name.split(' ', 1)[0] as string, cost);
    if (turn === undefined) began.push(name);
    else void turn.then(() => began.push(name));
  };
  /** Ends the round, and lets begin what has its turn in the next one. */
  const next = async (): Promise<string[]> => {
    const before = began.length;
    for (const work of rounds.splice(0)) work();
    await Promise.resolve();
    return began.slice(before);
  };
  /** All that began is done, up to where it waits, and took so long. */
  const took = (ms: number): void => {
    clock.now += ms;
    for (const look of looks.splice(0)) look();
  };
  return { turns, began, ask, next, took, rounds, clock, clients };
}

describe('turns', () => {
  it('let begin at once what is little, and costs no round while nothing is asked', async () => {
    const { began, ask, next, rounds, turns } = world();
    for (let i = 0; i < 8; i++) ask(`a ${i}`);
    assert.equal(began.length, 8);
    assert.equal(rounds.length, 1);
    assert.deepEqual(await next(), []);
    assert.equal(rounds.length, 0);
    for (let i = 0; i < 8; i++) ask(`a ${i}`);
    assert.equal(began.length, 16);
    assert.equal(turns.waiting, 0);
  });

  it('are fewer in a round while what was asked for takes longer than it was reckoned, and as many as before when it does not', async () => {
    const { ask, next, took, clock } = world();
    const round = async (unitMs: number): Promise<number> => {
      for (let i = 0; i < 32; i++) ask(`a ${i}`);
      const count = (await next()).length;
      took(count * unitMs);
      // What others do in the round doesn't count.
      clock.now += 100;
      return count;
    };
    assert.equal(await round(0), 16);
    for (let i = 0; i < 100; i++) await round(1);
    assert.equal(await round(1), 2, 'an eighth, and so 2 ms');
    for (let i = 0; i < 100; i++) await round(0.2);
    assert.equal(await round(0.2), 8);
    for (let i = 0; i < 100; i++) await round(0.05);
    assert.equal(await round(0.05), 16);
  });

  it('are as many as before soon, also where there is one in a round', async () => {
    const { ask, next, took } = world();
    const rounds = async (count: number, unitMs: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        ask('a');
        took(unitMs);
        await next();
      }
    };
    await rounds(100, 5);
    await rounds(100, 0.05);
    for (let i = 0; i < 32; i++) ask(`a ${i}`);
    assert.equal((await next()).length, 16);
  });

  it('of several within one share go in turn, however many one of them asks for', async () => {
    const { turns, next } = world();
    const began: string[] = [];
    const ask = (within: string): void => {
      const turn = turns.enter('strangers', 1, { isTenant: false, within });
      void turn?.then(() => began.push(within));
    };
    for (let i = 0; i < 1000; i++) ask('flood');
    ask('other');
    await next();
    assert.ok(began.indexOf('other') >= 0 && began.indexOf('other') < 2, began.join(', '));
  });

  it('are kept for nobody who has gone, however many ask and go', async () => {
    const { turns, next } = world();
    const stays = { destroyed: false };
    let begun = 0;
    void turns.enter('a', 16, { connection: stays });
    void turns.enter('a', 16, { connection: stays })?.then(() => begun++);
    for (let i = 0; i < 100_000; i++) {
      const connection = { destroyed: false };
      void turns.enter('a', 1, { connection });
      connection.destroyed = true;
    }
    assert.ok(turns.waiting < 1024, `${turns.waiting} wait`);
    await next();
    assert.equal(begun, 1);
  });

  it('come early to who goes while it waits, once: who asks again then waits as all do', async () => {
    const { turns, next } = world();
    const socket = { destroyed: false };
    void turns.enter('a', 16, { connection: socket });
    let parts = 0;
    const gone = async (): Promise<void> => {
      for (;;) {
        await turns.enter('a', 16, { connection: socket });
        parts++;
      }
    };
    for (let i = 0; i < 511; i++) void gone();
    socket.destroyed = true;
    void gone();
    for (let i = 0; i < 10; i++) await Promise.resolve();
    assert.ok(parts <= 512, `${parts} parts without a return to the loop`);
    await next();
    assert.ok(parts <= 513, `${parts} parts`);
  });

  it('of parts go first to what was begun first, and every other one to what is to begin', async () => {
    const { turns, next } = world();
    const done: string[] = [];
    const page = async (begun: number): Promise<void> => {
      for (let part = 0; part < 4; part++) {
        await turns.enter('a', 8, { begun });
        done.push(`${begun}.${part}`);
      }
    };
    void turns.enter('a', 16);
    for (let begun = 1; begun <= 4; begun++) void page(begun);
    for (let i = 0; i < 4; i++) void turns.enter('a', 8)?.then(() => done.push('begins'));
    for (let round = 0; round < 12; round++) await next();
    const parts = done.filter((one) => one !== 'begins');
    // All have asked for their first one at once; from then on the oldest is ended first.
    assert.deepEqual(
      parts.filter((one) => one.endsWith('.3')),
      ['1.3', '2.3', '3.3', '4.3'],
    );
    assert.ok(parts.indexOf('1.3') < parts.indexOf('2.1'), parts.join(' '));
    assert.deepEqual(
      done.flatMap((one, at) => (one === 'begins' ? [at] : [])).map((at, nth) => at - 2 * nth < 2),
      [true, true, true, true],
    );
  });

  it('are half as many in a round while several tenants ask, and two requests at least', async () => {
    const { began, ask, next, took, clients } = world();
    clients.isShared = true;
    for (let i = 0; i < 100; i++) ask(`a ${i}`);
    assert.equal(began.length, 4, 'at once');
    assert.equal((await next()).length, 8);
    clients.isShared = false;
    await next();
    assert.equal((await next()).length, 16);
    clients.isShared = true;
    for (let i = 0; i < 100; i++) {
      for (let more = 0; more < 16; more++) ask('a more');
      took((await next()).length);
    }
    assert.equal((await next()).length, 2);
  });

  it('are as many as before for who asks for little, however long those of others take', async () => {
    const { began, ask, next, took, clients, clock } = world();
    clients.isShared = true;
    const round = async (): Promise<void> => {
      took((await next()).length);
      clock.now += 10;
    };
    for (let i = 0; i < 100; i++) {
      for (let more = 0; more < 16; more++) ask('loud');
      await round();
      if (i % 5 === 0) ask('calm');
      took(0.05);
    }
    await round();
    // All that came while its clients were held up.
    const before = began.length;
    for (let i = 0; i < 12; i++) ask(`calm ${i}`);
    assert.equal(began.length - before, 8, 'at once');
    assert.deepEqual(
      (await next()).filter((name) => name.startsWith('calm')),
      ['calm 8', 'calm 9', 'calm 10', 'calm 11'],
    );
  });

  it('go on for who asks for much beside those who ask for little', async () => {
    const { ask, next, took, clients, clock } = world();
    clients.isShared = true;
    for (let i = 0; i < 1000; i++) ask('loud');
    const had = new Map<string, number>();
    for (let i = 0; i < 200; i++) {
      for (let calm = 0; calm < 40; calm++) ask(`calm${calm}`);
      const began = await next();
      for (const name of began) had.set(name, (had.get(name) ?? 0) + 1);
      took(began.length);
      clock.now += 10;
    }
    assert.ok((had.get('loud') ?? 0) >= 200, `${had.get('loud')}`);
  });

  it('make a tenant that asks for much wait, in its order, and nobody else', async () => {
    const { began, ask, next, turns } = world();
    for (let i = 0; i < 100; i++) ask(`a ${i}`);
    assert.equal(began.length, 8);
    assert.equal(turns.waiting, 92);
    ask('b 0');
    assert.equal(began.at(-1), 'b 0');
    const all = [...began];
    for (let rounds = 0; turns.waiting > 0; rounds++) {
      assert.ok(rounds < 7, 'sixteen a round');
      ask(`b ${rounds + 1}`);
      assert.equal(began.at(-1), `b ${rounds + 1}`);
      const more = await next();
      assert.ok(more.length <= 16);
    }
    assert.deepEqual(
      began.filter((name) => name.startsWith('a')),
      Array.from({ length: 100 }, (_, i) => `a ${i}`),
    );
    assert.ok(all.length > 0);
  });

  it('share a round among those who wait by cost, not by count', async () => {
    const { ask, next, turns } = world(16, 1);
    for (let i = 0; i < 40; i++) {
      ask(`small ${i}`, 1);
      ask(`large ${i}`, 4);
    }
    const taken = { small: 0, large: 0 };
    for (let rounds = 0; rounds < 4; rounds++)
      for (const name of await next())
        taken[name.split(' ', 1)[0] as 'small' | 'large'] += name.startsWith('l') ? 4 : 1;
    assert.ok(turns.waiting > 0);
    assert.ok(Math.abs(taken.small - taken.large) <= 8, `${taken.small} and ${taken.large}`);
    assert.ok(taken.small + taken.large >= 4 * 12);
  });

  it('let begin what costs more than a round, in its time', async () => {
    const { began, ask, next, turns } = world(4, 2);
    ask('a 0', 100);
    assert.deepEqual(began, ['a 0']);
    ask('a 1', 100);
    ask('b 0');
    ask('a 2', 1);
    assert.deepEqual(began, ['a 0', 'b 0']);
    while (turns.waiting > 0) await next();
    assert.deepEqual(began, ['a 0', 'b 0', 'a 1', 'a 2']);
  });

  it('with many who flood, each of them goes on', async () => {
    const { ask, next, turns } = world();
    for (let tenant = 0; tenant < 50; tenant++) for (let i = 0; i < 20; i++) ask(`t${tenant} ${i}`);
    const seen = new Map<string, number>();
    for (let rounds = 0; turns.waiting > 300; rounds++) {
      assert.ok(rounds < 100);
      for (const name of await next()) {
        const tenant = name.split(' ', 1)[0] as string;
        seen.set(tenant, (seen.get(tenant) ?? 0) + 1);
      }
    }
    const counts = Array.from({ length: 50 }, (_, i) => seen.get(`t${i}`) ?? 0);
    assert.ok(Math.min(...counts) > 0 && Math.max(...counts) - Math.min(...counts) <= 4, counts.join(' '));
  });
});

describe('a slice', () => {
  it('is short while clients are about, and shorter while those of several tenants are', () => {
    const items = Array.from({ length: 1000 }, (_, i) => i);
    const slice = (): number => {
      let now = 0;
      return timedSlice(items, 0, () => (now += 0.25), { now: () => now });
    };
    background.asked('a');
    assert.equal(slice(), 12, '3 ms');
    background.asked('b');
    assert.equal(slice(), 4, '1 ms');
  });
});

describe('work over a list', () => {
  it('is done for each item in order, and lets others in between', async () => {
    let others = 0;
    let stop = false;
    const other = (): void => {
      others++;
      if (!stop) setImmediate(other);
    };
    setImmediate(other);
    const done: number[] = [];
    const items = Array.from({ length: 200 }, (_, i) => i);
    // Each item takes a part of a slice: several slices, whatever the machine does.
    await overSlices('read_store', items, (item) => {
      done.push(item);
      for (const until = performance.now() + 0.2; performance.now() < until;);
    });
    stop = true;
    assert.deepEqual(done, items);
    assert.ok(others >= 5, `${others} turns of others`);
    await overSlices('read_store', [], () => assert.fail('there is nothing'));
    assert.deepEqual(await inSlices(mapped([1, 2], (n) => 2 * n)), [2, 4]);
  });
});
