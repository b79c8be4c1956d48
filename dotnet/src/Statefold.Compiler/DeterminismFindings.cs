using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;
using Statefold.Compiler.Determinism;

namespace Statefold.Compiler;

/// <summary>What can't be replayed, as findings of a compilation.</summary>
internal static class DeterminismFindings
{
    public static IEnumerable<Finding> Of(CSharpCompilation compilation, DeterminismChecks checks)
    {
        var breaches = new DeterminismAnalyzer(compilation).Find().ToList();
        var errors = checks == DeterminismChecks.Error;
        var silenced = Silenced(compilation, breaches);
        // A pragma is heard where it hides a warning, and never where it would hide an error.
        return breaches.Where(b => b.Rule.IsError || !silenced.Contains((b.Rule.Code, b.Place)))
            .Select(b => Finding.At(b.Rule.IsError && errors, b.Rule.Code, b.Rule.Tell(b.Subject), b.Place));
    }

    private static HashSet<(string Code, Location? Place)> Silenced(CSharpCompilation compilation, IEnumerable<(Rule Rule, Location? Place, string Subject)> breaches)
    {
        var told = breaches.Select(b => Diagnostic.Create(b.Rule.Code, "Determinism", b.Rule.Code, DiagnosticSeverity.Warning, DiagnosticSeverity.Warning, true, 1, location: b.Place));
        return [.. CompilationWithAnalyzers.GetEffectiveDiagnostics(told, compilation).Where(d => d.IsSuppressed).Select(d => (d.Id, (Location?)d.Location))];
    }
}
