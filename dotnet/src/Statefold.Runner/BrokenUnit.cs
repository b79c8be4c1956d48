using System.Runtime.ExceptionServices;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>Stands for a class that can't be made: every event meets the same error.</summary>
internal sealed class BrokenUnit(Exception error) : Unit
{
    public override StateEntry NewEntry(string key) => new TypedEntry<object>(this, key);

    public override void Apply(StateEntry entry, Event e) => ExceptionDispatchInfo.Throw(error);

    public override void Write(StateEntry entry, WireWriter writer) => StateText.Copy(entry.Text, writer);

    public override void Resolve(Event e, List<string> keys) => ExceptionDispatchInfo.Throw(error);
}
