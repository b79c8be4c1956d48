using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>One class of tenant code with the states it has made. Everything that runs that code may throw anything.</summary>
internal abstract class Unit
{
    public Dictionary<string, StateEntry> Entries { get; } = [];

    public abstract StateEntry NewEntry(string key);

    /// <summary>Moves the entry's state on by one event.</summary>
    public abstract void Apply(StateEntry entry, Event e);

    /// <summary>Writes the entry's state as the wire has it (see <see cref="StateText"/>).</summary>
    public abstract void Write(StateEntry entry, WireWriter writer);

    /// <summary>Adds the keys of a projection's event, distinct and in the order given.</summary>
    public abstract void Resolve(Event e, List<string> keys);
}
