namespace Statefold.Client;

/// <summary>An event in the feed: the tenant's one order of all its events.</summary>
public sealed record FeedEvent : StoredEvent
{
    /// <summary>Its place in the feed: ascending, with gaps, and the same for ever.</summary>
    public required long Position { get; init; }
}
