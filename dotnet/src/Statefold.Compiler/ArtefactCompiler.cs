using System.Collections.Immutable;
using System.Text;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Emit;
using Microsoft.CodeAnalysis.Text;
using Statefold.Compiler.Determinism;

namespace Statefold.Compiler;

/// <summary>Compiles the sources of one upload to an assembly, with its symbols embedded, and finds the classes it is for.</summary>
internal sealed class ArtefactCompiler
{
    private const int MaxFindings = 100;
    private const int MaxErrorText = 64 * 1024;
    private const int MaxLine = 4096;

    /// <summary>The exit code of a process that ended because memory did. The host tells it from other ends.</summary>
    private const int OutOfMemory = 75;

    private const string GlobalUsings = """
        global using global::System;
        global using global::System.Collections.Generic;
        global using global::System.IO;
        global using global::System.Linq;
        global using global::System.Net.Http;
        global using global::System.Threading;
        global using global::System.Threading.Tasks;
        global using global::Statefold;
        """;

    private const string WarmUpSource = """
        using System.Text.Json;
        namespace WarmUp;
        public sealed record State(int Count, long Sum, string? Last);
        public sealed record Added(long Amount);
        public sealed class ThingReducer : IReducer<State>
        {
            public State? Apply(State? state, Event e)
            {
                state ??= new State(0, 0, null);
                var names = new List<string> { e.EventType, $"{e.AggregateId}:{state.Count}" };
                return e.EventType switch
                {
                    "added" => state with { Count = state.Count + 1, Sum = state.Sum + e.DataAs<Added>().Amount, Last = names.Where(n => n.Length > 0).Select(n => n.Trim()).FirstOrDefault() },
                    "set" when e.Data.TryGetProperty("sum", out JsonElement sum) => state with { Sum = sum.GetInt64() },
                    _ => throw new InvalidOperationException(e.EventType),
                };
            }
        }
        """;

    private static readonly CSharpParseOptions ParseOptions = new(LanguageVersion.Latest, DocumentationMode.None);

    private static readonly CSharpCompilationOptions CompilationOptions = new(
        OutputKind.DynamicallyLinkedLibrary,
        optimizationLevel: OptimizationLevel.Release,
        nullableContextOptions: NullableContextOptions.Enable,
        deterministic: true,
        // The worker has a stack that Roslyn can recurse on; pool threads have not.
        concurrentBuild: false,
        // Assembly versions are unified by the runtime: the SDK silences these too.
        specificDiagnosticOptions: new Dictionary<string, ReportDiagnostic>
        {
            ["CS1701"] = ReportDiagnostic.Suppress,
            ["CS1702"] = ReportDiagnostic.Suppress,
        });

    private static readonly EmitOptions EmitOptions = new(debugInformationFormat: DebugInformationFormat.Embedded);

    private readonly ImmutableArray<MetadataReference> references = LoadReferences();
    private readonly SyntaxTree globalUsings = Parse(new SourceFile("Statefold.GlobalUsings.g.cs", Encoding.UTF8.GetBytes(GlobalUsings)));

    /// <summary>The first compilation costs a second; it should not be a tenant's.</summary>
    public void WarmUp() => Compile(new CompileRequest(ArtefactKind.Reducer, [new SourceFile("WarmUp.cs", Encoding.UTF8.GetBytes(WarmUpSource))]));

    public CompileOutcome Compile(CompileRequest request)
    {
        try
        {
            return CompileOrThrow(request);
        }
        catch (InsufficientExecutionStackException)
        {
            return Failed([SourceLimits.TooDeep(null)]);
        }
        catch (OutOfMemoryException)
        {
            Environment.Exit(OutOfMemory);
            throw;
        }
    }

    private CompileOutcome CompileOrThrow(CompileRequest request)
    {
        if ((request.Refusal ?? SourceLimits.Check(request.Sources, ParseOptions)) is { } refusal)
        {
            return Failed([refusal]);
        }

        var trees = new List<SyntaxTree>(request.Sources.Count + 1) { globalUsings };
        trees.AddRange(request.Sources.Select(Parse));
        var compilation = CSharpCompilation.Create("Statefold.Artefact", trees, references, CompilationOptions);
        var discovery = new Discovery(compilation, request.Kind);
        using var assembly = new MemoryStream();
        var emitted = compilation.Emit(assembly, options: EmitOptions);
        var told = emitted.Diagnostics.Where(d => d.Severity >= DiagnosticSeverity.Warning && !d.IsSuppressed).ToList();
        // Each message is made when it is asked for: of a million, only of those that are told.
        var findings = told.OrderByDescending(d => d.Severity).Take(MaxFindings).Select(Finding.Of).ToList();
        var untold = told.Count(d => d.Severity == DiagnosticSeverity.Error) - findings.Count(f => f.IsError);
        if (emitted.Success)
        {
            discovery.Run();
            findings.AddRange(discovery.Findings);
            if (request.Checks != DeterminismChecks.Off)
            {
                findings.AddRange(DeterminismFindings.Of(compilation, request.Checks));
            }
        }

        if (assembly.Length > SourceLimits.MaxAssemblyBytes)
        {
            findings.Add(SourceLimits.TooLarge("The compiled code has", assembly.Length, SourceLimits.MaxAssemblyBytes, "bytes"));
        }

        var ordered = findings.OrderByDescending(f => f.IsError).ToList();
        return ordered is [{ IsError: true }, ..] ? Failed(ordered, untold) : new CompileOutcome(assembly.ToArray(), discovery.Classes, StateTypes.Of(discovery.States), Cap(ordered), "");
    }

    private static CompileOutcome Failed(List<Finding> findings, int untold = 0)
    {
        var errors = findings.Where(f => f.IsError).ToList();
        var text = new StringBuilder();
        var told = 0;
        foreach (var error in errors.Take(MaxFindings))
        {
            var line = Shortened(error.ToString());
            if (text.Length + line.Length > MaxErrorText)
            {
                break;
            }

            text.Append(told == 0 ? "" : "\n").Append(line);
            told++;
        }

        untold += errors.Count - told;
        if (untold > 0)
        {
            text.Append(told == 0 ? "" : "\n").Append($"… and {untold} more errors");
        }

        return new CompileOutcome(null, [], [], Cap(findings), text.ToString());
    }

    private static string Shortened(string text) => text.Length <= MaxLine ? text : $"{text[..MaxLine]}…";

    private static List<Finding> Cap(List<Finding> findings)
    {
        var room = MaxErrorText;
        return findings.Take(MaxFindings).Select(f => f with { Message = Shortened(f.Message) }).TakeWhile(f => (room -= f.Message.Length + (f.File?.Length ?? 0)) > 0).ToList();
    }

    private static SyntaxTree Parse(SourceFile source) =>
        CSharpSyntaxTree.ParseText(SourceText.From(source.Utf8, source.Utf8.Length, Encoding.UTF8, canBeEmbedded: false), ParseOptions, source.Path);

    private static ImmutableArray<MetadataReference> LoadReferences()
    {
        var framework = Directory.EnumerateFiles(Path.Combine(AppContext.BaseDirectory, "ref"), "*.dll").Order(StringComparer.Ordinal);
        return [.. framework.Append(typeof(Event).Assembly.Location).Select(path => MetadataReference.CreateFromFile(path))];
    }
}
