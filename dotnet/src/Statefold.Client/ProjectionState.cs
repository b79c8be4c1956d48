using System.Text.Json;

namespace Statefold.Client;

/// <summary>A state of a projection.</summary>
/// <typeparam name="T">Its shape.</typeparam>
public sealed record ProjectionState<T>
{
    /// <summary>The state key.</summary>
    public required string Key { get; init; }

    /// <summary>The class that keeps it.</summary>
    public required string ClassName { get; init; }

    /// <summary>Default where the code gave none.</summary>
    public required T? State { get; init; }

    /// <summary>Of its latest change.</summary>
    public required long Sequence { get; init; }

    /// <summary>When it changed last (UTC, milliseconds).</summary>
    public required DateTimeOffset LastModified { get; init; }

    // What is around the state has the names of the service, whatever the options of the owner are.
    internal static ProjectionState<T> Read(JsonElement item, JsonSerializerOptions json)
    {
        var read = item.Deserialize<ProjectionState<JsonElement>>(JsonSerializerOptions.Web)!;
        return new ProjectionState<T>
        {
            Key = read.Key,
            ClassName = read.ClassName,
            State = JsonText.As<T>(read.State, json),
            Sequence = read.Sequence,
            LastModified = read.LastModified,
        };
    }
}
