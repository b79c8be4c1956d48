using System.Text.Json;
using Statefold.Runner;
using Statefold.Wire;

namespace Statefold.Testing;

/// <summary>What a class makes of events: as the service folds them, and on the thread of the test.</summary>
internal sealed class Fold(FoldedClass of)
{
    private readonly Unit unit = of.NewUnit();
    private readonly WireWriter writer = new();
    private readonly List<string> keys = [];
    private readonly Dictionary<string, StateEntry> entries = [];

    public Dictionary<string, (Exception Error, long Version, bool Given)> Faults { get; } = [];

    /// <summary>Keys that an event of <c>when</c> concerned, in their order.</summary>
    public List<string> Changed { get; } = [];

    public IEnumerable<string> Keys => entries.Keys;

    /// <summary>Null: it has none.</summary>
    public JsonElement? StateOf(string key) => entries.TryGetValue(key, out var entry) && entry.Text is { } text ? JsonElement.Parse(text) : null;

    public void Add(Event e, bool given)
    {
        keys.Clear();
        if (of.IsReducer)
        {
            keys.Add(e.AggregateId);
        }
        else
        {
            try
            {
                unit.Resolve(e, keys);
            }
            catch (Exception error)
            {
                throw new FixtureFailedException($"ResolveKey threw at version {e.Version} of {e.AggregateId}: {MessageOf(error)}", error);
            }
        }

        foreach (var key in keys)
        {
            var entry = entries.TryGetValue(key, out var known) ? known : entries[key] = unit.NewEntry(key);
            var changed = Apply(entry, e, given) || of.IsReducer;
            if (changed && !given && !Changed.Contains(key))
            {
                Changed.Add(key);
            }
        }
    }

    public static string MessageOf(Exception error) => error is StateException ? error.Message : $"{error.GetType().Name}: {error.Message}";

    /// <summary>False: its state is the same as before.</summary>
    private bool Apply(StateEntry entry, Event e, bool given)
    {
        // What comes after a throw waits.
        if (Faults.ContainsKey(entry.Key))
        {
            return true;
        }

        try
        {
            unit.Apply(entry, e);
            writer.Truncate(0);
            unit.Write(entry, writer);
            var before = entry.Text;
            // A byte for the kind, four for the length, then JSON.
            entry.Text = writer.Written[0] == StateText.Null ? null : writer.Written[5..].ToArray();
            return before is null ? entry.Text is not null : entry.Text is null || !entry.Text.AsSpan().SequenceEqual(before);
        }
        catch (Exception error)
        {
            Faults[entry.Key] = (error, e.Version, given);
            entry.Drop();
            return true;
        }
    }
}
