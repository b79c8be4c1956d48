import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { after, before, describe, it } from 'node:test';
import type {
  CodeHost,
  CompileRequest,
  CompileResult,
  FoldOutcome,
  HostEvent,
  ProjectChange,
  ProjectRequest,
  State,
} from '../../src/code-host/code-host.js';

type Files = Readonly<Record<string, string>>;

export const compileRequest = (kind: CompileRequest['kind'], files: Files): CompileRequest => ({
  kind,
  sources: () => PackedSources.pack(Object.entries(files).map(([path, text]) => ({ path, text }))),
});

export async function compiled(
  host: CodeHost,
  kind: CompileRequest['kind'],
  text: string,
): Promise<Extract<CompileResult, { ok: true }>> {
  const result = await host.compile(compileRequest(kind, { 'code.cs': text }));
  assert.ok(result.ok, result.ok ? '' : result.compilationError);
  return result;
}

export const event = (
  aggregateId: string,
  version: number,
  eventType: string,
  data: unknown = {},
  more: Partial<HostEvent> = {},
): HostEvent => ({
  eventId: `${aggregateId}@${version}`,
  aggregateId,
  aggregateType: aggregateId.split('-')[0] ?? '',
  eventType,
  version,
  timestamp: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  correlationId: undefined,
  causationId: undefined,
  data: Buffer.from(typeof data === 'string' ? data : JSON.stringify(data)),
  metadata: undefined,
  ...more,
});

/** States as text, so that a failure can be read. */
export const readable = (outcome: FoldOutcome | undefined): unknown[] =>
  outcome?.states.map(({ version, state }) => [version, text(state)]) ?? [];
export const text = (state: State): string | null => (state === null ? null : state.toString());
export const readableChange = (change: ProjectChange): string =>
  `${change.event}/${change.unit} ${change.key || "''"} ${change.outcome} ${text(change.state) ?? 'null'}${change.fault === undefined ? '' : ` (${change.fault.message})`}`;

export const noState = (): State => null;
export const fresh: ProjectRequest['stateOf'] = () => ({ state: null, faulted: false });

export const COUNTER = `namespace Test;
public sealed class Counter { public int Count { get; set; } public List<string> Seen { get; set; } = []; }
public sealed class CounterReducer : IReducer<Counter>
{
    public Counter? Apply(Counter? state, Event e)
    {
        state ??= new Counter();
        state.Count++;                       // in place: a throw below must not leave it changed
        state.Seen.Add(e.EventType);
        return e.EventType switch
        {
            "throw" => throw new InvalidOperationException("no such thing: " + e.Version),
            "clear" => null,
            _ => state,
        };
    }
}`;
const COUNTER_THROWS_AT_LINE = 12;

const TAGS = `namespace Test;
public sealed record Tally(int Count, long Sum);
public sealed class ByTag : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.Data.TryGetProperty("tag", out var tag) ? tag.GetString() : e.EventType == "lost" ? throw new KeyNotFoundException("no tag") : null;
    public Tally? Apply(Tally? t, Event e) => e.EventType switch
    {
        "throw" => throw new ArgumentException("bad"),
        "same" => t,
        "clear" => null,
        _ => new Tally((t?.Count ?? 0) + 1, (t?.Sum ?? 0) + e.Data.GetProperty("n").GetInt64()),
    };
}
public sealed class Pairs : IMultiKeyProjection<Tally>
{
    public IEnumerable<string> ResolveKeys(Event e) => e.EventType == "pair" ? [e.AggregateId, "all", e.AggregateId] : [];
    public Tally? Apply(Tally? t, Event e) => throw new NotSupportedException();
    public Tally? Apply(Tally? t, Event e, string key) => new((t?.Count ?? 0) + 1, key.Length);
}`;

/** Every adapter of the code host passes this. */
export function codeHostContract(
  name: string,
  open: () => { readonly host: CodeHost; readonly close: () => Promise<void> },
): void {
  describe(`code host contract: ${name}`, () => {
    let host: CodeHost;
    let close: () => Promise<void>;
    let tenants = 0;
    before(() => {
      ({ host, close } = open());
    });
    after(() => close());

    const tenantWith = async (kind: CompileRequest['kind'], code: string) => {
      const runner = host.runner(`tenant-${++tenants}`);
      runner.load('artefact', (await compiled(host, kind, code)).assembly);
      return runner;
    };
    const unit = (className: string) => ({ artefactId: 'artefact', className });

    it('finds every reducer, its type from the attribute or the name', async () => {
      const { discovered } = await compiled(
        host,
        'reducer',
        `namespace Shop;
        public record State(int Count);
        [AggregateType("order.v2")] public class Orders : IReducer<State> { public State? Apply(State? s, Event e) => s; }
        public abstract class Base<T> : IReducer<T> { public T? Apply(T? s, Event e) => s; }
        public class Outer { internal class OrderLineReducer : Base<Dictionary<string, int>> { } }
        public class CartReducer : IReducer<int> { public int Apply(int s, Event e) => s + 1; }
        public class ByKey : IProjection<State> { public string? ResolveKey(Event e) => null; public State? Apply(State? s, Event e) => s; }`,
      );
      assert.deepEqual(discovered, [
        { className: 'Shop.CartReducer', stateTypeName: 'System.Int32', kind: 'reducer', aggregateType: 'cart' },
        { className: 'Shop.Orders', stateTypeName: 'Shop.State', kind: 'reducer', aggregateType: 'order.v2' },
        {
          className: 'Shop.Outer.OrderLineReducer',
          stateTypeName: 'System.Collections.Generic.Dictionary<System.String, System.Int32>',
          kind: 'reducer',
          aggregateType: 'orderLine',
        },
      ]);
    });

    it('finds projections of both kinds, without an aggregate type', async () => {
      const { discovered } = await compiled(host, 'projection', TAGS);
      assert.deepEqual(discovered, [
        { className: 'Test.ByTag', stateTypeName: 'Test.Tally', kind: 'projection' },
        { className: 'Test.Pairs', stateTypeName: 'Test.Tally', kind: 'projection' },
      ]);
    });

    it('answers errors with their places, and as a compiler prints them', async () => {
      const result = await host.compile(
        compileRequest('reducer', {
          'src/good.cs': COUNTER,
          'src/bad.cs': 'class A {\n  int x = "text";\n  void M() { y(); }\n}',
        }),
      );
      assert.ok(!result.ok);
      assert.deepEqual(result.compilationError.split('\n'), [
        "src/bad.cs(2,11): error CS0029: Cannot implicitly convert type 'string' to 'int'",
        "src/bad.cs(3,14): error CS0103: The name 'y' does not exist in the current context",
      ]);
      const { severity, code, file, line, column } = result.diagnostics[0] ?? {};
      assert.deepEqual(
        { severity, code, file, line, column },
        { severity: 'error', code: 'CS0029', file: 'src/bad.cs', line: 2, column: 11 },
      );
    });

    for (const [what, kind, code, expected] of [
      [
        'an upload without what it is for',
        'projection',
        COUNTER,
        /SF0001: No class in the upload implements IProjection<T>/,
      ],
      [
        'a reducer sent as a projection',
        'projection',
        COUNTER,
        /SF0001: .*implements IReducer<T>: send it to POST \/reducers\/upload\./,
      ],
      [
        'a projection sent as a reducer',
        'reducer',
        'class P : IProjection<int> { public string? ResolveKey(Event e) => null; public int Apply(int s, Event e) => s; }',
        /SF0001: .*P implements IProjection<T>: send it to POST \/projections\/upload\./,
      ],
      [
        'two reducers of one type',
        'reducer',
        '[AggregateType("x")] class A : IReducer<int> { public int Apply(int s, Event e) => s; }\nclass XReducer : IReducer<int> { public int Apply(int s, Event e) => s; }',
        /code\.cs\(1,28\): error SF0010: A folds .*'x', and so does XReducer.*\n.*code\.cs\(2,7\): error SF0010: XReducer folds .*so does A/,
      ],
      ['an empty upload', 'reducer', '', /SF0001/],
      [
        'a class without a constructor to call',
        'reducer',
        'class A(int x) : IReducer<int> { public int Apply(int s, Event e) => x; }',
        /code\.cs\(1,7\): error SF0002: A can't be used: it has no public or internal constructor/,
      ],
      [
        'two states in one class',
        'reducer',
        'class A : IReducer<int>, IReducer<long> { public int Apply(int s, Event e) => s; public long Apply(long s, Event e) => s; }',
        /SF0002: .*more than one state/,
      ],
      [
        'a name that is no aggregate type',
        'reducer',
        '[AggregateType("a b")] class A : IReducer<int> { public int Apply(int s, Event e) => s; }',
        /SF0003: 'a b' is no aggregate type/,
      ],
      [
        'code nested too deeply',
        'reducer',
        `class A { int x = ${'('.repeat(50_000)}1${')'.repeat(50_000)}; }`,
        /^code\.cs: error SF0005: /,
      ],
    ] as const) {
      it(`refuses ${what}`, async () => {
        const result = await host.compile(compileRequest(kind, { 'code.cs': code }));
        assert.ok(!result.ok);
        assert.match(result.compilationError, expected);
      });
    }

    it('folds a batch, answers the states asked for and the last', async () => {
      const runner = await tenantWith('reducer', COUNTER);
      const [first, second] = await runner.fold([
        {
          unit: unit('Test.CounterReducer'),
          aggregateId: 'a-1',
          baseVersion: 0,
          baseState: noState,
          events: [1, 2, 3, 4].map((v) => event('a-1', v, v === 3 ? 'clear' : `t${v}`)),
          stateAt: [2, 3],
        },
        {
          unit: unit('Test.CounterReducer'),
          aggregateId: 'a-2',
          baseVersion: 0,
          baseState: noState,
          events: [event('a-2', 1, 'x')],
          stateAt: [1],
        },
      ]);
      assert.deepEqual(readable(first), [
        [2, '{"count":2,"seen":["t1","t2"]}'],
        [3, null],
        [4, '{"count":1,"seen":["t4"]}'],
      ]);
      assert.deepEqual(readable(second), [[1, '{"count":1,"seen":["x"]}']]);
    });

    it('asks for a state only when it does not hold it at that version', async () => {
      const runner = await tenantWith('reducer', COUNTER);
      const asked: string[] = [];
      const fold = async (aggregateId: string, baseVersion: number) => {
        const [outcome] = await runner.fold([
          {
            unit: unit('Test.CounterReducer'),
            aggregateId,
            baseVersion,
            baseState: () => (asked.push(`${aggregateId}@${baseVersion}`), Buffer.from('{"count":40,"seen":[]}')),
            events: [event(aggregateId, baseVersion + 1, 'x')],
            stateAt: [],
          },
        ]);
        return readable(outcome);
      };
      assert.deepEqual(await fold('a', 7), [[8, '{"count":41,"seen":["x"]}']]);
      assert.deepEqual(await fold('a', 8), [[9, '{"count":42,"seen":["x","x"]}']]);
      assert.deepEqual(await fold('a', 7), [[8, '{"count":41,"seen":["x"]}']]);
      runner.forget();
      assert.deepEqual(await fold('a', 8), [[9, '{"count":41,"seen":["x"]}']]);
      assert.deepEqual(asked, ['a@7', 'a@7', 'a@8']);
    });

    it('stops at a throw: last good state, message, file and line; the next call goes on from there', async () => {
      const runner = await tenantWith('reducer', COUNTER);
      const item = (baseVersion: number, types: string[]) => ({
        unit: unit('Test.CounterReducer'),
        aggregateId: 'a',
        baseVersion,
        baseState: () => assert.fail('it holds the state'),
        events: types.map((type, i) => event('a', baseVersion + 1 + i, type)),
        stateAt: [],
      });
      const [outcome] = await runner.fold([item(0, ['x', 'y', 'throw', 'z'])]);
      assert.deepEqual(readable(outcome), [[2, '{"count":2,"seen":["x","y"]}']]);
      const { at, ...fault } = outcome?.fault ?? assert.fail('no fault');
      assert.match(at, /^\d{4}-\d\d-\d\dT/);
      assert.deepEqual(fault, {
        eventId: 'a@3',
        aggregateId: 'a',
        version: 3,
        eventType: 'throw',
        className: 'Test.CounterReducer',
        message: 'InvalidOperationException: no such thing: 3',
        file: 'code.cs',
        line: COUNTER_THROWS_AT_LINE,
      });
      const [next] = await runner.fold([item(2, ['w'])]);
      assert.deepEqual(readable(next), [[3, '{"count":3,"seen":["x","y","w"]}']]);
      const [atOnce] = await runner.fold([{ ...item(0, ['throw']), aggregateId: 'b' }]);
      assert.deepEqual(readable(atOnce), [[0, null]]);
    });

    it('keeps data faithful: big integers, 1.0, escapes, text, duplicate keys, __proto__', async () => {
      const runner = await tenantWith(
        'reducer',
        `using System.Text.Json; namespace Test;
        public record Kept(JsonElement Data, JsonElement? Metadata, string Raw, string? Correlation, DateTimeOffset At);
        public class KeepReducer : IReducer<Kept> { public Kept? Apply(Kept? s, Event e) => new(e.Data, e.Metadata, e.Data.GetRawText(), e.CorrelationId, e.Timestamp); }`,
      );
      const data =
        '{"big":123456789012345678901234567890,"one":1.0,"exp":1e400,"neg":-0,"__proto__":{"constructor":1},"b":1,"a":2,"text":"żółć 😀 \u2028 </script> +\'","esc":"\\u00e9\\"\\\\\\n\\u0000"}';
      const [outcome] = await runner.fold([
        {
          unit: unit('Test.KeepReducer'),
          aggregateId: 'ключ',
          baseVersion: 0,
          baseState: noState,
          events: [event('ключ', 1, 'тип', data, { metadata: Buffer.from('{"m":10.50}'), correlationId: 'č' })],
          stateAt: [],
        },
      ]);
      const state = text(outcome?.states[0]?.state ?? null) ?? assert.fail(outcome?.fault?.message);
      assert.ok(
        state.includes(
          '"big":123456789012345678901234567890,"one":1.0,"exp":1e400,"neg":-0,"__proto__":{"constructor":1},"b":1,"a":2',
        ),
        state,
      );
      assert.ok(
        state.includes('"metadata":{"m":10.50}') &&
          state.includes('"correlation":"č"') &&
          state.includes('"at":"2026-01-02T03:04:05.678+00:00"'),
        state,
      );
      const parsed = JSON.parse(state) as { data: { text: string; esc: string }; raw: string };
      assert.equal(parsed.raw, data);
      assert.deepEqual([parsed.data.text, parsed.data.esc], ["żółć 😀 \u2028 </script> +'", 'é"\\\n\u0000']);
      assert.ok(state.includes('żółć') && state.includes('</script>'), 'text stays readable');
    });

    it('refuses states that can not be kept: too large, cyclic, lossy', async () => {
      const runner = await tenantWith(
        'reducer',
        `namespace Test;
        public class Node { public Node? Next { get; set; } public string Text { get; set; } = ""; }
        public class NodeReducer : IReducer<Node> { public Node? Apply(Node? s, Event e) { s ??= new(); if (e.EventType == "cycle") s.Next = s; if (e.EventType == "grow") s.Text = new string('x', 2_000_000); if (e.EventType == "ok") s.Text += "o"; return s; } }
        public class Lossy { public int Count { get; private set; } public Lossy Plus() { Count++; return this; } }
        public class LossyReducer : IReducer<Lossy> { public Lossy? Apply(Lossy? s, Event e) => (s ?? new()).Plus(); }`,
      );
      const fold = async (className: string, types: string[]) => {
        const [outcome] = await runner.fold([
          {
            unit: unit(className),
            aggregateId: types.join(),
            baseVersion: 0,
            baseState: noState,
            events: types.map((type, i) => event('a', i + 1, type)),
            stateAt: [],
          },
        ]);
        return [readable(outcome).at(-1), outcome?.fault?.version, outcome?.fault?.message];
      };
      const [grown, at, tooLarge] = await fold('Test.NodeReducer', ['ok', 'grow', 'ok', 'ok']);
      assert.deepEqual(
        [grown, at, tooLarge],
        [[1, '{"next":null,"text":"o"}'], 2, 'The state is larger than 1048576 bytes.'],
      );
      const [before, , cycle] = await fold('Test.NodeReducer', ['ok', 'ok', 'cycle']);
      assert.deepEqual(before, [2, '{"next":null,"text":"oo"}']);
      assert.match(String(cycle), /cycle/);
      assert.match(
        String((await fold('Test.LossyReducer', ['x']))[2]),
        /doesn't survive JSON: {"count":1} is read back as {"count":0}/,
      );
    });

    const project = async (
      tenant: Awaited<ReturnType<typeof tenantWith>>,
      reply: 'each' | 'last',
      events: HostEvent[],
      stateOf = fresh,
      id = 'p@1',
    ) =>
      (
        await tenant.project({
          units: ['Test.ByTag', 'Test.Pairs'].map((className) => ({ id, ...unit(className) })),
          events,
          stateOf,
          reply,
        })
      ).map(readableChange);

    it('projects each change: by event, unit and key; equal bytes are no change', async () => {
      const runner = await tenantWith('projection', TAGS);
      const events = [
        event('a-1', 1, 'add', { tag: 'x', n: 5 }),
        event('a-1', 2, 'same', { tag: 'x' }),
        event('a-1', 3, 'pair', { tag: 'y', n: 1 }),
        event('a-1', 4, 'other'),
        event('a-1', 5, 'clear', { tag: 'x' }),
        event('a-1', 6, 'clear', { tag: 'x' }),
        event('a-1', 7, 'add', { tag: 'x', n: 2 }),
      ];
      assert.deepEqual(await project(runner, 'each', events), [
        '0/0 x changed {"count":1,"sum":5}',
        '2/0 y changed {"count":1,"sum":1}',
        '2/1 a-1 changed {"count":1,"sum":3}',
        '2/1 all changed {"count":1,"sum":3}',
        '4/0 x changed null',
        '6/0 x changed {"count":1,"sum":2}',
      ]);
      assert.deepEqual(
        await project(runner, 'last', [...events, event('a-1', 8, 'add', { tag: 'x', n: 1 })], fresh, 'p@2'),
        [
          '2/0 y changed {"count":1,"sum":1}',
          '2/1 a-1 changed {"count":1,"sum":3}',
          '2/1 all changed {"count":1,"sum":3}',
          '7/0 x changed {"count":2,"sum":3}',
        ],
      );
    });

    for (const reply of ['each', 'last'] as const) {
      it(`parks what follows a throw, by key (${reply})`, async () => {
        const runner = await tenantWith('projection', TAGS);
        const events = [
          event('a-1', 1, 'add', { tag: 'x', n: 5 }),
          event('a-1', 2, 'throw', { tag: 'x' }),
          event('a-1', 3, 'add', { tag: 'y', n: 1 }),
          event('a-1', 4, 'add', { tag: 'x', n: 1 }),
          event('a-1', 5, 'lost'),
          event('a-1', 6, 'lost'),
          event('a-1', 7, 'add', { tag: 'bad\u0001key', n: 1 }),
          event('a-1', 8, 'add', { tag: 'z', n: 1 }),
        ];
        assert.deepEqual(
          await project(runner, reply, events, (_, key) => ({
            state: key === 'z' ? Buffer.from('{"count":9,"sum":9}') : null,
            faulted: key === 'z',
          })),
          [
            ...(reply === 'each' ? ['0/0 x changed {"count":1,"sum":5}'] : []),
            '1/0 x faulted {"count":1,"sum":5} (ArgumentException: bad)',
            '2/0 y changed {"count":1,"sum":1}',
            '3/0 x parked {"count":1,"sum":5}',
            "4/0 '' faulted null (KeyNotFoundException: no tag)",
            "5/0 '' parked null",
            "6/0 '' parked null",
            '7/0 z parked {"count":9,"sum":9}',
          ],
        );
        assert.deepEqual(
          await project(runner, reply, [event('a-1', 9, 'add', { tag: 'x', n: 1 })], () =>
            assert.fail('it holds the key'),
          ),
          ['0/0 x parked {"count":1,"sum":5}'],
        );
      });
    }

    it('asks once a key and batch, and keeps generations apart', async () => {
      const runner = await tenantWith('projection', TAGS);
      const asked: string[] = [];
      const stateOf: ProjectRequest['stateOf'] = (index, key) => (
        asked.push(`${index} ${key}`),
        { state: Buffer.from('{"count":10,"sum":0}'), faulted: false }
      );
      const events = [event('a-1', 1, 'add', { tag: 'x', n: 1 }), event('a-1', 2, 'add', { tag: 'x', n: 1 })];
      const at = (count: number) => [`1/0 x changed {"count":${count},"sum":${count - 10}}`];
      assert.deepEqual(await project(runner, 'last', events, stateOf), at(12));
      assert.deepEqual(await project(runner, 'last', events, stateOf), at(14));
      assert.deepEqual(await project(runner, 'last', events, stateOf, 'p@2'), at(12));
      runner.forget('p@1');
      assert.deepEqual(await project(runner, 'last', events, stateOf), at(12));
      assert.deepEqual(await project(runner, 'last', events, stateOf, 'p@2'), at(14));
      assert.deepEqual(asked, ['0 x', '0 x', '0 x']);
    });

    it('serves calls in order, each tenant on its own', async () => {
      const [one, two] = [await tenantWith('reducer', COUNTER), await tenantWith('reducer', COUNTER)];
      const order: number[] = [];
      await Promise.all(
        [1, 2, 3, 4, 5].map(async (version) => {
          const [outcome] = await one.fold([
            {
              unit: unit('Test.CounterReducer'),
              aggregateId: 'a',
              baseVersion: version - 1,
              baseState: () => assert.fail('the call before left it'),
              events: [event('a', version, 'x')],
              stateAt: [],
            },
          ]);
          assert.equal((JSON.parse(text(outcome?.states[0]?.state ?? null) ?? '') as { count: number }).count, version);
          order.push(version);
        }),
      );
      assert.deepEqual(order, [1, 2, 3, 4, 5]);
      const asked = await two.fold([
        {
          unit: unit('Test.CounterReducer'),
          aggregateId: 'a',
          baseVersion: 5,
          baseState: noState,
          events: [event('a', 6, 'x')],
          stateAt: [],
        },
      ]);
      assert.deepEqual(readable(asked[0]), [[6, '{"count":1,"seen":["x"]}']]);
    });

    it('forgets artefacts that are unloaded, and says so', async () => {
      const runner = await tenantWith('reducer', COUNTER);
      assert.equal(runner.has('artefact'), true);
      runner.unload('artefact');
      assert.equal(runner.has('artefact'), false);
      await assert.rejects(
        runner.fold([
          {
            unit: unit('Test.CounterReducer'),
            aggregateId: 'a',
            baseVersion: 0,
            baseState: noState,
            events: [event('a', 1, 'x')],
            stateAt: [],
          },
        ]),
        { code: 'UNAVAILABLE' },
      );
    });
  });
}
