using System.Text.Json;

namespace Statefold.Client;

/// <summary>What a subscription follows: where it is, and how its items are told.</summary>
/// <typeparam name="T">Of the items.</typeparam>
internal sealed record Followed<T>
{
    /// <summary>Of the WebSocket.</summary>
    public required string StreamPath { get; init; }

    /// <summary>Of the polls.</summary>
    public required string PollPath { get; init; }

    public required IReadOnlyList<(string Name, string? Value)> Filters { get; init; }

    /// <summary>The parameter to resume with.</summary>
    public required string Cursor { get; init; }

    /// <summary>The type of a message that is an item.</summary>
    public required string Type { get; init; }

    /// <summary>The member of a page that has the items, and the one that says how far it goes.</summary>
    public required (string Items, string Reached) Members { get; init; }

    public required Func<JsonElement, T> ItemOf { get; init; }

    public required Func<T, long> PlaceOf { get; init; }

    /// <summary>The newest place, where the service tells it.</summary>
    public Func<CancellationToken, Task<long?>>? Newest { get; init; }
}
