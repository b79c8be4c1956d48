namespace Statefold.Runner;

/// <summary>
/// The least recently used states leave when there are too many, by count or by approximate bytes. They leave between requests
/// only: within one, every state that it concerns stays.
/// </summary>
internal sealed class StateCache(RunnerLimits limits)
{
    // The typed state and the text of it, and the objects around them.
    private const int PerTextByte = 4;
    private const int PerEntry = 400;

    private StateEntry? newest;
    private StateEntry? oldest;
    private long entries;
    private long bytes;

    /// <summary>The entry of a key, made when there is none; it becomes the most recently used.</summary>
    public StateEntry Use(Unit unit, string key)
    {
        if (unit.Entries.TryGetValue(key, out var entry))
        {
            if (entry == newest)
            {
                return entry;
            }

            Unlink(entry);
        }
        else
        {
            entry = unit.NewEntry(key);
            unit.Entries.Add(key, entry);
            entries++;
        }

        entry.Older = newest;
        if (newest is not null)
        {
            newest.Newer = entry;
        }

        newest = entry;
        oldest ??= entry;
        return entry;
    }

    /// <summary>Counts the size of an entry whose text has changed.</summary>
    public void Charge(StateEntry entry)
    {
        var size = PerEntry + (2L * entry.Key.Length) + ((long)PerTextByte * (entry.Text?.Length ?? 0));
        bytes += size - entry.Charged;
        entry.Charged = size;
    }

    public void Trim()
    {
        while (oldest is not null && (entries > limits.CacheEntries || bytes > limits.CacheBytes))
        {
            Remove(oldest);
        }
    }

    public void Remove(Unit unit)
    {
        foreach (var entry in unit.Entries.Values.ToList())
        {
            Remove(entry);
        }
    }

    public void Clear()
    {
        while (oldest is not null)
        {
            Remove(oldest);
        }
    }

    private void Remove(StateEntry entry)
    {
        Unlink(entry);
        entry.Unit.Entries.Remove(entry.Key);
        entries--;
        bytes -= entry.Charged;
    }

    private void Unlink(StateEntry entry)
    {
        if (entry.Newer is null)
        {
            newest = entry.Older;
        }
        else
        {
            entry.Newer.Older = entry.Older;
        }

        if (entry.Older is null)
        {
            oldest = entry.Newer;
        }
        else
        {
            entry.Older.Newer = entry.Newer;
        }

        entry.Newer = null;
        entry.Older = null;
    }
}
