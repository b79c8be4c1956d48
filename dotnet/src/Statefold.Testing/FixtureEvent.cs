using System.Text.Json;
using System.Text.Json.Serialization;

namespace Statefold.Testing;

/// <summary>An event of a fixture; all but its type may be left out.</summary>
[JsonUnmappedMemberHandling(JsonUnmappedMemberHandling.Disallow)]
internal sealed record FixtureEvent
{
    private static readonly JsonElement NoData = JsonElement.Parse("{}");

    public required string EventType { get; init; }

    public string? AggregateId { get; init; }

    public string? AggregateType { get; init; }

    public JsonElement? Data { get; init; }

    public JsonElement? Metadata { get; init; }

    public string? CorrelationId { get; init; }

    public string? CausationId { get; init; }

    public DateTimeOffset? Timestamp { get; init; }

    /// <summary>Its type, or what its id says.</summary>
    public string? TypeOf() => AggregateType ?? (AggregateId is null ? null : Infer(AggregateId));

    public Event ToEvent(string aggregateId, string? aggregateType, long version, DateTimeOffset timestamp) =>
        new(aggregateId, AggregateType ?? aggregateType ?? Infer(aggregateId), EventType, version, Data ?? NoData, Metadata, CorrelationId, CausationId, timestamp);

    private static string Infer(string aggregateId)
    {
        var end = aggregateId.AsSpan().IndexOfAny("-_:/");
        var prefix = end > 0 ? aggregateId[..end] : "";
        return prefix.Length is > 0 and <= 128 && prefix.All(c => char.IsAsciiLetterOrDigit(c) || c is '_' or '.' or '-') ? prefix : "default";
    }
}
