using System.Text.Json.Serialization;

namespace Statefold.Testing;

/// <summary>One given/when/then, as its file has it.</summary>
[JsonUnmappedMemberHandling(JsonUnmappedMemberHandling.Disallow)]
internal sealed record FixtureCase
{
    public string? Name { get; init; }

    public string? Reducer { get; init; }

    public string? Projection { get; init; }

    public IReadOnlyList<FixtureEvent> Given { get; init; } = [];

    public required IReadOnlyList<FixtureEvent> When { get; init; }

    public required FixtureThen Then { get; init; }
}
