namespace Statefold.Client;

/// <summary>An event that is to be appended.</summary>
/// <param name="EventType">The kind of event.</param>
/// <param name="Data">Becomes a JSON object, by the options of the client.</param>
public sealed record NewEvent(string EventType, object Data)
{
    /// <summary>Becomes a JSON object beside the data.</summary>
    public object? Metadata { get; init; }

    /// <summary>What it belongs to: a conversation, a request.</summary>
    public string? CorrelationId { get; init; }

    /// <summary>What caused it.</summary>
    public string? CausationId { get; init; }
}
