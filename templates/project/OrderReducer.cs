namespace __Name__;

/// <summary>One order: the state of an aggregate of type <c>order</c>. It depends on the events alone, so that it can be folded again.</summary>
public sealed class OrderReducer : IReducer<Order>
{
    public Order? Apply(Order? order, Event e)
    {
        if (e.EventType == "Placed")
        {
            return order is null ? new Order(e.DataAs<Placed>().Customer, OrderStatus.Open, Total: 0, Lines: []) : throw new InvalidOperationException("The order was placed already.");
        }

        if (order is null)
        {
            throw new InvalidOperationException($"{e.EventType} on an order that was never placed.");
        }

        return e.EventType switch
        {
            "LineAdded" => order.With(e.DataAs<LineAdded>()),
            "Paid" => order with { Status = OrderStatus.Paid },
            "Cancelled" => order with { Status = OrderStatus.Cancelled },
            _ => order,
        };
    }
}

/// <param name="Total">Cents.</param>
public sealed record Order(string Customer, OrderStatus Status, long Total, IReadOnlyList<LineAdded> Lines)
{
    public Order With(LineAdded line) => Status == OrderStatus.Open
        ? this with { Total = checked(Total + line.Quantity * line.Price), Lines = [.. Lines, line] }
        : throw new InvalidOperationException($"A line on an order that is {Status}.");
}

[System.Text.Json.Serialization.JsonConverter(typeof(System.Text.Json.Serialization.JsonStringEnumConverter<OrderStatus>))]
public enum OrderStatus
{
    Open,
    Paid,
    Cancelled,
}
