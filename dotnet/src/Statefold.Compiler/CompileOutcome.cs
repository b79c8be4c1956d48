namespace Statefold.Compiler;

/// <summary>Either an assembly with what was found in it, or the errors as text; findings come with both.</summary>
internal sealed record CompileOutcome(byte[]? Assembly, IReadOnlyList<DiscoveredClass> Discovered, IReadOnlyList<Finding> Findings, string Error);
