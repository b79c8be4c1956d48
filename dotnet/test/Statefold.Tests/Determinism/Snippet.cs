using System.Text;
using Statefold.Compiler;

namespace Statefold.Tests.Determinism;

/// <summary>Statements of a reducer's <c>Apply(State? s, Event e)</c>; after <c>;;</c> members of its class.</summary>
internal static class Snippet
{
    private static readonly ArtefactCompiler Compiler = new();

    public static CompileOutcome Compile(string snippet)
    {
        var parts = snippet.Split(";;", 2, StringSplitOptions.TrimEntries);
        var source = $$"""
            using System.Collections;
            using System.Collections.Concurrent;
            using System.Collections.Frozen;
            using System.Collections.Immutable;
            namespace Snippets;
            public sealed record State(string Text) { public int Count { get; set; } }
            [AggregateType("thing")]
            public sealed class ThingReducer : IReducer<State>
            {
                public State? Apply(State? s, Event e)
                {
                    {{parts[0]}}
                    return s;
                }
                {{(parts.Length > 1 ? parts[1] : "")}}
            }
            """;
        return Compiler.Compile(new CompileRequest(ArtefactKind.Reducer, [new SourceFile("Thing.cs", Encoding.UTF8.GetBytes(source))]));
    }
}
