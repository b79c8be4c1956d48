namespace Bank;

/// <summary>Data of <c>Opened</c>.</summary>
public sealed record Opened(string Owner);

/// <summary>Data of <c>Deposited</c> and <c>Withdrawn</c>, and the part of the transfers that the account needs.</summary>
public sealed record Amount(long Cents);

/// <summary>Data of <c>TransferSent</c> (on the account it leaves) and <c>TransferReceived</c> (on the one it reaches).</summary>
public sealed record Transfer(string TransferId, string From, string To, long Cents);
