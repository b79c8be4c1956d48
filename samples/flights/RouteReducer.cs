namespace Flights;

/// <summary>What is known of one route, from its flights. An aggregate is a route: <c>route-DTW-LAS</c>.</summary>
[AggregateType("route")]
public sealed class RouteReducer : IReducer<Route>
{
    public Route? Apply(Route? route, Event e)
    {
        if (e.EventType != "FlightLanded")
        {
            return route;
        }

        var flight = e.DataAs<Flight>();
        route ??= new Route(flight.Origin, flight.Destination, flight.Distance, Flights: 0, Delayed: 0, TotalDelay: 0);
        return route with
        {
            Distance = flight.Distance,
            Flights = route.Flights + 1,
            Delayed = route.Delayed + (flight.Delay > 0 ? 1 : 0),
            TotalDelay = route.TotalDelay + flight.Delay,
        };
    }
}

/// <param name="Distance">Miles.</param>
/// <param name="Delayed">Flights that landed late.</param>
/// <param name="TotalDelay">Minutes; early flights count below zero.</param>
public sealed record Route(string Origin, string Destination, int Distance, long Flights, long Delayed, long TotalDelay);
