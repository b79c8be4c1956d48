namespace Statefold.Client;

/// <summary>What goes with an append.</summary>
public sealed record AppendOptions
{
    /// <summary>Refuse it with <c>VERSION_CONFLICT</c> where the aggregate is at another version; null: whatever there is.</summary>
    public ExpectedVersion? ExpectedVersion { get; init; }

    /// <summary>Names the append, so that it is stored once however often it is sent, by this process or another. Made for each append unless given.</summary>
    public string? IdempotencyKey { get; init; }

    /// <summary>The text before the first <c>-</c> of the aggregate's id unless given.</summary>
    public string? AggregateType { get; init; }

    /// <summary>Of all its events that have none of their own.</summary>
    public string? CorrelationId { get; init; }

    /// <summary>Of all its events that have none of their own.</summary>
    public string? CausationId { get; init; }

    /// <summary>Of all its events that have none of their own; becomes a JSON object.</summary>
    public object? Metadata { get; init; }
}
