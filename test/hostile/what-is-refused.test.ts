// Ways past the checks of an upload that worked once: reflection, another type than it is and other threads, in code that names none
// of them. Each is refused with its rule, by the real service as a tenant finds it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { API_KEY, startService, until } from '../support/service.js';
import { noJail } from './escape-world.js';

/** What stands in `Apply`, and the members and types beside it. */
interface Escape {
  readonly body: string;
  readonly types: string;
  readonly rules: readonly string[];
}

const ESCAPES: Readonly<Record<string, Escape>> = {
  'a tree that the compiler made, with a node that lies about its type': {
    body: `Expression<Func<Fake, string>> read = fake => fake.Text;
        Expression<Func<object>> real = () => new int[1];
        var text = new[] { 1 }.AsQueryable().Provider.Execute<string>(((MemberExpression)read.Body).Update(new Liar(real.Body)));
        return new State(text);`,
    types: `public sealed class Fake { public string Text = ""; }
      public sealed class Liar(Expression real) : Expression
      {
          public override ExpressionType NodeType => ExpressionType.Extension;
          public override Type Type => typeof(Fake);
          public override bool CanReduce => true;
          public override Expression Reduce() => real;
      }`,
    rules: ['SF1013'],
  },
  'a call site of its own making': {
    body: 'return new State(new[] { 1 }.AsQueryable().Provider.Execute<string>(new Site()));',
    types: `public sealed class Site : Expression, IDynamicExpression
      {
          public override ExpressionType NodeType => ExpressionType.Dynamic;
          public override Type Type => typeof(string);
          public Type DelegateType => typeof(Func<string>);
          public int ArgumentCount => 0;
          public object CreateCallSite() => this;
          public Expression GetArgument(int index) => this;
          public Expression Rewrite(Expression[] arguments) => this;
      }`,
    rules: ['SF1013'],
  },
  'a stream of its own, read on threads of the pool': {
    body: `_ = SHA256.HashDataAsync(new Slow());
        _ = JsonSerializer.DeserializeAsync<object>(new Slow());
        return state;`,
    types: `public sealed class Slow : Stream
      {
          public override int Read(byte[] buffer, int offset, int count) { for (;;) { } }
          public override bool CanRead => true;
          public override bool CanSeek => false;
          public override bool CanWrite => false;
          public override long Length => 0;
          public override long Position { get => 0; set { } }
          public override void Flush() { }
          public override long Seek(long offset, SeekOrigin origin) => 0;
          public override void SetLength(long value) { }
          public override void Write(byte[] buffer, int offset, int count) { }
      }`,
    rules: ['SF1009', 'SF1023'],
  },
  'JSON by a type that is known at run time': {
    body: 'return new State(JsonSerializer.Deserialize("{}", typeof(StreamReader).GetConstructors()[0].GetParameters()[0].ParameterType)!.ToString()!);',
    types: '',
    rules: ['SF1014'],
  },
};

test('an upload that would get past its checks is refused', { skip: noJail }, async (t) => {
  const service = await startService(t);
  for (const [what, { body, types, rules }] of Object.entries(ESCAPES))
    await t.test(what, async () => {
      const form = new FormData();
      const source = `using System.Linq.Expressions; using System.Security.Cryptography; using System.Text.Json;
public sealed record State(string Text);
[AggregateType("probe")]
public sealed class ProbeReducer : IReducer<State>
{
    public State? Apply(State? state, Event e)
    {
        ${body}
    }
}
${types}
`;
      form.append('file', new Blob([source]), 'Probe.cs');
      const uploaded = await service.request('POST', '/reducers/upload', { key: API_KEY, raw: form });
      assert.equal(uploaded.status, 202, uploaded.text);
      const { reducerId } = uploaded.json<{ reducerId: string }>();
      let error = '';
      await until(async () => {
        const answer = await service.request('GET', `/reducers/${reducerId}/status`, { key: API_KEY });
        const { status, compilationError } = answer.json<{ status: string; compilationError?: string }>();
        assert.notEqual(status, 'compiled', 'it got past the checks');
        error = compilationError ?? '';
        return status === 'failed';
      }, 120_000);
      const told = [...error.matchAll(/error ([A-Z]+\d+)/g)].map(([, code]) => code);
      assert.deepEqual([...new Set(told)].sort(), rules, error);
    });
});
