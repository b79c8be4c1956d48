/** C# sources that the end-to-end tests upload. */

/** Counts events; `Reset` gives null, `Boom` throws (line 9), `Hang` never ends, and `Echo` keeps what the event carries. */
export const tally = (aggregateType: string, step = 1, className = 'Tally'): string => `namespace Tests;

[AggregateType("${aggregateType}")]
public sealed class ${className} : IReducer<${className}State>
{
    public ${className}State? Apply(${className}State? state, Event e) => e.EventType switch
    {
        "Reset" => null,
        "Boom" => throw new InvalidOperationException($"boom at {e.Version}"),
        "Hang" => Hang(),
        "Echo" => new((state?.Count ?? 0) + ${step}, e.Version, $"{e.AggregateId}|{e.AggregateType}|{e.CorrelationId}|{e.CausationId}|{e.Metadata?.GetRawText()}|{e.Timestamp:yyyy-MM-dd'T'HH:mm:ss.fff'Z'}"),
        _ => new((state?.Count ?? 0) + ${step}, e.Version, e.EventType),
    };

    private static ${className}State? Hang()
    {
        while (true) { }
    }
}

public sealed record ${className}State(int Count, long Version, string Last);
`;

/** As `tally`, but that `Hang` ends the process, by recursion without an end: that needs no deadline, which a busy machine might overrun with any event. */
export const crashing = (aggregateType: string, className = 'Tally'): string =>
  tally(aggregateType, 1, className).replace(
    '    {\n        while (true) { }\n    }',
    '    {\n        return Hang() is { } state ? state with { Count = 1 } : null;\n    }',
  );

/** Sums `data.n` by `data.key`; no key: not for it. The state stays when n is 0; \`Boom\` throws (line 13). */
export const totals = (className = 'Totals', factor = 1): string => `namespace Tests;

public sealed class ${className} : IProjection<${className}State>
{
    public string? ResolveKey(Event e) => e.Data.TryGetProperty("key", out var key) ? key.GetString() : null;

    public ${className}State? Apply(${className}State? state, Event e)
    {
        var n = e.Data.GetProperty("n").GetInt64();
        if (e.EventType == "Forget") return null;
        if (e.EventType == "Boom")
        {
            throw new InvalidOperationException($"boom at {e.Version}");
        }

        return new((state?.Total ?? 0) + n * ${factor});
    }
}

public sealed record ${className}State(long Total);
`;

/** One event, a key a tag. */
export const tags = `namespace Tests;

public sealed class Tags : IMultiKeyProjection<TagState>
{
    public IEnumerable<string> ResolveKeys(Event e) =>
        e.Data.TryGetProperty("tags", out var tags) ? tags.EnumerateArray().Select(tag => tag.GetString()!).ToArray() : [];

    public TagState? Apply(TagState? state, Event e, string key) => new((state?.Count ?? 0) + 1, key);

    public TagState? Apply(TagState? state, Event e) => throw new InvalidOperationException("not asked");
}

public sealed record TagState(int Count, string Tag);
`;
