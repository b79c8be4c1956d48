namespace Bank;

/// <summary>Follows each transfer from the account it leaves to the one it reaches: a state across two aggregates, keyed by the transfer.</summary>
public sealed class Transfers : IProjection<TransferState>
{
    public string? ResolveKey(Event e) =>
        e.EventType is "TransferSent" or "TransferReceived" ? e.DataAs<Transfer>().TransferId : null;

    public TransferState? Apply(TransferState? state, Event e)
    {
        var transfer = e.DataAs<Transfer>();
        state ??= new TransferState(transfer.From, transfer.To, transfer.Cents, SentAt: null, ReceivedAt: null);
        return e.EventType == "TransferSent" ? state with { SentAt = e.Timestamp } : state with { ReceivedAt = e.Timestamp };
    }
}

/// <param name="ReceivedAt"><c>null</c>: on its way.</param>
public sealed record TransferState(string From, string To, long Cents, DateTimeOffset? SentAt, DateTimeOffset? ReceivedAt)
{
    public bool Complete => SentAt is not null && ReceivedAt is not null;
}
