namespace __Name__;

/// <summary>Data of <c>Placed</c>. Amounts are in cents: whole numbers add up.</summary>
public sealed record Placed(string Customer);

/// <summary>Data of <c>LineAdded</c>.</summary>
public sealed record LineAdded(string Product, int Quantity, long Price);

/// <summary>Data of <c>Cancelled</c>.</summary>
public sealed record Cancelled(string Reason);
