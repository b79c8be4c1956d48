using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

/// <summary>What was found, each once a place.</summary>
internal sealed class Breaches
{
    // The text of the answer is bounded anyway; what lies past this is not worth the memory.
    private const int Max = 1000;

    private readonly List<(Rule Rule, Location? Place, string Subject)> all = [];
    private readonly HashSet<(Rule Rule, Location? Place)> seen = [];

    public IEnumerable<(Rule Rule, Location? Place, string Subject)> All =>
        all.OrderBy(b => b.Place?.SourceTree?.FilePath, StringComparer.Ordinal).ThenBy(b => b.Place?.SourceSpan.Start);

    /// <summary>No more will be told.</summary>
    public bool Full => all.Count >= Max;

    public void Add(Rule rule, Location? place, string subject)
    {
        if (!Full && seen.Add((rule, place)))
        {
            all.Add((rule, place, subject));
        }
    }
}
