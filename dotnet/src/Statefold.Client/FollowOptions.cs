namespace Statefold.Client;

/// <summary>Where a subscription begins, and how it connects again.</summary>
public sealed record FollowOptions
{
    /// <summary>The last position, or sequence, that you have; null: it begins with the oldest that is kept.</summary>
    public long? After { get; init; }

    /// <summary>Where <see cref="After"/> is null: it begins with what comes from now on.</summary>
    public bool FromNow { get; init; }

    /// <summary>Of the feed: which events are wanted.</summary>
    public FeedFilter Filter { get; init; } = new();

    /// <summary>
    /// Of the feed: told of each aggregate that was erased, at the place of the erasure among the events, whatever types of events are wanted.
    /// Who keeps copies of its events erases them. It is waited for, and what it throws ends the loop.
    /// </summary>
    public Func<FeedErasure, CancellationToken, Task>? OnErased { get; init; }

    /// <summary>Of a projection: changes of this state key alone.</summary>
    public string? Key { get; init; }

    /// <summary>Before the first attempt to connect again; doubled from then on, and by chance up to half shorter.</summary>
    public TimeSpan FirstDelay { get; init; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The longest pause between two attempts.</summary>
    public TimeSpan MostDelay { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>Ask by long polls alone, for networks that let no WebSocket through. They are also what a WebSocket that can't be opened gives way to.</summary>
    public bool PollOnly { get; init; }
}
