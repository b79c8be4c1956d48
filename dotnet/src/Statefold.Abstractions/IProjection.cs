namespace Statefold;

/// <summary>Maintains states across aggregates, one a key that the projection chooses itself.</summary>
/// <typeparam name="T">The state of one key. It is kept as JSON, so it must survive a round trip through System.Text.Json's web defaults.</typeparam>
public interface IProjection<T>
{
    /// <summary>The key of the state that <paramref name="e"/> changes.</summary>
    /// <returns>1 to 256 characters without control characters; <c>null</c>: the event is not for this projection.</returns>
    string? ResolveKey(Event e);

    /// <summary>The state of the event's key after <paramref name="e"/>.</summary>
    /// <param name="state">The state before it; <c>null</c> (for a value type its default) when there is none yet.</param>
    /// <param name="e">The event.</param>
    /// <returns>The new state; <c>null</c>: no state yet, or no longer any.</returns>
    T? Apply(T? state, Event e);
}
