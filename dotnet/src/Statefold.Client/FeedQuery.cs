namespace Statefold.Client;

/// <summary>What of the feed is asked for.</summary>
public sealed record FeedQuery
{
    /// <summary>The last position that you have; null: from the oldest on.</summary>
    public long? After { get; init; }

    /// <summary>Which events are wanted.</summary>
    public FeedFilter Filter { get; init; } = new();

    /// <summary>Most events of the page, 1 to 1,000.</summary>
    public int Limit { get; init; } = 100;

    /// <summary>How long to wait where there is nothing, whole seconds up to 30. With <see cref="WaitFor"/>: how long for that, 5 unless given.</summary>
    public int? WaitSeconds { get; init; }

    /// <summary>The page has all events up to this position, or is refused with <c>NOT_CAUGHT_UP</c>.</summary>
    public long? WaitFor { get; init; }
}
