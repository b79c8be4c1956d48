// Invariants 18 and 19: whatever one tenant's code does, it is told where it failed, and everything else goes on.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { Api, success, type Appended } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, startService, until } from '../support/service.js';

const MIB = 1024 * 1024;

/** Each body of `Apply` is the worst of its kind; `{}` stands for the state that is otherwise given. */
const HOSTILE: Readonly<Record<string, string>> = {
  Throws: "throw new Exception(new string('x', 5_000_000));",
  Hangs: 'while (true) { }',
  Sleeps: 'Thread.Sleep(Timeout.Infinite); return null;',
  Overflows: 'return Overflow(state, e, 0);',
  FailsFast: 'Environment.FailFast("gone"); return null;',
  Exits: 'Environment.Exit(0); return null;',
  Allocates:
    'var all = new List<byte[]>(); while (true) { var one = new byte[16 << 20]; Array.Fill(one, (byte)1); all.Add(one); }',
  Huge: "return new(1, new string('x', 400 << 20), null);",
  Cyclic: 'var loop = new Node(); loop.Next = loop; return new(1, "", loop);',
  Deep: 'var node = new Node(); for (var i = 0; i < 2000; i++) node = new Node { Next = node }; return new(1, "", node);',
  NotANumber: 'return new(double.NaN, "", null);',
  LoneSurrogate: 'return new(1, "\\ud800", null);',
  ThrowsLater: 'return new(1, "", new Bomb());',
  Prints: 'for (var i = 0; i < 200_000; i++) Console.WriteLine("noise that nobody reads"); return new(1, "", null);',
  LeavesThreads:
    'for (var i = 0; i < 20; i++) new Thread(() => Thread.Sleep(Timeout.Infinite)) { IsBackground = true }.Start(); return new(1, "", null);',
};
/** What is no fault: the state comes, and what the code left behind is the runner's own affair. */
const HARMLESS = ['Prints', 'LeavesThreads'];

const source = (name: string, body: string): string => `namespace Hostile;

[AggregateType("${name}")]
public sealed class ${name}Reducer : IReducer<State>
{
    public State? Apply(State? state, Event e)
    {
        if (e.EventType == "Calm") return new((state?.Count ?? 0) + 1, "calm", null);
        ${body}
    }
${name === 'Overflows' ? '    private static State? Overflow(State? state, Event e, int depth) => Overflow(state, e, depth + 1) is { } s ? s with { Count = depth } : null;\n' : ''}}

public sealed record State(double Count, string Text, Node? Node);
public class Node { public virtual Node? Next { get; set; } }
public sealed class Bomb : Node { public override Node? Next => throw new InvalidOperationException("in a getter"); }
`;

test('hostile code', async (t) => {
  const env = {
    RUNNER_EVENT_DEADLINE_MS: '400',
    RUNNER_BATCH_DEADLINE_MS: '800',
    FOLD_DEADLINE_MS: '60000',
    COMPILE_DEADLINE_MS: '5000',
    COMPILATIONS_DIR: '',
    DETERMINISM_CHECKS: 'off',
  };
  const service = await startService(t, { env });
  const made = success(
    await new Api(service, null).post('/admin/tenants', { tenantId: 'neighbour' }, AS_ADMIN),
    201,
  ).json<{ apiKey: string }>();
  const [api, neighbour] = [new Api(service), new Api(service, made.apiKey)];
  const residentBytes = (): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) * 1024;
  await neighbour.deployReducer({ 'Tally.cs': tally('calm') });
  await api.deployReducer({ 'Tally.cs': tally('calm') });
  const before = residentBytes();

  /** The neighbour appends all the while, each answer with its state. */
  let stop = false;
  let slowest = 0;
  const going = (async () => {
    let n = 0;
    while (!stop) {
      const began = performance.now();
      const { state } = await neighbour.append('calm-1', 'A');
      slowest = Math.max(slowest, performance.now() - began);
      assert.deepEqual(state, { count: ++n, version: n, last: 'A' });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return n;
  })();

  try {
    for (const [name, body] of Object.entries(HOSTILE))
      await t.test(name, async () => {
        await api.deployReducer({ [`${name}.cs`]: source(name, body) });
        success(
          await api.post('/events', { aggregateId: `${name}-1`, eventType: 'Calm', data: {}, aggregateType: name }),
          201,
        );
        const worst = success(
          await api.post('/events', { aggregateId: `${name}-1`, eventType: 'Worst', data: {} }),
          201,
        ).json<Appended>();
        const state = await api.read<{
          version: number;
          state: { count: number; text: string } | null;
          fault?: { version: number; className: string; message: string; file: string | null; line: number | null };
        }>(`/aggregate-types/${name}/${name}-1/state`);
        if (HARMLESS.includes(name)) {
          assert.deepEqual([worst.stateStatus, state.version, state.fault], [undefined, 2, undefined]);
        } else {
          assert.deepEqual(
            [worst.state, worst.stateStatus],
            [undefined, 'faulted'],
            JSON.stringify(worst).slice(0, 300),
          );
          assert.deepEqual([state.version, state.state?.count, state.state?.text], [1, 1, 'calm']);
          assert.deepEqual([state.fault?.version, state.fault?.className], [2, `Hostile.${name}Reducer`]);
          assert.ok((state.fault?.message.length ?? 0) > 0 && (state.fault?.message.length ?? 0) < 10_000);
          if (name === 'Throws') assert.deepEqual([state.fault?.file, state.fault?.line], ['Throws.cs', 9]);
        }
        // The same tenant's other code goes on too, in whatever process it then runs.
        const { state: calm } = await api.append(`calm-${name}`, 'A');
        assert.deepEqual(calm, { count: 1, version: 1, last: 'A' });
        assert.deepEqual((await api.append(`${name}-2`, 'Calm', {}, { aggregateType: name })).state, {
          count: 1,
          text: 'calm',
          node: null,
        });
      });

    await t.test('a projection: hostile keys and states fault their key, and the others are told', async () => {
      const id = await api.deployProjection({
        'Hostile.cs': totals('Hostile').replace(
          'e.Data.TryGetProperty("key", out var key) ? key.GetString() : null;',
          'e.EventType == "Evil" ? e.Data.GetProperty("key").GetString() switch { "throw" => throw new Exception("no key"), "hang" => Forever(), "long" => new string(\'k\', 100_000_000), "lone" => "\\ud800", _ => "" } : e.Data.TryGetProperty("key", out var key) ? key.GetString() : null;\n\n    private static string Forever() { while (true) { } }',
        ),
      });
      for (const [i, key] of ['throw', 'hang', 'long', 'lone', 'empty'].entries()) {
        await api.append('evil-1', 'Evil', { key, n: 1 });
        await api.append('evil-1', 'Added', { key: 'sound', n: 1 });
        const found = await api.notifications(id, i + 1, '&key=sound');
        assert.deepEqual(
          found.map(({ state }) => (state as { total: number }).total),
          Array.from({ length: i + 1 }, (_, n) => n + 1),
        );
      }
    });

    await t.test('compile bombs are refused or done, and the compiler goes on', async () => {
      const bombs: Readonly<Record<string, string>> = {
        nesting: `class A { int X = ${'('.repeat(20_000)}1${')'.repeat(20_000)}; }`,
        binary: `class A { int X = ${'1+'.repeat(20_000)}1; }`,
        generics: `class A<T> { class B<U> : A<A<A<U>>> { } } class C { A<${'A<'.repeat(300)}int${'>'.repeat(300)}> x; }`,
        constant: 'class A { const string X = "x"; const string Y = X + X; }'.replace(
          '"x"',
          `"${'x'.repeat(4 * MIB)}"`,
        ),
        lambdas: `class A { object X = ${'() => '.repeat(2000)}1; }`,
        directives: '#if A\n'.repeat(20_000),
        name: `class ${'N'.repeat(100_000)} { }`,
      };
      for (const [name, text] of Object.entries(bombs)) {
        const { reducerId } = success(await api.upload('reducers', { [`${name}.cs`]: text }), 202).json<{
          reducerId: string;
        }>();
        const record = await api.compiled<{ status: string; compilationError: string }>('reducers', reducerId);
        assert.equal(record.status, 'failed', name);
        assert.match(record.compilationError, /^\S.*(CS|SF)\d{4}/m, name);
        assert.ok(record.compilationError.length > 0 && record.compilationError.length < 128 * 1024, name);
      }
      await api.deployReducer({ 'After.cs': tally('after') });
    });
  } finally {
    stop = true;
  }
  const appended = await going;

  await t.test('the neighbour and the service have not noticed', async () => {
    assert.ok(appended > 100 && slowest < 10_000, `${appended} appends, the slowest took ${Math.round(slowest)} ms`);
    await until(() => residentBytes() - before < 300 * MIB);
    assert.deepEqual(
      service.output
        .split('\n')
        .filter((line) => /"level":"(error|fatal)"/.test(line))
        .slice(0, 1),
      [],
    );
  });
});
