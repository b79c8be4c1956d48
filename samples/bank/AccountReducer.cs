namespace Bank;

/// <summary>The balance of one account. Amounts are in cents: whole numbers add up.</summary>
public sealed class AccountReducer : IReducer<Account>
{
    public Account? Apply(Account? account, Event e)
    {
        if (e.EventType == "Opened")
        {
            return account is null ? new Account(e.DataAs<Opened>().Owner, Balance: 0, Entries: 0) : throw new InvalidOperationException("The account is open already.");
        }

        if (account is null)
        {
            throw new InvalidOperationException($"{e.EventType} on an account that was never opened.");
        }

        return e.EventType switch
        {
            "Deposited" or "TransferReceived" => account.Plus(e.DataAs<Amount>().Cents),
            "Withdrawn" or "TransferSent" => account.Plus(-e.DataAs<Amount>().Cents),
            "Closed" => null,
            _ => account,
        };
    }
}

/// <param name="Balance">Cents.</param>
/// <param name="Entries">Movements so far.</param>
public sealed record Account(string Owner, long Balance, int Entries)
{
    public Account Plus(long cents) => this with { Balance = checked(Balance + cents), Entries = Entries + 1 };
}
