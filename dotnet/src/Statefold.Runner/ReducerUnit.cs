namespace Statefold.Runner;

internal sealed class ReducerUnit<T>(IReducer<T> reducer, RunnerLimits limits) : TypedUnit<T>(limits)
{
    public override void Resolve(Event e, List<string> keys) => throw new InvalidOperationException("A reducer has no keys.");

    protected override T? Next(T? state, Event e, string key) => reducer.Apply(state, e);
}
