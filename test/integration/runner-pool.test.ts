import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FoldOutcome, Runner } from '../../src/code-host/code-host.js';
import { compiled, readable } from '../contracts/code-host.contract.js';
import { until } from '../support/service.js';
import { item, openHost, type Fixture, type Process } from './code-host-fixture.js';

const CODE = `using System.Runtime.InteropServices;
namespace Test;
public sealed record Sum(long Total);
public sealed class SumReducer : IReducer<Sum>
{
    static readonly List<IntPtr> Kept = [];
    public Sum? Apply(Sum? s, Event e)
    {
        switch (e.EventType)
        {
            case "native": for (var i = 0; i < 400; i++) Take(1); Thread.Sleep(Timeout.Infinite); break;
            case "drop": Take(8); break;
            case "pieces": for (var i = 0; i < 60_000; i++) mmap(0, 4096, i % 2, 0x22, -1, 0); Thread.Sleep(Timeout.Infinite); break;
            case "threads": for (var i = 0; i < 100; i++) Leave(Timeout.Infinite); Thread.Sleep(Timeout.Infinite); break;
            case "leave": Leave(Timeout.Infinite); break;
            case "later": new Thread(() => { for (var i = 0; i < 400; i++) Take(1); }) { IsBackground = true }.Start(); break;
        }
        return new((s?.Total ?? 0) + e.Version);
    }
    [DllImport("libc")] static extern nint mmap(nint address, nint length, int protection, int flags, int descriptor, nint offset);
    static void Take(int mebibytes)
    {
        var bytes = (nint)mebibytes * 1024 * 1024;
        var p = Marshal.AllocHGlobal(bytes);
        for (nint at = 0; at < bytes; at += 4096) Marshal.WriteByte(p + at, 1);
        lock (Kept) Kept.Add(p);
    }
    static void Leave(int ms) => new Thread(() => Thread.Sleep(ms), 64 * 1024) { IsBackground = true }.Start();
}`;

const live = ({ processes }: Fixture): Process[] =>
  processes.filter(({ role, reason }) => role === 'runner' && reason === undefined);
const LONG = { eventDeadlineMs: 60_000, batchDeadlineMs: 60_000, turnMs: 20 };

let code: Promise<Buffer> | undefined;
async function compileOnce(): Promise<Buffer> {
  const { host: compiler, close } = openHost({ determinismChecks: 'off' });
  try {
    return (await compiled(compiler, 'reducer', CODE)).assembly;
  } finally {
    await close();
  }
}

async function host(
  options: Parameters<typeof openHost>[0],
): Promise<{ readonly fixture: Fixture; readonly tenant: (id: string) => Runner; readonly most: () => number }> {
  const assembly = await (code ??= compileOnce());
  const fixture = openHost({ ...LONG, ...options });
  const tenant = (id: string): Runner => {
    const runner = fixture.host.runner(id);
    if (!runner.has('artefact')) runner.load('artefact', assembly);
    return runner;
  };
  return { fixture, tenant, most: () => fixture.mostRunners };
}

describe('the places of runners', () => {
  it('twenty tenants share three places; a runner that comes back folds on from the states that it is given', async () => {
    const { fixture, tenant, most } = await host({ maxRunners: 3 });
    try {
      for (let round = 0; round < 3; round++) {
        const outcomes = await Promise.all(
          Array.from({ length: 20 }, (_, n) =>
            tenant(`t${n}`).fold([
              item(`a${n}`, ['x'], round, () => Buffer.from(`{"total":${(round * (round + 1)) / 2}}`)),
            ]),
          ),
        );
        const total = ((round + 1) * (round + 2)) / 2;
        assert.deepEqual(
          outcomes.map(([outcome]) => [readable(outcome as FoldOutcome), outcome?.fault]),
          outcomes.map(() => [[[round + 1, `{"total":${total}}`]], undefined]),
        );
      }
      assert.ok(most() <= 3, `${most()} runners at once`);
      assert.deepEqual(fixture.strikes, []);
      // Each came back at least once in the later rounds: more starts than tenants, and no more than one a call.
      const starts = fixture.processes.filter(({ role }) => role === 'runner').length;
      assert.ok(starts > 20 && starts <= 60, `${starts} starts`);
    } finally {
      await fixture.close();
    }
  });

  it('the longest idle runner makes room', async () => {
    const { fixture, tenant } = await host({ maxRunners: 2 });
    try {
      for (const id of ['old', 'young', 'new']) await tenant(id).fold([item('a', ['x'])]);
      await until(() => live(fixture).length <= 2);
      assert.deepEqual(
        live(fixture).map(({ tenantId }) => tenantId),
        ['young', 'new'],
      );
    } finally {
      await fixture.close();
    }
  });

  it('tenants that always have work do not keep another one out', async () => {
    const { fixture, tenant } = await host({ maxRunners: 2 });
    let stop = false;
    try {
      const busy = ['b1', 'b2'].map(async (id) => {
        let calls = 0;
        // Two ahead: the runner is never without a call.
        const lanes = ['x', 'y', 'z'].map(async (lane) => {
          for (let version = 0; !stop; version++, calls++)
            await tenant(id).fold([item(`${lane}`, ['x'], version, () => Buffer.from('{"total":0}'))]);
        });
        await Promise.all(lanes);
        return calls;
      });
      await until(() => live(fixture).length === 2);
      for (let n = 0; n < 3; n++)
        assert.deepEqual(readable((await tenant(`late-${n}`).fold([item('a', ['x'])]))[0] as FoldOutcome), [
          [1, '{"total":1}'],
        ]);
      stop = true;
      for (const calls of await Promise.all(busy)) assert.ok(calls > 0);
      assert.ok(fixture.processes.some(({ reason }) => reason === 'made room'));
      assert.deepEqual(fixture.strikes, []);
    } finally {
      stop = true;
      await fixture.close();
    }
  });

  it('what all take together is bounded too', async () => {
    const { fixture, tenant, most } = await host({ maxRunnersBytes: 150 * 1024 * 1024 });
    try {
      await Promise.all(Array.from({ length: 6 }, (_, n) => tenant(`t${n}`).fold([item('a', ['x'])])));
      assert.ok(most() < 4, `${most()} runners at once`);
    } finally {
      await fixture.close();
    }
  });
});

describe('what a runner may take', () => {
  for (const [type, message] of [
    ['native', /^took \d+ MiB of memory, more than its 300 MiB$/],
    ['threads', /^ran \d+ threads, more than its 100$/],
    ['pieces', /^mapped its memory in more than 16,384 pieces$/],
  ] as const) {
    it(`${type}: past it the runner is killed, and the event that does it alone is a fault and a strike`, async () => {
      const { fixture, tenant } = await host({ maxResidentBytes: 300 * 1024 * 1024, maxThreads: 100, pollMs: 50 });
      try {
        const [good, bad] = await tenant('t').fold([item('good', ['x', 'x']), item('bad', ['x', type, 'x'])]);
        assert.deepEqual([readable(good as FoldOutcome), good?.fault], [[[2, '{"total":3}']], undefined]);
        assert.deepEqual([readable(bad as FoldOutcome), bad?.fault?.version], [[[1, '{"total":1}']], 2]);
        assert.match(bad?.fault?.message ?? '', message);
        // The kill of the whole batch, and that of the event alone.
        assert.equal(fixture.strikes.length, 2);
        for (const strike of fixture.strikes) assert.match(strike.slice('Test.SumReducer: '.length), message);
      } finally {
        await fixture.close();
      }
    });
  }

  for (const type of ['drop', 'leave']) {
    it(`${type}: many small leaks are no event's fault, but strikes`, async () => {
      const { fixture, tenant } = await host({ maxResidentBytes: 300 * 1024 * 1024, maxThreads: 100, pollMs: 20 });
      try {
        let version = 0;
        while (fixture.strikes.length < 2 && version < 2000) {
          const total = (version * (version + 1)) / 2;
          const [outcome] = await tenant('t').fold([
            item('a', [type], version, () => Buffer.from(`{"total":${total}}`)),
          ]);
          assert.equal(outcome?.fault, undefined);
          assert.deepEqual(readable(outcome as FoldOutcome), [[version + 1, `{"total":${total + version + 1}}`]]);
          version++;
        }
        assert.equal(fixture.strikes.length, 2);
      } finally {
        await fixture.close();
      }
    });
  }

  it('later: what an event left behind ends the idle runner, and is a strike', async () => {
    const { fixture, tenant } = await host({ maxResidentBytes: 300 * 1024 * 1024, pollMs: 50 });
    try {
      assert.equal((await tenant('t').fold([item('a', ['later'])]))[0]?.fault, undefined);
      await until(() => fixture.strikes.length === 1 && live(fixture).length === 0, 60_000);
      assert.deepEqual(readable((await tenant('t').fold([item('b', ['x'])]))[0] as FoldOutcome), [[1, '{"total":1}']]);
    } finally {
      await fixture.close();
    }
  });
});
