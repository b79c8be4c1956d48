namespace __Name__;

/// <summary>What each customer has ordered: a state across all orders. The customer's name is its key.</summary>
public sealed class Customers : IProjection<Customer>
{
    public string? ResolveKey(Event e) => e.EventType == "Placed" ? e.DataAs<Placed>().Customer : null;

    public Customer? Apply(Customer? customer, Event e) => new((customer?.Orders ?? 0) + 1, LastOrder: e.AggregateId, LastAt: e.Timestamp);
}

/// <param name="LastOrder">The aggregate's id.</param>
public sealed record Customer(int Orders, string LastOrder, DateTimeOffset LastAt);
