namespace Statefold.Compiler;

/// <summary>Either an assembly with what was found in it and what its states are, or the errors as text; findings come with both.</summary>
internal sealed record CompileOutcome(byte[]? Assembly, IReadOnlyList<DiscoveredClass> Discovered, byte[] StateTypes, IReadOnlyList<Finding> Findings, string Error);
