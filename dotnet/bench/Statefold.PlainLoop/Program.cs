using System.Diagnostics;
using System.Globalization;
using System.Text.Json;
using Flights;

// The yardstick of the fold: the sample's reducer over the same events in a plain loop, from the JSON of each event to the JSON of
// each aggregate's last state. Arguments: aggregates, events of each, rounds, the JSON of an event. Prints events a second, a round a line.
var aggregates = int.Parse(args[0], CultureInfo.InvariantCulture);
var events = int.Parse(args[1], CultureInfo.InvariantCulture);
var rounds = int.Parse(args[2], CultureInfo.InvariantCulture);
var json = System.Text.Encoding.UTF8.GetBytes(args[3]);
var reducer = new RouteReducer();
var options = new JsonSerializerOptions(JsonSerializerDefaults.Web);
for (var round = 0; round < rounds; round++)
{
    var watch = Stopwatch.StartNew();
    for (var a = 0; a < aggregates; a++)
    {
        Route? state = null;
        for (var i = 1; i <= events; i++)
        {
            using var data = JsonDocument.Parse(json);
            state = reducer.Apply(state, new Event($"route-{a}", "route", "FlightLanded", i, data.RootElement, null, null, null, DateTimeOffset.UnixEpoch));
        }

        _ = JsonSerializer.SerializeToUtf8Bytes(state, options);
    }

    Console.WriteLine((aggregates * (double)events / watch.Elapsed.TotalSeconds).ToString(CultureInfo.InvariantCulture));
}
