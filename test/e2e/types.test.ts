// `statefold types`: what it writes holds for what the service answers, as the compiler of TypeScript has it.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, success } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { API_KEY, ROOT, sample, startService, temporaryDirectory } from '../support/service.js';

/** A state with a member of every kind, and its like where nothing is set. */
const KINDS = `using System.Text.Json;
using System.Text.Json.Serialization;
namespace Kinds;

public enum Colour { Red = 1, Green = 2, Blue = 4 }
[JsonConverter(typeof(JsonStringEnumConverter))]
public enum Size { Small, [JsonStringEnumMemberName("x-large")] Large }
[Flags]
public enum Rights { None = 0, Read = 1, Write = 2 }

public record Named(string Name) { public int Length => Name.Length; }
public sealed record Point(int X, int? Y) : Named("point");
public sealed record Page<T>(IReadOnlyList<T> Items, T? First);
public sealed record Chain(int Value, Chain? Next);
public readonly record struct Money(decimal Amount, string Currency);
public abstract class Base { public int FromBase { get; set; } = 1; public virtual string Over { get; set; } = "base"; }
public sealed class Derived : Base { public override string Over { get; set; } = "derived"; public new long FromBase { get; set; } = 2; }
[JsonDerivedType(typeof(Circle), "circle")]
[JsonDerivedType(typeof(Square), "square")]
public abstract record Shape(int Id);
public sealed record Circle(int Id, double Radius) : Shape(Id);
public sealed record Square(int Id, double Side) : Shape(Id);

public sealed class All
{
    public bool Yes { get; set; }
    public string Text { get; set; } = "";
    public string? MaybeText { get; set; }
    public char Letter { get; set; } = 'a';
    public byte Small { get; set; }
    public short Middle { get; set; }
    public int Count { get; set; }
    public int? MaybeCount { get; set; }
    public long Large { get; set; }
    public ulong Huge { get; set; }
    public float Single { get; set; }
    public double Double { get; set; }
    public decimal Exact { get; set; }
    public Colour Colour { get; set; }
    public Colour? MaybeColour { get; set; }
    public Size Size { get; set; }
    public Rights Rights { get; set; }
    [JsonConverter(typeof(JsonStringEnumConverter<Colour>))]
    public Colour Painted { get; set; } = Colour.Red;
    public DateTime At { get; set; }
    public DateTimeOffset Moment { get; set; }
    public DateTimeOffset? MaybeMoment { get; set; }
    public DateOnly Day { get; set; }
    public TimeOnly Hour { get; set; }
    public TimeSpan Span { get; set; }
    public Guid Id { get; set; }
    public Uri? Link { get; set; }
    public byte[] Bytes { get; set; } = [];
    public int[] Numbers { get; set; } = [];
    public List<string?> Texts { get; set; } = [];
    public HashSet<int> Unique { get; set; } = [];
    public IEnumerable<Point> Points { get; set; } = [];
    public Dictionary<string, int> ByName { get; set; } = [];
    public SortedDictionary<int, Money> ByNumber { get; set; } = [];
    public IReadOnlyDictionary<Colour, List<Point>> ByColour { get; set; } = new Dictionary<Colour, List<Point>>();
    public KeyValuePair<string, int> Pair { get; set; } = new("k", 1);
    public (int, string) Tuple { get; set; }
    public Page<Point>? Page { get; set; }
    public Page<int> Ints { get; set; } = new([], 0);
    public Chain? Chain { get; set; }
    public Money Money { get; set; }
    public Derived Derived { get; set; } = new();
    public Shape? Shape { get; set; }
    public List<Shape> Shapes { get; set; } = [];
    public JsonElement? Json { get; set; }
    public object? Anything { get; set; }
    [JsonPropertyName("other name")]
    public int Renamed { get; set; }
    [JsonIgnore]
    public int Never { get; set; } = 1;
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    public string? Sometimes { get; set; }
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingDefault)]
    public int NotZero { get; set; }
    [JsonInclude]
    public int Field = 3;
    public int NoProperty = 4;
    public static int Shared => 5;
    public string Computed => Text + Count;
}

[AggregateType("kinds")]
public sealed class KindsReducer : IReducer<All>
{
    public All? Apply(All? all, Event e) => e.EventType == "Empty" ? new All() : new All
    {
        Yes = true, Text = "t", MaybeText = "m", Letter = 'z', Small = 1, Middle = -2, Count = 3, MaybeCount = 4, Large = 5, Huge = 6, Single = 1.5f, Double = 2.5, Exact = 3.25m,
        Colour = Colour.Blue, MaybeColour = Colour.Green, Size = Size.Large, Rights = Rights.Read | Rights.Write, Painted = Colour.Green,
        At = e.Timestamp.UtcDateTime, Moment = e.Timestamp, MaybeMoment = e.Timestamp, Day = new DateOnly(2026, 3, 1), Hour = new TimeOnly(12, 30), Span = TimeSpan.FromSeconds(5),
        Id = new Guid("0190f3c2-7b1e-7c3a-9d55-0c1f2a3b4c5d"), Link = new Uri("https://example.com/a"), Bytes = [1, 2, 3], Numbers = [1, 2], Texts = ["a", null], Unique = [7],
        Points = [new Point(1, null), new Point(1, 2)], ByName = new() { ["a b"] = 1 }, ByNumber = new() { [7] = new Money(1.5m, "EUR") },
        ByColour = new Dictionary<Colour, List<Point>> { [Colour.Red] = [new Point(1, 2)] }, Pair = new("k", 2), Tuple = (1, "x"),
        Page = new Page<Point>([new Point(3, 4)], null), Ints = new Page<int>([1], 2), Chain = new Chain(1, new Chain(2, null)), Money = new Money(9.99m, "USD"),
        Shape = new Circle(1, 2), Shapes = [new Square(2, 3), new Circle(3, 4)], Json = e.Data, Anything = 5,
        Renamed = 1, Sometimes = "s", NotZero = 2,
    };
}
`;
const EVENT = {
  type: 'object',
  required: ['total', 'lines'],
  properties: {
    total: { type: 'number', minimum: 0 },
    note: { type: ['string', 'null'] },
    lines: { type: 'array', items: { $ref: '#/$defs/line' } },
    kind: { enum: ['retail', 'trade', 1] },
    way: {
      oneOf: [{ const: 'post' }, { type: 'object', properties: { shop: { type: 'integer' } }, required: ['shop'] }],
    },
  },
  additionalProperties: false,
  $defs: {
    line: { type: 'object', properties: { sku: { type: 'string' } }, required: ['sku'], additionalProperties: false },
  },
};

const TSC = join(ROOT, 'node_modules', 'typescript-native', 'bin', 'tsc');

/** What the compiler of TypeScript has against the files. */
function complaints(folder: string, files: Readonly<Record<string, string>>): Promise<string> {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const options = [
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--exactOptionalPropertyTypes',
  ];
  return new Promise((resolve) => {
    execFile(process.execPath, [TSC, ...options, ...Object.keys(files)], { cwd: folder }, (_error, stdout) =>
      resolve(stdout),
    );
  });
}

test('types of states and events are those of the answers', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const folder = temporaryDirectory(t);
  const bank = sample('bank');
  const flights = sample('flights');
  const pick = (from: Record<string, string>, ...names: string[]): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, from[name] ?? '']));
  await api.deployReducer({ 'Kinds.cs': KINDS });
  await api.deployReducer(pick(bank, 'AccountReducer.cs', 'Events.cs'));
  await api.deployReducer(pick(flights, 'RouteReducer.cs', 'Flight.cs'));
  const transfers = await api.deployProjection(pick(bank, 'Transfers.cs', 'Events.cs'));
  const airports = await api.deployProjection(pick(flights, 'AirportDelays.cs', 'Flight.cs'));
  success(await api.put('/event-types/Placed', { schema: EVENT }), 200);

  const answers: [type: string, state: unknown][] = [];
  const appended = async (type: string, id: string, eventType: string, data: object): Promise<void> => {
    await api.append(id, eventType, data, { aggregateType: type });
    const answer = await api.get(`/aggregate-types/${type}/${id}/state`);
    const { state } = success(answer, 200).json<{ state: unknown }>();
    assert.ok(state !== null, answer.text);
    answers.push([`AggregateStates[${JSON.stringify(type)}]`, state]);
  };
  await appended('kinds', 'kinds-1', 'Full', { any: ['thing'] });
  await appended('kinds', 'kinds-2', 'Empty', {});
  await appended('account', 'account-1', 'Opened', { owner: 'Ada' });
  await appended('account', 'account-1', 'Deposited', { cents: 500 });
  const transfer = { transferId: 't-1', from: 'account-1', to: 'account-2', cents: 100 };
  await appended('account', 'account-1', 'TransferSent', transfer);
  await appended('route', 'SFO-JFK', 'FlightLanded', {
    ...{ date: '2001-01-01', delay: 5, distance: 2586, origin: 'SFO', destination: 'JFK' },
  });
  for (const [projectionId, className] of [
    [transfers, 'Bank.Transfers'],
    [airports, 'Flights.AirportDelays'],
  ] as const)
    for (const { state } of await api.notifications(projectionId, 1))
      answers.push([`ProjectionStates[${JSON.stringify(className)}]`, state]);
  const data = { total: 1, lines: [{ sku: 'A' }], note: null, kind: 1, way: { shop: 7 } };
  await api.append('order-1', 'Placed', data);
  answers.push(['EventData["Placed"]', data], ['EventOf<"Placed">', { eventType: 'Placed', data }]);

  const outcome = await statefold(
    { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY },
    folder,
    ...['types', '--out', 'statefold-types.ts'],
  );
  assert.equal(outcome.code, 0, outcome.err);
  const printed = await statefold({ STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY }, folder, 'types');
  const uses = (held: readonly (readonly [string, unknown])[]): string =>
    [
      "import type { AggregateStates, EventData, EventOf, ProjectionStates } from './statefold-types.js';",
      ...held.map(([type, value], i) => `export const v${i}: ${type} = ${JSON.stringify(value)};`),
      'export type Unused = [AggregateStates, EventData, EventOf, ProjectionStates];',
    ].join('\n');
  const files = { 'package.json': '{"type":"module"}', 'statefold-types.ts': printed.out };

  await t.test('every answer fits its type, member for member', async () => {
    for (const [type, value] of answers) assert.ok(value !== undefined && value !== null, type);
    const { 'package.json': json, ...rest } = files;
    writeFileSync(join(folder, 'package.json'), json);
    assert.equal(await complaints(folder, { ...rest, 'answers.ts': uses(answers) }), '', printed.out);
  });

  await t.test('and what it does not answer fits none', async () => {
    const [, full] = answers[0] ?? [];
    const state = full as Record<string, unknown>;
    const type = 'AggregateStates["kinds"]';
    const wrong: [what: string, type: string, value: unknown][] = [
      ...Object.keys(state)
        // Those that may be left out, or be anything.
        .filter((name) => !['sometimes', 'notZero'].includes(name))
        .map((name): [string, string, unknown] => {
          const { [name]: _, ...rest } = state;
          return [`without ${name}`, type, rest];
        }),
      ...Object.keys(state)
        .filter((name) => !['json', 'anything'].includes(name))
        .map((name): [string, string, unknown] => [`another ${name}`, type, { ...state, [name]: { wrong: true } }]),
      ['more than there is', type, { ...state, never: 1 }],
      ['a number that is no colour', type, { ...state, colour: 3 }],
      ['a text that is no size', type, { ...state, size: 'Large' }],
      ['a shape of no kind', type, { ...state, shape: { $type: 'line', id: 1 } }],
      ['null where there is none', type, { ...state, text: null }],
      ['an event without what is required', 'EventData["Placed"]', { lines: [] }],
      ['an event with more', 'EventData["Placed"]', { ...data, more: 1 }],
    ];
    const found = await complaints(folder, {
      'statefold-types.ts': printed.out,
      'wrong.ts': uses(wrong.map(([, of, value]) => [of, value])),
    });
    const lines = new Set([...found.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line)));
    for (const [i, [what]] of wrong.entries()) assert.ok(lines.has(i + 2), `${what} is taken:\n${printed.out}`);
  });

  await t.test('they are there by pages, and as data', async () => {
    const first = await api.read<{ states: { schema: object }[]; nextCursor: string }>('/state-types?limit=2');
    const rest = await api.read<{ states: object[]; nextCursor?: string }>(`/state-types?cursor=${first.nextCursor}`);
    assert.deepEqual([first.states.length, rest.states.length, rest.nextCursor], [2, 3, undefined]);
    const { JsonSchema } = await import('../../src/event-schemas/json-schema.js');
    const { states } = await api.read<{ states: { aggregateType?: string; schema: object }[] }>('/state-types');
    const kinds = new JsonSchema(states.find(({ aggregateType }) => aggregateType === 'kinds')?.schema);
    for (const [, value] of answers.slice(0, 2))
      assert.deepEqual(kinds.violations(value, '', JSON.stringify(value).length), []);
  });
});
