namespace Flights;

/// <summary>The data of a <c>FlightLanded</c> event, as the data set has it.</summary>
/// <param name="Date">Local time, <c>2001/01/01 00:47</c>.</param>
/// <param name="Delay">Minutes; below zero when early.</param>
/// <param name="Distance">Miles.</param>
public sealed record Flight(string Date, int Delay, int Distance, string Origin, string Destination);
