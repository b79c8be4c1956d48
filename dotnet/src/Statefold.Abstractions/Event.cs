using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Statefold;

/// <summary>An accepted event. Two are equal when they are the same version of the same aggregate.</summary>
/// <param name="AggregateId">The aggregate it belongs to.</param>
/// <param name="AggregateType">The type of that aggregate.</param>
/// <param name="EventType">The kind of event.</param>
/// <param name="Version">Its position in the aggregate, from 1 on.</param>
/// <param name="Data">The payload, as it was sent.</param>
/// <param name="Metadata">What the append carried beside it, if anything.</param>
/// <param name="CorrelationId">As sent with the append.</param>
/// <param name="CausationId">As sent with the append.</param>
/// <param name="Timestamp">When it was appended (UTC, milliseconds): the only clock that a fold may read.</param>
public sealed record Event(
    string AggregateId,
    string AggregateType,
    string EventType,
    long Version,
    JsonElement Data,
    JsonElement? Metadata,
    string? CorrelationId,
    string? CausationId,
    DateTimeOffset Timestamp)
{
    // Most folds read the data through DataAs<T>, or not at all: the element is built when it is first asked for.
    private byte[]? dataText;
    private byte[]? metadataText;
    private JsonElement data = Data;
    private JsonElement? metadata = Metadata;

    internal Event(
        string aggregateId,
        string aggregateType,
        string eventType,
        long version,
        byte[] dataText,
        byte[]? metadataText,
        string? correlationId,
        string? causationId,
        DateTimeOffset timestamp)
        : this(aggregateId, aggregateType, eventType, version, default(JsonElement), null, correlationId, causationId, timestamp)
    {
        this.dataText = dataText;
        this.metadataText = metadataText;
    }

    /// <summary>The payload, as it was sent.</summary>
    public JsonElement Data
    {
        get
        {
            if (data.ValueKind == JsonValueKind.Undefined && dataText is not null)
            {
                data = JsonElement.Parse(dataText);
            }

            return data;
        }

        init
        {
            data = value;
            dataText = null;
        }
    }

    /// <summary>What the append carried beside the events, if anything.</summary>
    public JsonElement? Metadata
    {
        get
        {
            if (metadata is null && metadataText is not null)
            {
                metadata = JsonElement.Parse(metadataText);
            }

            return metadata;
        }

        init
        {
            metadata = value;
            metadataText = null;
        }
    }

    /// <summary>The payload read as <typeparamref name="T"/> through System.Text.Json's web defaults (names match in any case).</summary>
    /// <exception cref="JsonException">The data doesn't fit the type.</exception>
    public T DataAs<T>() =>
        (dataText is not null ? JsonSerializer.Deserialize(dataText, Typed<T>.Info) : data.Deserialize(Typed<T>.Info))
        ?? throw new JsonException($"The data of the event is null, not a {typeof(T).Name}.");

    /// <inheritdoc/>
    public bool Equals(Event? other) => other is not null && AggregateId == other.AggregateId && Version == other.Version;

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(AggregateId, Version);

    // One resolver a type: statics of a generic over a collectible type go with it, and a shared cache would keep it for ever.
    private static class Typed<T>
    {
        public static readonly JsonTypeInfo<T> Info = (JsonTypeInfo<T>)new JsonSerializerOptions(JsonSerializerDefaults.Web)
        {
            TypeInfoResolver = new DefaultJsonTypeInfoResolver(),
        }.GetTypeInfo(typeof(T));
    }
}
