using System.Text.Json;
using System.Text.Json.Serialization;

namespace Statefold.Client;

/// <summary>An event that is stored.</summary>
public record StoredEvent
{
    /// <summary>Of the event, a UUID.</summary>
    public required string EventId { get; init; }

    /// <summary>The aggregate it belongs to.</summary>
    public required string AggregateId { get; init; }

    /// <summary>The type of that aggregate.</summary>
    public required string AggregateType { get; init; }

    /// <summary>The kind of event.</summary>
    public required string EventType { get; init; }

    /// <summary>As it was sent.</summary>
    public required JsonElement Data { get; init; }

    /// <summary>Its place in the aggregate, from 1 on.</summary>
    public required long Version { get; init; }

    /// <summary>When it was stored (UTC, milliseconds).</summary>
    public required DateTimeOffset Timestamp { get; init; }

    /// <summary>As it was sent, if it was.</summary>
    public string? CorrelationId { get; init; }

    /// <summary>As it was sent, if it was.</summary>
    public string? CausationId { get; init; }

    /// <summary>As it was sent; undefined if it was not.</summary>
    public JsonElement Metadata { get; init; }

    [JsonIgnore]
    internal JsonSerializerOptions? Json { get; set; }

    /// <summary>The data as a type of yours.</summary>
    /// <typeparam name="T">Its shape.</typeparam>
    /// <exception cref="JsonException">It has another shape.</exception>
    public T DataAs<T>() => JsonText.As<T>(Data, Json) ?? throw new JsonException($"the data of {EventType} is no {typeof(T).Name}");
}
