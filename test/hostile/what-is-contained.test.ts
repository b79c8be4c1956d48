// Invariants 18 and 19: code that ends, fills, floods or hangs its process harms only the event that it was given, and another tenant does not notice.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { tally } from '../support/csharp.js';
import { AS_ADMIN, until } from '../support/service.js';
import { noJail, openWorld, runnersOf } from './escape-world.js';
import { Neighbour, waitedForProcessors } from './neighbour.js';
import { MODULE_INITIALIZER, NASTY } from './probes.js';
import { NUMBERS } from './system-calls.js';

const MIB = 1024 * 1024;
/** Below this a ratio says more of the machine than of the service. */
const FLOOR_MS = 50;
const QUIET_WINDOWS = 5;
const APPENDS_PER_WINDOW = 60;

interface Nasty {
  readonly text: string;
}

/** Reasons of a fault: how the process ended, or what it was killed for. */
const OVERRAN = /^fault: overran its/;
const ENDED = /^fault: ended the process/;
const GARBAGE = /^fault: spoke garbage/;
/** What runs out of memory may also be too slow to say so. */
const MEMORY = /^fault: (.*OutOfMemoryException|.*out of memory|took \d+ MiB of memory|ended the process|overran its)/;
const THREADS = /^fault: (ran \d+ threads|.*OutOfMemoryException|ended the process|overran its)/;

/** Of the log: either is a strike. */
const STOPPED_FOR_MEMORY = /(took \d+ MiB of memory|overran its).+tenant code was stopped/;

/** What an earlier probe left behind may be in the way of the next. */
const LEFT = /^state: survived$|^fault: overran its/;

/** No memory was left to it from the start. */
const FULL = 'errno 12 after 0 MiB';

/** What becomes of the event: `fault: …`, or `state: …` where it counts and what the code left behind is its own tenant's affair. */
const PROBES: Readonly<Record<string, RegExp>> = {
  Loop: OVERRAN,
  LoopInThreads: THREADS,
  SleepInThreads: THREADS,
  FloodThePool: THREADS,
  Managed: MEMORY,
  Native: MEMORY,
  Mapped: /^state: errno 12$|^fault: (took|overran)/,
  Shared: /^fault: (took \d+ MiB of memory|overran)|^state: errno 12 after [1-9]\d{1,2} MiB$/,
  SharedSlowly: /^fault: (took \d+ MiB of memory|overran its)/,
  Descriptors: /^state: errno 24 after \d{2,3}$|^fault: ended/,
  Overflow: /^fault: .*stack overflow/,
  FailFast: ENDED,
  Exit: ENDED,
  HangAtExit: OVERRAN,
  HandleAll: /^fault: (overran its|ended the process)/,
  FirstChance: OVERRAN,
  AsyncVoid: ENDED,
  Signal: ENDED,
  Console: /^state: survived$/,
  RawOutput: /^state: survived$/,
  RawErrors: OVERRAN,
  Life: GARBAGE,
  Garbage: GARBAGE,
  ReadyAgain: GARBAGE,
  Reflect: GARBAGE,
  SafeHandle: GARBAGE,
  Flood: GARBAGE,
  Trickle: /^fault: (overran its|spoke garbage)/,
  StealFrames: OVERRAN,
  CloseAll: /^fault: (overran its|ended the process)/,
  Huge: /^fault: (.*(too large|at most|bytes)|ended the process \(out of memory\)|took)/,
  Deep: /^fault: .*(depth|cycle)/,
  Cyclic: /^fault: .*(depth|cycle)/,
  Timers: LEFT,
  LeaveThreads: LEFT,
  Finalizers: LEFT,
  FinalizersThrow: ENDED,
};

test('uploaded code is contained', { skip: noJail }, async (t) => {
  const { service, attacker, neighbour } = await openWorld(t, {
    RUNNER_EVENT_DEADLINE_MS: '1000',
    RUNNER_BATCH_DEADLINE_MS: '1000',
    ARTEFACT_STRIKES: '0',
  });
  const resident = (pid: number): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
  await neighbour.deploy(tally('calm'));
  await attacker.deploy(NASTY);
  const other = new Neighbour(neighbour, () => waitedForProcessors(process.pid, service.pid));
  other.start();
  other.measure('between');
  await until(() => other.measured >= APPENDS_PER_WINDOW, 120_000);
  await attacker.run('Calm');
  for (let window = 0; window < QUIET_WINDOWS; window++) {
    other.measure('quiet');
    await until(() => other.measured >= APPENDS_PER_WINDOW, 120_000);
  }
  const before = resident(service.pid);

  /** The tenant itself goes on. On a busy machine a new process may be too slow for its first event. */
  const goesOn = (): Promise<void> =>
    until(async () => (await attacker.run<Nasty>('Calm')).state?.text === 'survived', 60_000);
  for (const [name, pattern] of Object.entries(PROBES))
    await t.test(name, async () => {
      other.measure('nasty');
      const told = service.output.length;
      const run = (): ReturnType<typeof attacker.run<Nasty>> => attacker.run<Nasty>(name, { close: NUMBERS['close'] });
      let { state, fault } = await run();
      // The probe before, tried once more after it was stopped, may have filled this process: it is stopped too, when it is looked at.
      if (state?.text === FULL)
        await until(async () => {
          ({ state, fault } = await run());
          return state?.text !== FULL;
        }, 60_000);
      // What it left behind goes on.
      if (pattern === LEFT) await until(() => other.measured >= APPENDS_PER_WINDOW, 120_000);
      other.measure('between');
      assert.match(fault === undefined ? `state: ${state?.text}` : `fault: ${fault.message}`, pattern);
      // Its answer may have come before what it took was seen: it is stopped all the same.
      if (name === 'Shared') await until(() => STOPPED_FOR_MEMORY.test(service.output.slice(told)), 60_000);
      await goesOn();
    });

  if (process.arch === 'x64')
    await t.test('system calls of 32 bits end the process', async () => {
      const { fault } = await attacker.run<Nasty>('OldCalls');
      assert.match(fault?.message ?? 'no fault', /SIGSYS|SIGSEGV/);
    });

  await t.test('a module initializer that hangs', async () => {
    await attacker.deploy(MODULE_INITIALIZER);
    const { state, fault } = await attacker.run('Any', {}, 'late');
    assert.match(fault === undefined ? `state: ${JSON.stringify(state)}` : `fault: ${fault.message}`, OVERRAN);
    await goesOn();
  });

  await t.test('an answer that the code writes itself is not taken', async () => {
    // A fresh process, whose first request is the artefact and the second this event.
    await attacker.run('Exit');
    const { fault } = await attacker.run<Nasty>('Forge', { request: 2 });
    assert.match(fault?.message ?? 'no fault', /^spoke garbage: a frame has a wrong seal/);
    await goesOn();
  });

  await t.test('threads left behind use up what they may, and are a strike', async () => {
    const figure = async (name: string): Promise<number> => {
      const { text } = await service.get('/metrics', AS_ADMIN);
      return Number(new RegExp(`^statefold_code_host_${name} (\\d+)$`, 'm').exec(text)?.[1] ?? NaN);
    };
    const before = await figure('strikes_total');
    other.measure('nasty');
    const told = service.output.length;
    await attacker.run('LeaveHundred');
    const stopped = /used more than 3,000 ms of processor time beside its work.+tenant code was stopped/;
    await until(() => stopped.test(service.output.slice(told)), 120_000);
    await until(async () => (await figure('strikes_total')) > before, 120_000);
    await until(() => other.measured >= APPENDS_PER_WINDOW, 120_000);
    other.measure('between');
    await goesOn();
  });

  await t.test('what one tenant keeps, another does not see', async () => {
    await neighbour.deploy(NASTY.replaceAll('"probe"', '"spy"'));
    await attacker.run('Set');
    const [mine, theirs] = [await attacker.run<Nasty>('Get'), await neighbour.run<Nasty>('Get', {}, 'spy')];
    assert.equal(mine.state?.text, '42');
    assert.equal(theirs.state?.text, '0');
  });

  await t.test('the neighbour has not noticed', async (t) => {
    await other.stop();
    const [quiet, nasty] = [other.p99('quiet'), other.p99('nasty')];
    t.diagnostic(`p99 of the neighbour: ${quiet.toFixed(1)} ms in quiet, ${nasty.toFixed(1)} ms beside hostile code`);
    assert.ok(
      nasty <= Math.max(2 * quiet, FLOOR_MS),
      `${nasty.toFixed(1)} ms beside hostile code, ${quiet.toFixed(1)} ms in quiet`,
    );
  });

  await t.test('nor has the service', async () => {
    assert.ok(runnersOf(service).length <= 2);
    await until(() => resident(service.pid) - before < 300 * MIB, 60_000);
    assert.doesNotMatch(service.output, /"level":"(error|fatal)"/);
    assert.ok(service.output.length < MIB, 'what the code prints is not kept');
  });
});
