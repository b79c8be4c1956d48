namespace Statefold.Client;

/// <summary>An aggregate was erased: its events are in the feed no more. Who keeps copies of them erases those.</summary>
public sealed record FeedErasure
{
    /// <summary>Its place in the feed, among those of the events.</summary>
    public required long Position { get; init; }

    /// <summary>The aggregate, whose id is not used again.</summary>
    public required string AggregateId { get; init; }

    /// <summary>The type of that aggregate.</summary>
    public required string AggregateType { get; init; }

    /// <summary>When it was erased (UTC, milliseconds).</summary>
    public required DateTimeOffset Timestamp { get; init; }

    /// <summary>Why, where that was said.</summary>
    public string? Reason { get; init; }

    internal const string Type = "erased";
}
