namespace Statefold.Compiler;

/// <summary>A class that implements what the upload is for. <paramref name="AggregateType"/>: reducers only.</summary>
internal sealed record DiscoveredClass(string ClassName, string StateTypeName, string? AggregateType);
