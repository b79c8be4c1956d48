import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { after, describe, it } from 'node:test';
import type { CompileResult } from '../../src/code-host/code-host.js';
import { openHost, type Fixture } from './code-host-fixture.js';

const times = (text: string, n: number): string => text.repeat(n);
const each = (n: number, text: (i: number) => string): string => Array.from({ length: n }, (_, i) => text(i)).join('');
const doubled = (n: number): string =>
  `class A { const string C0 = "xxxxxxxxxxxxxxxx"; ${each(n, (i) => `const string C${i + 1} = C${i} + C${i};`)} public static string Get() => C${n}; }`;
const REDUCER =
  'public sealed record S(int N); public sealed class BombReducer : IReducer<S> { public S? Apply(S? s, Event e) => s; }\n';

const compile = ({ host }: Fixture, text: string, tenantId: string): Promise<CompileResult> =>
  host.compile({
    tenantId,
    kind: 'reducer',
    sources: () => PackedSources.pack([{ path: 'Bomb.cs', text: REDUCER + text }]),
  });
const errorOf = (result: CompileResult): string =>
  result.ok ? `it compiled, to ${result.assembly.length} bytes` : result.compilationError;

/** Refused in milliseconds, by the rule that the text names. */
const REFUSED: Readonly<Record<string, readonly [source: string, error: RegExp]>> = {
  'ten thousand brackets': [
    `class A { int X = ${times('(', 10_000)}1${times(')', 10_000)}; }`,
    /SF0005: The code is nested too deeply/,
  ],
  'ten thousand blocks': [`class A { void M() { ${times('{', 10_000)}${times('}', 10_000)} } }`, /SF0005/],
  'types in types': [`${times('class A { ', 10_000)}${times('}', 10_000)}`, /SF0005/],
  'conditions in conditions': [
    `class A { int X(bool b) => ${times('b ? 1 : ', 20_000)}1; }`,
    /CS8078: An expression is too long or complex/,
  ],
  'generic classes that inherit from more of themselves': [
    'class A<T> : B<A<A<T>>> {} class B<T> : A<B<B<T>>> {} class C { A<int> x = new(); }',
    /CS0146: Circular base type/,
  ],
  'a million errors': [
    `class A { void M() { ${times('x;', 500_000)} } }`,
    /SF0008: The sources have at least 300,001 words and signs, more than the limit of 300,000/,
  ],
  'a switch of a hundred thousand arms': [
    `class A { int M(int x) { switch (x) { ${each(100_000, (i) => `case ${i}: return ${i};`)} } return 0; } }`,
    /SF0008/,
  ],
  'a huge source': [
    times('class A0 { public int F(int x) => x * 2; }\n', 400_000),
    /SF0008: The sources have [\d,]+ bytes, more than the limit of 4,194,304/,
  ],
  'a flood of directives': [
    times('#if A\n', 500_000),
    /Bomb\.cs: error SF0008: The file has 500,000 preprocessor directives, more than the limit of 10,000/,
  ],
  'a name of a million letters': [`class ${times('N', 1_000_000)} { }`, /CS7013/],
  'a constant past what a string can be': [
    doubled(40),
    /CS8095|SF0006: The compiler gave up: it ran out of its \d+ MiB of memory/,
  ],
  'classes by the thousand': [
    each(501, (i) => `class R${i} : IReducer<S> { public S? Apply(S? s, Event e) => s; }\n`),
    /SF0008: The upload has 502 reducers or projections, more than the limit of 500\. Upload some of them apart/,
  ],
  'the name of a state that is longer than it may be': [
    `class R : IReducer<${times('List<', 40)}int${times('>', 40)}> { public ${times('List<', 40)}int${times('>', 40)}? Apply(${times('List<', 40)}int${times('>', 40)}? s, Event e) => s; }`,
    /SF0008: The name of R or of its state has 1,332 bytes, more than the limit of 1,024\. Shorten/,
  ],
  'names of classes that are long together': [
    `namespace ${times('n', 900)} { ${each(80, (i) => `class R${i} : IReducer<S> { public S? Apply(S? s, Event e) => s; }\n`)} }`,
    /SF0008: The names of the classes and their states have [\d,]+ bytes, more than the limit of 65,536\. Shorten/,
  ],
  'errors by the thousand': [`class A { void M() { ${times('x;', 20_000)} } }`, /CS0103[^]*… and \d{4,} more errors$/],
};

/** It takes longer than anyone would wait. */
const SLOW = `class A { string X = ${times('$"{', 5000)}1${times('}"', 5000)}; }`;

/** Roslyn would take minutes, all memory or all of the stack: the process ends for it, and the error says of what. */
const ENDED: Readonly<Record<string, readonly [source: string, error: RegExp]>> = {
  'a type of exponentially many types': [
    'class A<T1,T2,T3> { class B : A<B,B,B> { B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B.B x; } }',
    /it took longer than 2,500 ms/,
  ],
  'interpolations in interpolations': [SLOW, /it took longer than 2,500 ms/],
  'lambdas with exponentially many overloads': [
    `class A { void M(Func<int,int> f) {} void M(Func<string,string> f) {} void M(Func<long,long> f) {} void T() { ${times('M(x => { ', 16)}M(x => x);${times('return x; });', 16)} } }`,
    /it took longer than 2,500 ms|it ran out of its 256 MiB of memory/,
  ],
  // Of its two bounds it meets that of time first where the processor is shared.
  'a constant of half a gigabyte': [
    doubled(23),
    /it took longer than 2,500 ms|it ran out of its 256 MiB of memory|CS8095/,
  ],
};
/** Too deep for the stack: found out at once on a quiet machine, and not before the deadline of the others on a busy one. */
const DEEP = `class A { int X = ${times('- ', 100_000)}1; }`;

describe('compile bombs', () => {
  const opened: Fixture[] = [];
  const open = (options: Parameters<typeof openHost>[0]): Fixture => {
    const fixture = openHost(options);
    opened.push(fixture);
    return fixture;
  };
  after(() => Promise.all(opened.map((fixture) => fixture.close())));

  it('are refused by the rule that they break, and the compiler lives on', async () => {
    const fixture = open({ compileDeadlineMs: 60_000, compilers: 1 });
    for (const [name, [source, error]] of Object.entries(REFUSED)) {
      const result = await compile(fixture, source, 'bomber');
      assert.match(errorOf(result), error, name);
      assert.ok(errorOf(result).length < 128 * 1024 && result.diagnostics.length <= 100, name);
    }
    assert.equal((await compile(fixture, '', 'bomber')).ok, true);
    assert.ok(fixture.processes.length <= 2, JSON.stringify(fixture.processes));
  });

  it('that are nested too deeply say so', async () => {
    const fixture = open({ compileDeadlineMs: 60_000, compilers: 1 });
    assert.match(errorOf(await compile(fixture, DEEP, 'bomber')), /the code is nested too deeply|CS8078|SF0005/);
    assert.equal((await compile(fixture, '', 'bomber')).ok, true);
  });

  it('that pass as code end their compiler in time; those who are known for it never have all compilers', async () => {
    const fixture = open({ compileDeadlineMs: 2_500, compilerHeapLimitBytes: 256 * 1024 * 1024 });
    const results = await Promise.all(
      Object.entries(ENDED).map(
        async ([name, [source, error]], i) => [name, error, await compile(fixture, source, `bomber-${i}`)] as const,
      ),
    );
    for (const [name, error, result] of results) assert.match(errorOf(result), error, name);
    const ended: string[] = [];
    const note = (name: string, result: CompileResult): void => void ended.push(`${name} ${String(result.ok)}`);
    await Promise.all([
      ...[0, 1].map(async (i) => note('a bomb', await compile(fixture, SLOW, `bomber-${i}`))),
      compile(fixture, '', 'neighbour').then((result) => note('a neighbour', result)),
    ]);
    // They have one compiler, in turn; would they have two, nobody were served before both have ended. That the neighbour is served before
    // the first of them ends as well depends on how soon another compiler is there: all were ended just now.
    assert.deepEqual(ended.toSorted(), ['a bomb false', 'a bomb false', 'a neighbour true']);
    assert.equal(ended.at(-1), 'a bomb false');
  });

  it('do not keep other tenants waiting: those compile meanwhile, and a tenant has one compilation at a time', async () => {
    const fixture = open({ compileDeadlineMs: 3_000 });
    const ended: string[] = [];
    const run = async (name: string, source: string, tenantId: string): Promise<void> => {
      const result = await compile(fixture, source, tenantId);
      ended.push(name);
      assert.equal(result.ok, source === '', `${name}: ${errorOf(result)}`);
    };
    await Promise.all([
      run('first bomb', SLOW, 'bomber'),
      run('second bomb', SLOW, 'bomber'),
      run('a neighbour', '', 'neighbour'),
      run('another', '', 'another'),
    ]);
    assert.deepEqual(ended, ['a neighbour', 'another', 'first bomb', 'second bomb']);
  });
});
