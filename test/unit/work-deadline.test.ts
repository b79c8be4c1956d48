// Whose time counts for a deadline: the code's own, and not what it waits for a processor, a disk, or someone who stopped it.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { schedulingOf, WorkDeadline, type Overrun, type Scheduling } from '../../src/code-host/dotnet/work-deadline.js';

/** A thread that has such a share of the time a processor, and waits for one in the rest; or is in another state. */
function thread(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] });
  const world = {
    now: 0,
    ranMs: 0,
    waitedMs: 0,
    state: 'R',
    /** Of the time in which it waits for a processor, in which it hasn't got any. */
    waits: 0,
    /** It waits on: the kernel tells of a wait when that ends. */
    waitingMs: undefined as number | undefined,
    processorMs: 0,
    /** What all threads of its process use, in each millisecond. */
    uses: 0,
    known: true,
    turns: 0,
    /** Given to it in each millisecond. */
    turnsPerMs: 0,
    looks: 0,
    overruns: [] as (Overrun & { readonly at: number })[],
    deadline: undefined as unknown as WorkDeadline,
    get told() {
      return world.overruns.map(({ reason, by }) => [reason, by]);
    },
    pass(milliseconds: number, step = 5) {
      for (let left = milliseconds; left > 0; left -= step) {
        world.now += step;
        if (world.waitingMs !== undefined) world.waitingMs += step;
        else {
          world.waitedMs += step * world.waits;
          if (world.state === 'R') world.ranMs += step * (1 - world.waits);
        }
        world.processorMs += step * world.uses;
        world.turns += step * world.turnsPerMs;
        t.mock.timers.tick(step);
      }
    },
  };
  const scheduling = (): Scheduling => {
    world.looks++;
    return {
      state: world.state,
      ranMs: world.known ? world.ranMs : undefined,
      turns: world.known ? world.turns : undefined,
      waitedMs: world.known ? world.waitedMs : undefined,
      processorMs: world.known ? world.processorMs : undefined,
    };
  };
  world.deadline = new WorkDeadline({
    pid: () => 1,
    scheduling,
    now: () => world.now,
    onOverrun: (overrun) => world.overruns.push({ ...overrun, at: world.now }),
  });
  return world;
}

for (const [what, state, waits] of [
  ['code that spins', 'R', 0],
  ['code that sleeps', 'S', 0],
] as const)
  test(`${what} has its deadline, and no more`, (t) => {
    const w = thread(t);
    [w.state, w.waits] = [state, waits];
    w.deadline.arm(1000);
    w.pass(995);
    assert.equal(w.overruns.length, 0);
    w.pass(20);
    assert.deepEqual(
      w.overruns.map(({ reason, by, at }) => [reason, by, at >= 1000]),
      [['overran its 1,000 ms', 'code', true]],
    );
    w.pass(5000);
    assert.equal(w.overruns.length, 1);
  });

test('what is answered in time is not looked at, and one that is disarmed never overruns', (t) => {
  const w = thread(t);
  for (let i = 0; i < 100; i++) {
    w.deadline.arm(1000);
    w.pass(15);
    w.deadline.disarm();
  }
  w.pass(20_000, 100);
  assert.deepEqual([w.looks, w.overruns], [0, []]);
});

test('time in which it waits for a processor does not count', (t) => {
  const w = thread(t);
  w.waits = 0.8;
  w.deadline.arm(1000);
  // Before the first look it is not known: those 20 ms count as a whole.
  w.pass(20 + 4870);
  assert.equal(w.overruns.length, 0);
  w.pass(300);
  assert.deepEqual(w.told, [['overran its 1,000 ms', 'code']]);
});

test('time in which it waits behind other threads of its own process counts', (t) => {
  const w = thread(t);
  [w.waits, w.uses] = [0.95, 2];
  w.deadline.arm(1000);
  w.pass(990);
  assert.equal(w.overruns.length, 0);
  w.pass(300);
  assert.deepEqual(w.told, [['overran its 1,000 ms', 'code']]);
  // Its threads have a tenth of a processor between them: that much counts, and no more.
  [w.waits, w.uses] = [0.95, 0.1];
  w.deadline.arm(1000);
  w.pass(5000);
  assert.equal(w.overruns.length, 1);
});

test('a wait that is longer than a look does not count either, though the kernel tells of it when it is over', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(25);
  // It has the processor for 5 ms of each 705.
  for (let i = 0; i < 50; i++) {
    w.waitingMs = 0;
    w.pass(700);
    w.waitedMs += w.waitingMs;
    w.waitingMs = undefined;
    w.pass(5);
  }
  assert.deepEqual(w.overruns, []);
  w.pass(1000);
  assert.deepEqual(w.told, [['overran its 1,000 ms', 'code']]);
});

test('code that sleeps counts as such, whatever it does while it is looked at', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(25);
  for (let i = 0; i < 4 && w.overruns.length === 0; i++) {
    w.state = 'S';
    w.pass(240);
    w.state = 'R';
    w.pass(10);
    w.waitedMs += 0.01;
  }
  w.pass(245);
  assert.deepEqual(w.told, [['overran its 1,000 ms', 'code']]);
});

test('code that gives its processor away waits of its own accord', (t) => {
  const w = thread(t);
  [w.waits, w.turnsPerMs] = [0.995, 0.3];
  w.deadline.arm(1000);
  w.pass(1100);
  assert.deepEqual(w.told, [['overran its 1,000 ms', 'code']]);
});

test('a wait of which it is told while it asks the host for states does not count', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(25);
  w.waitingMs = 0;
  w.pass(4000);
  w.waitedMs += w.waitingMs;
  w.waitingMs = undefined;
  w.pass(5);
  w.deadline.pause();
  w.pass(5000);
  w.deadline.resume();
  w.pass(500);
  assert.deepEqual(w.overruns, []);
});

test('what another of its threads uses counts once', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(25);
  // It sleeps, and is awake when it is looked at.
  w.uses = 1;
  const { ranMs } = w;
  for (let i = 0; i < 19; i++) {
    w.state = i % 10 < 5 ? 'R' : 'S';
    w.pass(50);
    w.ranMs = ranMs;
  }
  assert.deepEqual(w.overruns, []);
});

test('it is given up in the end; kept from the processors it was for others', (t) => {
  const w = thread(t);
  w.waits = 0.99;
  w.deadline.arm(1000);
  w.pass(59_500);
  assert.equal(w.overruns.length, 0);
  w.pass(1000);
  assert.deepEqual(w.told, [
    ['overran its 1,000 ms: it had no answer after 60,000 ms, in which it had the processor for 620 ms', 'starved'],
  ]);
  // It had none at all, and waits.
  w.deadline.arm(1000);
  w.pass(25);
  w.waitingMs = 0;
  w.pass(61_000);
  assert.equal(w.overruns[1]?.by, 'starved');
});

test('one that hangs in the kernel is given up in the end, and not for itself', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.state = 'D';
  w.pass(61_000);
  assert.deepEqual(w.told, [['overran its 1,000 ms: it had no answer after 60,000 ms', 'outside']]);
});

test('one that is stopped is given up after as long, and not for itself; a disk may take its time', (t) => {
  const w = thread(t);
  w.state = 'T';
  w.deadline.arm(1000);
  w.pass(1300);
  assert.deepEqual(w.told, [['overran its 1,000 ms: it was stopped', 'outside']]);
  w.state = 'D';
  w.deadline.arm(1000);
  w.pass(8000);
  assert.equal(w.overruns.length, 1);
  w.state = 'R';
  w.pass(1300);
  assert.deepEqual(w.overruns.at(-1)?.reason, 'overran its 1,000 ms');
});

test('where the kernel counts no waiting all time counts, as it passes', (t) => {
  const w = thread(t);
  [w.known, w.waits] = [false, 0.8];
  w.deadline.arm(1000);
  w.pass(1020);
  assert.equal(w.overruns.length, 1);
});

test('time in which this process stood still counts as that of two looks at most', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(100);
  // Suspended, or its event loop held: the timer is late by an hour.
  w.now += 3_600_000;
  w.ranMs += 3_600_000;
  w.pass(160);
  assert.equal(w.overruns.length, 0);
  w.pass(600);
  assert.equal(w.overruns.length, 1);
});

test('what it waits for the host is not its time', (t) => {
  const w = thread(t);
  w.deadline.arm(1000);
  w.pass(600);
  w.deadline.pause();
  w.pass(5000);
  w.deadline.resume();
  w.pass(380);
  assert.equal(w.overruns.length, 0);
  w.pass(40);
  assert.equal(w.overruns.length, 1);
});

test('an answer that is there when the deadline is over counts', (t) => {
  const w = thread(t);
  w.deadline.arm(20);
  // The mock runs the last look in the tick after the timer's.
  w.now += 20;
  t.mock.timers.tick(19);
  w.deadline.disarm();
  w.pass(1000);
  assert.equal(w.overruns.length, 0);
});

test('the kernel tells of a process, and nothing of one that is gone', { skip: process.platform !== 'linux' }, () => {
  const found = schedulingOf(process.pid);
  assert.match(found?.state ?? '', /^[RSD]$/);
  assert.ok(found?.waitedMs === undefined || found.waitedMs >= 0);
  assert.equal(schedulingOf(2 ** 30), undefined);
});
