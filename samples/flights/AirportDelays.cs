namespace Flights;

/// <summary>
/// Delays of the flights that landed at each airport. Whole numbers only, so that the sums can be compared with those of a SQL query
/// to the last digit: <c>count(), sum(delay), max(delay) … group by destination</c>.
/// </summary>
public sealed class AirportDelays : IProjection<Airport>
{
    public string? ResolveKey(Event e) => e.EventType == "FlightLanded" ? e.DataAs<Flight>().Destination : null;

    public Airport? Apply(Airport? airport, Event e)
    {
        var delay = e.DataAs<Flight>().Delay;
        return airport is null
            ? new Airport(Flights: 1, TotalDelay: delay, Worst: delay)
            : new Airport(airport.Flights + 1, airport.TotalDelay + delay, Math.Max(airport.Worst, delay));
    }
}

/// <param name="TotalDelay">Minutes; early flights count below zero.</param>
/// <param name="Worst">The largest delay, in minutes.</param>
public sealed record Airport(long Flights, long TotalDelay, int Worst);
