namespace Statefold.Runner;

/// <summary>The state of one aggregate or key, as the runner holds it.</summary>
internal abstract class StateEntry(Unit unit, string key)
{
    public Unit Unit { get; } = unit;

    public string Key { get; } = key;

    /// <summary>Reducers: the version that the state reflects.</summary>
    public long Version { get; set; }

    /// <summary>The last state that was written, as JSON; null: the code gave none. What a throw goes back to.</summary>
    public byte[]? Text { get; set; }

    /// <summary>Projections: an event has stopped the key.</summary>
    public bool Faulted { get; set; }

    /// <summary>Made for this request: the host has not been asked for its state yet.</summary>
    public bool Missing { get; set; } = true;

    /// <summary>Index of the last event (projections: touch) of this request that concerned it.</summary>
    public int LastTouch { get; set; }

    public StateEntry? Newer { get; set; }

    public StateEntry? Older { get; set; }

    /// <summary>What the cache counted for it.</summary>
    public long Charged { get; set; }

    /// <summary>Forgets the typed state; it is read from <see cref="Text"/> again when needed.</summary>
    public abstract void Drop();
}
