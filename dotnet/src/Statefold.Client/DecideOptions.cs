namespace Statefold.Client;

/// <summary>How a decision is made and appended.</summary>
public sealed record DecideOptions
{
    /// <summary>How often it is decided in all, when others append meanwhile.</summary>
    public int Attempts { get; init; } = 10;

    /// <summary>The text before the first <c>-</c> of the aggregate's id unless given.</summary>
    public string? AggregateType { get; init; }

    /// <summary>Of all its events that have none of their own.</summary>
    public string? CorrelationId { get; init; }

    /// <summary>Of all its events that have none of their own.</summary>
    public string? CausationId { get; init; }

    /// <summary>Of all its events that have none of their own; becomes a JSON object.</summary>
    public object? Metadata { get; init; }
}
