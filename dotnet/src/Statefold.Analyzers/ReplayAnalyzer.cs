using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;
using Statefold.Compiler.Determinism;

namespace Statefold.Analyzers;

/// <summary>Tells in a build what the service would refuse because it can't be replayed.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class ReplayAnalyzer : DiagnosticAnalyzer
{
    private static readonly ImmutableDictionary<string, DiagnosticDescriptor> Descriptors = Rule.All.ToImmutableDictionary(rule => rule.Code, DescriptorOf);

    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [.. Descriptors.Values];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationAction(Analyze);
    }

    private static void Analyze(CompilationAnalysisContext context)
    {
        // As in the service: what does not compile is told of by the compiler alone.
        if (context.Compilation is not CSharpCompilation compilation || compilation.GetDiagnostics(context.CancellationToken).Any(d => d.Severity == DiagnosticSeverity.Error))
        {
            return;
        }

        foreach (var (rule, place, subject) in new DeterminismAnalyzer(compilation).Find())
        {
            context.ReportDiagnostic(Diagnostic.Create(Descriptors[rule.Code], place ?? Location.None, rule.Tell(subject)));
        }
    }

    // An error can't be silenced here, since it can't be silenced in the service.
    private static DiagnosticDescriptor DescriptorOf(Rule rule) => new(
        rule.Code,
        "Code that can't be replayed",
        "{0}",
        "Determinism",
        rule.IsError ? DiagnosticSeverity.Error : DiagnosticSeverity.Warning,
        isEnabledByDefault: true,
        customTags: rule.IsError ? [WellKnownDiagnosticTags.NotConfigurable, WellKnownDiagnosticTags.CompilationEnd] : [WellKnownDiagnosticTags.CompilationEnd]);
}
