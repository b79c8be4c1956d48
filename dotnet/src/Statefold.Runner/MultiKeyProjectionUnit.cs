using Statefold.Wire;

namespace Statefold.Runner;

internal sealed class MultiKeyProjectionUnit<T>(IMultiKeyProjection<T> projection, RunnerLimits limits) : TypedUnit<T>(limits)
{
    private readonly HashSet<string> seen = [];

    public override void Resolve(Event e, List<string> keys)
    {
        seen.Clear();
        foreach (var key in projection.ResolveKeys(e) ?? [])
        {
            if (key is null || !seen.Add(StateKey.Require(key)))
            {
                continue;
            }

            if (seen.Count > WireLimits.MaxKeys)
            {
                throw new StateException($"ResolveKeys gave more than {WireLimits.MaxKeys} keys for one event.");
            }

            keys.Add(key);
        }
    }

    protected override T? Next(T? state, Event e, string key) => projection.Apply(state, e, key);
}
