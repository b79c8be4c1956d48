namespace Statefold.Runner;

/// <summary>One aggregate of a fold request.</summary>
internal readonly record struct FoldItem(
    StateEntry Entry, string AggregateId, string AggregateType, long BaseVersion, int EventCount, int EventBytes);
