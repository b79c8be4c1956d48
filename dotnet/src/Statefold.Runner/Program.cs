using System.Globalization;
using Statefold.Runner;
using Statefold.Wire;

// Arguments: most entries of the state cache, most bytes of it, most bytes of one state.
var limits = new RunnerLimits(Number(0), Number(1), (int)Number(2));
new RunnerServer(HostConnection.Open(), limits).Serve();

long Number(int index) => long.Parse(args[index], CultureInfo.InvariantCulture);
