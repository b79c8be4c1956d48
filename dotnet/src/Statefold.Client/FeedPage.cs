namespace Statefold.Client;

/// <summary>A page of the feed.</summary>
public sealed record FeedPage
{
    /// <summary>In their order.</summary>
    public required IReadOnlyList<FeedEvent> Events { get; init; }

    /// <summary>Aggregates that were erased, in the order of their positions, which lie among those of the events.</summary>
    public IReadOnlyList<FeedErasure> Erasures { get; init; } = [];

    /// <summary>Where to go on: past all that was read, also what the filters left out.</summary>
    public required long Position { get; init; }
}
