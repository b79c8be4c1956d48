namespace Statefold.Runner;

/// <summary>The loaded artefacts of the tenant and the units made of their classes.</summary>
internal sealed class Artefacts(StateCache cache, RunnerLimits limits)
{
    private readonly Dictionary<string, Artefact> artefacts = [];
    private readonly Dictionary<UnitId, Unit> units = [];

    public void Load(string artefactId, ReadOnlySpan<byte> assembly)
    {
        Unload(artefactId);
        artefacts.Add(artefactId, new Artefact(assembly.ToArray()));
    }

    public void Unload(string artefactId)
    {
        if (artefacts.Remove(artefactId, out var artefact))
        {
            Remove(id => id.ArtefactId == artefactId);
            artefact.Unload();
        }
    }

    /// <summary>Drops the states of a projection's generation; an empty id: of everything.</summary>
    public void Forget(string unitId)
    {
        if (unitId.Length == 0)
        {
            cache.Clear();
        }
        else
        {
            Remove(id => id.Generation == unitId);
        }
    }

    /// <summary>The unit of a class. What is wrong with the class itself shows when it is first applied.</summary>
    public Unit Unit(UnitId id)
    {
        if (!units.TryGetValue(id, out var unit))
        {
            unit = artefacts.TryGetValue(id.ArtefactId, out var artefact)
                ? artefact.Create(id.ClassName, limits)
                : new BrokenUnit(new InvalidOperationException($"The artefact of {id.ClassName} is not loaded."));
            units.Add(id, unit);
        }

        return unit;
    }

    private void Remove(Predicate<UnitId> matches)
    {
        foreach (var id in units.Keys.Where(id => matches(id)).ToList())
        {
            units.Remove(id, out var unit);
            cache.Remove(unit!);
        }
    }
}
