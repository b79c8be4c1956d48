using System.Text.Json;

namespace Statefold.Client;

/// <summary>A change of a projection.</summary>
/// <typeparam name="T">The shape of its states.</typeparam>
public sealed record StateChange<T>
{
    /// <summary>The cursor of the projection's changes: ascending, with gaps.</summary>
    public required long Sequence { get; init; }

    /// <summary>The projection.</summary>
    public required string ProjectionId { get; init; }

    /// <summary>Its class.</summary>
    public required string ClassName { get; init; }

    /// <summary>The state key.</summary>
    public required string Key { get; init; }

    /// <summary>The state after the change; default where the code gave none.</summary>
    public required T? State { get; init; }

    /// <summary>Of the event that made the change.</summary>
    public required string AggregateId { get; init; }

    /// <summary>Of the event that made the change.</summary>
    public required string AggregateType { get; init; }

    /// <summary>Of the event that made the change.</summary>
    public required long Version { get; init; }

    /// <summary>Of the event that made the change.</summary>
    public required string EventId { get; init; }

    /// <summary>When the change was made (UTC, milliseconds).</summary>
    public required DateTimeOffset Timestamp { get; init; }

    /// <summary>Why the state changed, where no event came: a build, a rollback and the like.</summary>
    public string? Cause { get; init; }

    // What is around the state has the names of the service, whatever the options of the owner are.
    internal static StateChange<T> Read(JsonElement item, JsonSerializerOptions json)
    {
        var read = item.Deserialize<StateChange<JsonElement>>(JsonSerializerOptions.Web)!;
        return new StateChange<T>
        {
            Sequence = read.Sequence,
            ProjectionId = read.ProjectionId,
            ClassName = read.ClassName,
            Key = read.Key,
            State = JsonText.As<T>(read.State, json),
            AggregateId = read.AggregateId,
            AggregateType = read.AggregateType,
            Version = read.Version,
            EventId = read.EventId,
            Timestamp = read.Timestamp,
            Cause = read.Cause,
        };
    }
}
