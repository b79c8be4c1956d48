namespace Statefold.Client;

/// <summary>Which events are wanted: those that have one of the values of each list that is not empty.</summary>
public sealed record FeedFilter
{
    /// <summary>Types of aggregates.</summary>
    public IReadOnlyCollection<string> AggregateTypes { get; init; } = [];

    /// <summary>Kinds of events.</summary>
    public IReadOnlyCollection<string> EventTypes { get; init; } = [];

    /// <summary>Aggregates.</summary>
    public IReadOnlyCollection<string> AggregateIds { get; init; } = [];

    internal IEnumerable<(string Name, string? Value)> Query() =>
    [
        .. AggregateTypes.Select(one => ("aggregateType", (string?)one)),
        .. EventTypes.Select(one => ("eventType", (string?)one)),
        .. AggregateIds.Select(one => ("aggregateId", (string?)one)),
    ];
}
