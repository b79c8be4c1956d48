using System.Text.Json;
using System.Text.Json.Serialization;

namespace Statefold.Client;

/// <summary>What was stored.</summary>
public sealed record AppendResult
{
    /// <summary>The aggregate.</summary>
    public required string AggregateId { get; init; }

    /// <summary>Its type.</summary>
    public required string AggregateType { get; init; }

    /// <summary>Version of the first event.</summary>
    public required long StartVersion { get; init; }

    /// <summary>Version of the last event: that of the aggregate now.</summary>
    public required long EndVersion { get; init; }

    /// <summary>One for each event, in their order.</summary>
    public required IReadOnlyList<string> EventIds { get; init; }

    /// <summary>When they were stored (UTC, milliseconds).</summary>
    public required DateTimeOffset Timestamp { get; init; }

    /// <summary>What the bound reducer made of the aggregate; undefined where none is bound, or it was not ready in time.</summary>
    public JsonElement State { get; init; }

    /// <summary>Why there is no state although a reducer is bound.</summary>
    public string? StateStatus { get; init; }

    /// <summary>Of the last event in the feed, for <c>waitFor</c>. Null where it was not known in time, in a tenant of several partitions.</summary>
    [JsonIgnore]
    public long? Position { get; internal set; }

    [JsonIgnore]
    internal JsonSerializerOptions? Json { get; set; }

    /// <summary>The state as a type of yours; default where there is none.</summary>
    /// <typeparam name="T">Its shape.</typeparam>
    public T? StateAs<T>() => JsonText.As<T>(State, Json);
}
