namespace Statefold;

/// <summary>A projection in which one event may change the states of several keys.</summary>
/// <typeparam name="T">The state of one key.</typeparam>
public interface IMultiKeyProjection<T> : IProjection<T>
{
    /// <summary>The keys whose states <paramref name="e"/> changes, in this order; one that is given twice counts once.</summary>
    IEnumerable<string> ResolveKeys(Event e);

    /// <summary>The state of <paramref name="key"/> after <paramref name="e"/>; asks the method without a key unless overridden.</summary>
    T? Apply(T? state, Event e, string key) => Apply(state, e);

    /// <summary>Not asked: <see cref="ResolveKeys"/> takes its place.</summary>
    string? IProjection<T>.ResolveKey(Event e) => null;
}
