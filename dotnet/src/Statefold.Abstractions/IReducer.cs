namespace Statefold;

/// <summary>Computes the state of one aggregate from its events, in the order of their versions.</summary>
/// <typeparam name="T">The state. It is kept as JSON, so it must survive a round trip through System.Text.Json's web defaults.</typeparam>
public interface IReducer<T>
{
    /// <summary>The state after <paramref name="e"/>.</summary>
    /// <param name="state">The state before it; <c>null</c> (for a value type its default) when there is none yet.</param>
    /// <param name="e">The event.</param>
    /// <returns>The new state; <c>null</c>: no state yet, or no longer any.</returns>
    T? Apply(T? state, Event e);
}
