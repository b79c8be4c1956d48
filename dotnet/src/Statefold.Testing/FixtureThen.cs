using System.Text.Json;
using System.Text.Json.Serialization;

namespace Statefold.Testing;

/// <summary>What is expected.</summary>
[JsonUnmappedMemberHandling(JsonUnmappedMemberHandling.Disallow)]
internal sealed record FixtureThen
{
    /// <summary>Undefined: not said; a null of JSON: no state.</summary>
    public JsonElement State { get; init; }

    public Dictionary<string, JsonElement>? States { get; init; }

    public string? Fault { get; init; }

    public Dictionary<string, string>? Faults { get; init; }
}
