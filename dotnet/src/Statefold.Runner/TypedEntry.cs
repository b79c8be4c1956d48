namespace Statefold.Runner;

internal sealed class TypedEntry<T>(Unit unit, string key) : StateEntry(unit, key)
{
    public T? State { get; set; }

    public bool Loaded { get; set; }

    public override void Drop()
    {
        State = default;
        Loaded = false;
    }
}
