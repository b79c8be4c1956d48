namespace Statefold.Runner;

internal sealed class ProjectionUnit<T>(IProjection<T> projection, RunnerLimits limits) : TypedUnit<T>(limits)
{
    public override void Resolve(Event e, List<string> keys)
    {
        if (projection.ResolveKey(e) is { } key)
        {
            keys.Add(StateKey.Require(key));
        }
    }

    protected override T? Next(T? state, Event e, string key) => projection.Apply(state, e);
}
