namespace Statefold.Client;

/// <summary>A page of the feed.</summary>
public sealed record FeedPage
{
    /// <summary>In their order.</summary>
    public required IReadOnlyList<FeedEvent> Events { get; init; }

    /// <summary>Where to go on: past all that was read, also what the filters left out.</summary>
    public required long Position { get; init; }
}
