import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Runner } from '../../src/code-host/code-host.js';
import { jailOf } from '../../src/jail/launch.js';
import { statOf } from '../../src/jail/process-usage.js';
import { compiled, compileRequest, event, fresh, readable, readableChange } from '../contracts/code-host.contract.js';
import { HOST, item, UNIT, type Fixture, openHost, type Process } from './code-host-fixture.js';

const CODE = `namespace Test;
public sealed record Sum(long Total);
public static class Trouble
{
    public static void Make(Event e)
    {
        switch (e.EventType)
        {
            case "hang": while (true) { }
            case "sleep": Thread.Sleep(Timeout.Infinite); break;
            case "work": for (var until = Environment.CpuUsage.TotalTime + TimeSpan.FromMilliseconds(600); Environment.CpuUsage.TotalTime < until;) { } break;
            case "overflow": Deeper(1); break;
            case "exit": Environment.Exit(3); break;
            case "failfast": Environment.FailFast("on purpose"); break;
            case "thread": var t = new Thread(() => throw new InvalidOperationException("elsewhere")); t.Start(); t.Join(); Thread.Sleep(10_000); break;
            case "memory": var all = new List<byte[]>(); while (true) all.Add(new byte[1_000_000]);
            case "print": Console.WriteLine("out"); Console.Error.WriteLine("err"); Console.In.ReadLine(); break;
            case "throw": throw new InvalidOperationException("no");
        }
    }
    static int Deeper(int n) => n + Deeper(n + 1) + Deeper(n + 2);
}
public sealed class SumReducer : IReducer<Sum>
{
    public Sum? Apply(Sum? s, Event e) { Trouble.Make(e); return new((s?.Total ?? 0) + e.Version); }
}`;
const PROJECTIONS =
  CODE.replace(
    'public sealed class SumReducer : IReducer<Sum>',
    'public sealed class Sums : IMultiKeyProjection<Sum>',
  ).replace(
    'public Sum? Apply(Sum? s, Event e) {',
    `public IEnumerable<string> ResolveKeys(Event e)
    {
        if (e.EventType.StartsWith("key-")) Trouble.Make(e with { EventType = e.EventType[4..] });
        return e.Data.GetProperty("keys").EnumerateArray().Select(k => k.GetString()!);
    }
    public Sum? Apply(Sum? s, Event e, string key) => Apply(s, key == "bad" ? e : e with { EventType = "fine" });
    public Sum? Apply(Sum? s, Event e) {`,
  ) +
  `
public sealed class Bystander : IProjection<Sum>
{
    public string? ResolveKey(Event e) => "all";
    public Sum? Apply(Sum? s, Event e) => new((s?.Total ?? 0) + 1);
}`;

const SHORT = { eventDeadlineMs: 400, batchDeadlineMs: 800, determinismChecks: 'off' } as const;

/**
 * They keep others from the processors. Linux may share these out among sessions: a process with a share of its own is kept from them by
 * many in sessions of their own, one that has what others leave by those of its own session.
 */
const hogs = ({ detached }: { readonly detached: boolean }): ChildProcess[] =>
  Array.from({ length: 8 * availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (const end = Date.now() + 60_000; Date.now() < end;);'], {
      stdio: 'ignore',
      detached,
    }),
  );

const runners = ({ processes }: Fixture): Process[] => processes.filter(({ role }) => role === 'runner');

describe('tenant code that misbehaves', () => {
  let fixture: Fixture;
  let reducer: Buffer;
  let projections: Buffer;
  let tenants = 0;
  before(async () => {
    fixture = openHost(SHORT);
    reducer = (await compiled(fixture.host, 'reducer', CODE)).assembly;
    projections = (await compiled(fixture.host, 'projection', PROJECTIONS)).assembly;
  });
  after(() => fixture.close());
  const tenant = (assembly: Buffer): Runner => {
    const runner = fixture.host.runner(`tenant-${++tenants}`);
    runner.load('artefact', assembly);
    return runner;
  };

  for (const [type, message] of [
    ['hang', 'overran its 400 ms'],
    ['sleep', 'overran its 400 ms'],
    ['overflow', 'ended the process (stack overflow)'],
    ['exit', 'ended the process (exit code 3)'],
    ['failfast', 'ended the process (fail fast)'],
    ['thread', 'ended the process (unhandled exception)'],
    ['memory', 'ended the process (out of memory)'],
  ] as const) {
    it(`${type}: the event is a fault of its aggregate alone, what is around it goes on`, async () => {
      const runner = tenant(reducer);
      const before = fixture.strikes.length;
      const outcomes = await runner.fold([
        item('a', ['x', 'x']),
        item('b', ['x', type, 'x']),
        item('c', ['x', 'x', 'x']),
      ]);
      assert.deepEqual(outcomes.map(readable), [[[2, '{"total":3}']], [[1, '{"total":1}']], [[3, '{"total":6}']]]);
      assert.deepEqual(
        outcomes.map(({ fault }) => fault?.message),
        [undefined, message, undefined],
      );
      assert.deepEqual([outcomes[1]?.fault?.version, outcomes[1]?.fault?.eventId], [2, 'b@2']);
      assert.deepEqual(fixture.strikes.slice(before), [`Test.SumReducer: ${message}`]);
    });
  }

  it('what it prints goes nowhere, and what it reads is empty', async () => {
    assert.deepEqual(readable((await tenant(reducer).fold([item('a', ['print'])]))[0]), [[1, '{"total":1}']]);
  });

  it('calls behind one that crashed are answered, in order', async () => {
    const runner = tenant(reducer);
    const answers = await Promise.all(
      [
        item('a', ['x']),
        item('b', ['exit']),
        item('c', ['x']),
        item('a', ['x'], 1, () => Buffer.from('{"total":1}')),
        item('d', ['throw']),
      ].map((one) => runner.fold([one])),
    );
    assert.deepEqual(
      answers.map(([outcome]) => outcome?.fault?.message ?? readable(outcome)),
      [
        [[1, '{"total":1}']],
        'ended the process (exit code 3)',
        [[1, '{"total":1}']],
        [[2, '{"total":3}']],
        'InvalidOperationException: no',
      ],
    );
  });

  for (const reply of ['each', 'last'] as const) {
    it(`a projection that crashes stops the key alone; without a key, the empty one (${reply})`, async () => {
      const runner = tenant(projections);
      const keyed = (version: number, type: string, ...keys: string[]) => event('a-1', version, type, { keys });
      const asked: string[] = [];
      const changes = await runner.project({
        units: ['Test.Sums', 'Test.Bystander'].map((className) => ({ id: 'p@1', artefactId: 'artefact', className })),
        events: [
          keyed(1, 'x', 'good', 'bad'),
          keyed(2, 'exit', 'good', 'bad', 'late'),
          keyed(3, 'x', 'bad'),
          keyed(4, 'key-exit', 'good'),
          keyed(5, 'key-exit', 'good'),
          keyed(6, 'x', 'good'),
        ],
        stateOf: (unit, key) => (asked.push(`${unit} ${key}`), fresh(unit, key)),
        reply,
      });
      const each = (change: string): string[] => (reply === 'each' ? [change] : []);
      assert.deepEqual(changes.map(readableChange), [
        ...each('0/0 good changed {"total":1}'),
        ...each('0/0 bad changed {"total":1}'),
        ...each('0/1 all changed {"total":1}'),
        ...each('1/0 good changed {"total":3}'),
        '1/0 bad faulted {"total":1} (ended the process (exit code 3))',
        '1/0 late changed {"total":2}',
        ...each('1/1 all changed {"total":2}'),
        '2/0 bad parked {"total":1}',
        ...each('2/1 all changed {"total":3}'),
        "3/0 '' faulted null (ended the process (exit code 3))",
        ...each('3/1 all changed {"total":4}'),
        "4/0 '' parked null",
        ...each('4/1 all changed {"total":5}'),
        '5/0 good changed {"total":9}',
        '5/1 all changed {"total":6}',
      ]);
      assert.equal(new Set(asked.slice(asked.length - 5)).size, 5);
    });
  }
});

describe('processes that are killed', () => {
  let fixture: Fixture;
  before(() => {
    fixture = openHost({ idleMs: 100, determinismChecks: 'off' });
  });
  after(() => fixture.close());

  it('a killed runner is started again, loaded again, and asks for the states again', async () => {
    const runner = fixture.host.runner('t');
    runner.load('artefact', (await compiled(fixture.host, 'reducer', CODE)).assembly);
    await runner.fold([item('a', ['x'])]);
    process.kill(runners(fixture).at(-1)?.pid ?? 0, 'SIGKILL');
    let asked = 0;
    const [outcome] = await runner.fold([item('a', ['x'], 1, () => (asked++, Buffer.from('{"total":1}')))]);
    assert.deepEqual([readable(outcome), outcome?.fault, asked], [[[2, '{"total":3}']], undefined, 1]);
  });

  it('a kill in the middle of a batch is no fault of the code', async () => {
    const runner = fixture.host.runner('u');
    runner.load('artefact', (await compiled(fixture.host, 'reducer', CODE)).assembly);
    const events = Array.from({ length: 20_000 }, () => 'x');
    const answer = runner.fold([item('a', events)]);
    await until(() => runners(fixture).some(({ tenantId }) => tenantId === 'u'));
    process.kill(runners(fixture).find(({ tenantId }) => tenantId === 'u')?.pid ?? 0, 'SIGKILL');
    const [outcome] = await answer;
    assert.deepEqual([readable(outcome), outcome?.fault], [[[20_000, '{"total":200010000}']], undefined]);
    assert.deepEqual(fixture.strikes, []);
  });

  it('one that is stopped for longer than an event may take is no fault of the code', async () => {
    const runner = fixture.host.runner('v');
    runner.load('artefact', (await compiled(fixture.host, 'reducer', CODE)).assembly);
    await runner.fold([item('a', ['x'])]);
    const { pid } = runners(fixture).find(({ tenantId }) => tenantId === 'v') ?? assert.fail('no runner');
    const answer = runner.fold([item('b', ['work'])]);
    process.kill(pid, 'SIGSTOP');
    const [outcome] = await answer;
    assert.deepEqual([readable(outcome), outcome?.fault], [[[1, '{"total":1}']], undefined]);
    assert.deepEqual(
      runners(fixture)
        .filter(({ tenantId }) => tenantId === 'v')
        .map(({ reason }) => reason),
      ['overran its 1,000 ms: it was stopped', undefined],
    );
    assert.deepEqual(fixture.strikes, []);
  });

  it('an event that others keep from the processor for longer than it may take is none either', async (t) => {
    const busy = openHost({ eventDeadlineMs: 1500, batchDeadlineMs: 1500, determinismChecks: 'off' });
    t.after(() => busy.close());
    const runner = busy.host.runner('t');
    runner.load('artefact', (await compiled(busy.host, 'reducer', CODE)).assembly);
    await runner.fold([item('a', ['x'])]);
    const others = hogs({ detached: true });
    t.after(() => others.forEach((one) => one.kill('SIGKILL')));
    const began = performance.now();
    const [outcome] = await runner.fold([item('b', ['work'])]);
    const took = performance.now() - began;
    for (const one of others) one.kill('SIGKILL');
    assert.ok(took > 1500, `it took ${took} ms: the others have not kept it from the processor`);
    assert.deepEqual([readable(outcome), outcome?.fault], [[[1, '{"total":1}']], undefined]);
    assert.deepEqual(busy.strikes, []);
  });

  it('a compiler has what others leave of the processors, and a share of its own where that is nothing', async (t) => {
    if (jailOf(HOST).kind !== 'jailed' || availableParallelism() === 1)
      return t.skip('without a launcher, or on one processor, compilers have a share of their own');
    const busy = openHost({ compilers: 1, compilersGiveWay: true, determinismChecks: 'off' });
    const compile = (): Promise<unknown> => compiled(busy.host, 'reducer', CODE);
    let others: readonly ChildProcess[] = [];
    const endOthers = (): void => others.forEach((one) => one.kill('SIGKILL'));
    t.after(async () => {
      endOthers();
      await busy.close();
    });
    const isSpare = (index: number): boolean =>
      busy.processes[index] !== undefined && statOf(busy.processes[index].pid)?.isSpare === true;
    busy.host.start();
    await until(() => isSpare(0));
    others = hogs({ detached: false });
    // Until they have all begun, one compilation or the other is through.
    const kept = (async () => {
      while (busy.processes.length === 1) await compile();
    })();
    kept.catch(() => undefined);
    await until(() => busy.processes.length === 2, 30_000);
    endOthers();
    await kept;
    await until(() => busy.processes[0]?.reason !== undefined);
    assert.match(busy.processes[0]?.reason ?? '', /too little of the processors/);
    assert.deepEqual([isSpare(1), busy.processes[1]?.reason], [false, undefined]);

    const now = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => now() + 601_000);
    await compile();
    await until(() => busy.processes[1]?.reason !== undefined && isSpare(2));
  });

  it('a compiler that is stopped lacks no processor', async (t) => {
    const host = openHost({ compilers: 1, compilersGiveWay: true, compileDeadlineMs: 4_000, determinismChecks: 'off' });
    t.after(() => host.close());
    await compiled(host.host, 'reducer', CODE);
    const first = host.processes.at(-1) ?? assert.fail('no compiler');
    process.kill(first.pid, 'SIGSTOP');
    const result = await host.host.compile(compileRequest('reducer', { 'code.cs': CODE }));
    assert.deepEqual(
      result.ok ? '' : result.compilationError,
      'error SF0006: The compiler gave up: it took longer than 4,000 ms.',
    );
  });

  it('an idle runner is stopped, and comes back', async () => {
    const runner = fixture.host.runner('t');
    await until(() => runners(fixture).every(({ reason }) => reason !== undefined));
    assert.equal(runners(fixture).at(-1)?.reason, 'idle');
    assert.deepEqual(readable((await runner.fold([item('z', ['x'])]))[0]), [[1, '{"total":1}']]);
  });

  it('a compiler killed in the middle compiles once more; the next upload too', async () => {
    const compiler = fixture.processes.find(({ role }) => role === 'compiler') ?? assert.fail('no compiler');
    const result = fixture.host.compile(compileRequest('reducer', { 'code.cs': CODE }));
    process.kill(compiler.pid, 'SIGKILL');
    assert.equal((await result).ok, true);
    await compiled(fixture.host, 'reducer', CODE);
    assert.equal(fixture.processes.filter(({ role }) => role === 'compiler').length, 2);
  });

  it('as many compilers stand ready as are to be warm, the others start when they are needed', async () => {
    for (const [compilersWarm, ready] of [
      [0, 0],
      [1, 1],
      [3, 2],
    ] as const) {
      const { host, processes, close } = openHost({ compilers: 2, compilersWarm, determinismChecks: 'off' });
      host.start();
      await until(() => processes.length >= ready);
      assert.deepEqual(
        processes.map(({ role }) => role),
        Array<string>(ready).fill('compiler'),
      );
      if (ready === 0) await compiled(host, 'reducer', CODE);
      assert.equal(processes.length, Math.max(1, ready));
      await close();
    }
  });

  it('close ends every process at once, and later calls are refused', async () => {
    const { host, processes, close } = openHost({ determinismChecks: 'off' });
    const runner = host.runner('t');
    runner.load('artefact', (await compiled(host, 'reducer', CODE)).assembly);
    await runner.fold([item('a', ['x'])]);
    const hanging = runner.fold([item('b', ['hang'])]);
    const refused = assert.rejects(hanging, { code: 'UNAVAILABLE' });
    await close();
    await refused;
    for (const { pid } of processes) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    await assert.rejects(host.compile(compileRequest('reducer', {})), { code: 'UNAVAILABLE' });
    assert.throws(() => host.runner('t'), { code: 'UNAVAILABLE' });
  });

  it('a compilation that takes too long is given up', async () => {
    const { host, close } = openHost({ compileDeadlineMs: 1 });
    const result = await host.compile(compileRequest('reducer', { 'code.cs': CODE }));
    await close();
    assert.deepEqual(
      result.ok ? '' : result.compilationError,
      'error SF0006: The compiler gave up: it took longer than 1 ms.',
    );
  });
});

describe('a runner that speaks garbage, or does not start', () => {
  const folder = mkdtempSync(join(tmpdir(), 'statefold-fake-runner-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  const NO_JAIL = { kind: 'none' } as const;
  // Stands in for dotnet: answers the load, then whatever it is told to a fold.
  const fake = (name: string, answer: string): string => {
    const path = join(folder, name);
    writeFileSync(
      path,
      `#!${process.execPath}
const { Socket } = require('node:net');
const socket = new Socket({ fd: 3 });
let key;
const next = () => {
  let [a, b, c, d] = key;
  const sum = (a + d) | 0;
  const result = (((sum << 7) | (sum >>> 25)) + a) >>> 0;
  const shifted = b << 9;
  c ^= a; d ^= b; b ^= c; a ^= d; c ^= shifted;
  key = [a, b, c, (d << 11) | (d >>> 21)];
  return result;
};
const frame = (id, tag, payload = Buffer.alloc(0)) => {
  const head = Buffer.alloc(9);
  head.writeUInt32LE(13 + payload.length);
  head.writeUInt32LE(id, 4);
  head[8] = tag;
  const seal = Buffer.alloc(8);
  seal.writeUInt32LE(next(), 0);
  seal.writeUInt32LE(next(), 4);
  return Buffer.concat([head, payload, seal]);
};
const state = (json, folded = 1) => Buffer.concat([Buffer.from([1, 0, 0, 0, folded, 1, json.length, 0, 0, 0]), Buffer.from(json), Buffer.from([0])]);
let held = Buffer.alloc(0);
socket.on('data', (chunk) => {
  held = Buffer.concat([held, chunk]);
  while (held.length >= 4 && held.length >= 4 + held.readUInt32LE()) {
    const id = held.readUInt32LE(4), tag = held[8];
    if (tag === 8) {
      key = [9, 13, 17, 21].map((at) => held.readInt32LE(at));
      socket.write(frame(0, 128));
    }
    held = held.subarray(4 + held.readUInt32LE());
    if (tag === 2) socket.write(frame(id, 130));
    if (tag === 5) socket.write(${answer});
  }
});
`,
      { mode: 0o755 },
    );
    return path;
  };

  for (const [name, answer, message] of [
    ['noise', "Buffer.from('HTTP/1.1 200 OK')", /spoke garbage: a frame claims/],
    ['another-request', "frame(id + 7, 132, state('{}'))", /spoke garbage: an answer that nobody asked for/],
    ['another-tag', "frame(id, 133, state('{}'))", /spoke garbage: expected an answer 132/],
    ['cut-short', "frame(id, 132, state('{}').subarray(0, 8))", /spoke garbage: a frame ends/],
    ['many', 'frame(id, 132, Buffer.from([255, 255, 255, 255]))', /spoke garbage: a count is larger/],
    ['beyond', "frame(id, 132, state('{}', 2))", /spoke garbage: an index is out of range/],
    ['no-json', 'frame(id, 132, state(\'{"a":}\'))', /spoke garbage: a state is not JSON/],
    [
      'too-deep',
      "frame(id, 132, state('['.repeat(65) + ']'.repeat(65)))",
      /spoke garbage: a state is not JSON: nested deeper/,
    ],
    ['trailing', "frame(id, 132, Buffer.concat([state('{}'), Buffer.from('x')]))", /spoke garbage: a frame goes on/],
    ['missing-nonsense', 'frame(id, 131, Buffer.from([1, 9]))', /spoke garbage: an index is out of range/],
  ] as const) {
    it(`${name}: killed, and the event is a fault`, async () => {
      const { host, processes, close } = openHost({ jail: NO_JAIL, dotnet: fake(name, answer) });
      const runner = host.runner('t');
      runner.load('artefact', Buffer.from('dll'));
      const [outcome] = await runner.fold([item('a', ['x'])]);
      await close();
      assert.match(outcome?.fault?.message ?? '', message);
      assert.equal(processes.length, 2);
    });
  }

  it('a good answer of the same fake is taken', async () => {
    const { host, close } = openHost({ jail: NO_JAIL, dotnet: fake('good', "frame(id, 132, state('{}'))") });
    const runner = host.runner('t');
    runner.load('artefact', Buffer.from('dll'));
    const [outcome] = await runner.fold([item('a', ['x'])]);
    await close();
    assert.deepEqual(readable(outcome), [[1, '{}']]);
  });

  it('without dotnet every call says so', async () => {
    const { host, close } = openHost({ jail: NO_JAIL, dotnet: join(folder, 'absent') });
    const runner = host.runner('t');
    runner.load('artefact', Buffer.from('dll'));
    await assert.rejects(runner.fold([item('a', ['x'])]), { code: 'UNAVAILABLE', message: /could not be started/ });
    await assert.rejects(host.compile(compileRequest('reducer', { 'a.cs': '' })), { code: 'UNAVAILABLE' });
    await close();
  });
});

describe('the parent dies', () => {
  it('its runner goes too, in the middle of a hanging fold', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'statefold-parent-'));
    mkdirSync(folder, { recursive: true });
    try {
      const { host, close } = openHost({ determinismChecks: 'off' });
      const { assembly } = await compiled(host, 'reducer', CODE);
      await close();
      writeFileSync(join(folder, 'code.dll'), assembly);
      const parent = await startParent(folder);
      assert.equal(existsSync(`/proc/${parent.runner}`), true);
      process.kill(parent.pid, 'SIGKILL');
      await until(() => !existsSync(`/proc/${parent.runner}`));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** A service that has a runner in an endless loop. */
async function startParent(folder: string): Promise<{ readonly pid: number; readonly runner: number }> {
  const { spawn } = await import('node:child_process');
  const script = `
    import { readFileSync } from 'node:fs';
    import { openHost } from ${JSON.stringify(new URL('./code-host-fixture.js', import.meta.url).href)};
    const { host, processes } = openHost({ determinismChecks: 'off' });
    const runner = host.runner('t');
    runner.load('artefact', readFileSync(${JSON.stringify(join(folder, 'code.dll'))}));
    const event = (version, eventType) => ({ eventId: 'e', aggregateId: 'a', aggregateType: 'a', eventType, version, timestamp: 0, data: Buffer.from('{}') });
    const fold = (version, type) => runner.fold([{ unit: ${JSON.stringify(UNIT)}, aggregateId: 'a', baseVersion: version - 1, baseState: () => null, events: [event(version, type)], stateAt: [] }]);
    await fold(1, 'x');
    void fold(2, 'hang');
    setImmediate(() => console.log(processes.at(-1).pid));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await new Promise<[Buffer]>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve([chunk])),
  );
  return { pid: child.pid ?? 0, runner: Number(line.toString()) };
}

async function until(condition: () => boolean, deadlineMs = 10_000): Promise<void> {
  const deadline = Date.now() + deadlineMs;
  while (!condition()) {
    assert.ok(Date.now() < deadline, 'the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
