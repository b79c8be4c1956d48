using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>Feeds events to projections: first all keys are resolved, then the states that are lacking are asked for, then it folds.</summary>
internal sealed class ProjectHandler(
    Artefacts artefacts, StateCache cache, EventReader events, WireWriter writer, Func<uint, Frame> askForStates)
{
    private readonly List<Unit> units = [];
    private readonly List<Event> batch = [];
    private readonly List<Touch> touches = [];
    private readonly List<StateEntry> missing = [];
    private readonly List<string> keys = [];
    private readonly WireWriter scratch = new();

    public void Serve(Frame frame)
    {
        var (reply, onlyKey) = ReadRequest(frame);
        ResolveAll(onlyKey, holdStates: reply != Reply.Keys);
        if (missing.Count > 0)
        {
            FetchMissing(frame.RequestId);
        }

        writer.Begin(frame.RequestId, Tag.Projected);
        var countAt = writer.Length;
        writer.UInt32(0);
        var changes = reply switch
        {
            Reply.Each => FoldEach(),
            Reply.Last => FoldLast(),
            _ => WriteKeys(),
        };
        writer.PatchUInt32(countAt, (uint)changes);
        batch.Clear();
        touches.Clear();
    }

    private (Reply Reply, string OnlyKey) ReadRequest(Frame frame)
    {
        units.Clear();
        batch.Clear();
        touches.Clear();
        missing.Clear();
        var reader = new WireReader(frame.Payload.Span);
        var reply = (Reply)reader.Byte();
        var onlyKey = reader.String();
        for (var left = reader.Count(); left > 0; left--)
        {
            units.Add(artefacts.Unit(new UnitId(events.Name(ref reader), events.Name(ref reader), events.Name(ref reader))));
        }

        events.Begin("", "");
        for (var left = reader.Count(); left > 0; left--)
        {
            batch.Add(events.Read(ref reader));
        }

        return (reply, onlyKey);
    }

    private void ResolveAll(string onlyKey, bool holdStates)
    {
        for (var e = 0; e < batch.Count; e++)
        {
            for (var u = 0; u < units.Count; u++)
            {
                keys.Clear();
                Failure? failure = null;
                try
                {
                    units[u].Resolve(batch[e], keys);
                }
                catch (Exception error) when (error is not OutOfMemoryException)
                {
                    failure = Failure.Of(error);
                    keys.Clear();
                    // What can't be given a key stops under the empty one, which no projection can give.
                    keys.Add("");
                }

                foreach (var key in keys)
                {
                    if (onlyKey.Length > 0 && key != onlyKey)
                    {
                        continue;
                    }

                    var entry = holdStates ? cache.Use(units[u], key) : units[u].NewEntry(key);
                    if (holdStates && entry.Missing)
                    {
                        entry.Missing = false;
                        missing.Add(entry);
                    }

                    if (touches.Count == WireLimits.MaxEntries)
                    {
                        // Nothing is folded yet: the host asks for less at a time.
                        throw new FrameTooLargeException();
                    }

                    entry.LastTouch = touches.Count;
                    touches.Add(new Touch(e, u, entry, failure));
                }
            }
        }
    }

    private void FetchMissing(uint requestId)
    {
        writer.Begin(requestId, Tag.Missing);
        writer.VarUInt((ulong)missing.Count);
        foreach (var entry in missing)
        {
            writer.VarUInt((ulong)units.IndexOf(entry.Unit));
            writer.String(entry.Key);
        }

        var states = new WireReader(askForStates(requestId).Payload.Span);
        foreach (var entry in missing)
        {
            entry.Faulted = states.Byte() == 1;
            entry.Text = StateText.Read(ref states);
            cache.Charge(entry);
        }
    }

    private int FoldEach()
    {
        var changes = 0;
        foreach (var touch in touches)
        {
            var entry = touch.Entry;
            if (Stopped(touch))
            {
                WriteChange(touch);
                changes++;
                continue;
            }

            var before = writer.Length;
            try
            {
                entry.Unit.Apply(entry, batch[touch.EventIndex]);
                touch.Outcome = Outcome.Changed;
                WriteHead(touch);
                var start = writer.Length;
                entry.Unit.Write(entry, writer);
                if (Keep(entry, writer.Written[start..]))
                {
                    changes++;
                }
                else
                {
                    writer.Truncate(before);
                }
            }
            catch (Exception error) when (error is not (OutOfMemoryException or FrameTooLargeException))
            {
                writer.Truncate(before);
                Stop(touch, Failure.Of(error));
                WriteChange(touch);
                changes++;
            }
        }

        return changes;
    }

    private int FoldLast()
    {
        for (var i = 0; i < touches.Count; i++)
        {
            var touch = touches[i];
            if (Stopped(touch))
            {
                continue;
            }

            try
            {
                touch.Entry.Unit.Apply(touch.Entry, batch[touch.EventIndex]);
            }
            catch (Exception error) when (error is not OutOfMemoryException)
            {
                GoBack(touch.Entry, i, Failure.Of(error));
            }
        }

        for (var i = 0; i < touches.Count; i++)
        {
            var entry = touches[i].Entry;
            if (entry.LastTouch != i || entry.Faulted)
            {
                continue;
            }

            touches[i].Outcome = Outcome.Changed;
            try
            {
                Keep(entry, Written(entry));
            }
            catch (Exception error) when (error is not (OutOfMemoryException or FrameTooLargeException))
            {
                GoBack(entry, i, Failure.Of(error));
            }
        }

        var changes = 0;
        foreach (var touch in touches)
        {
            if (touch.Outcome != Outcome.Applied)
            {
                WriteChange(touch);
                changes++;
            }
        }

        return changes;
    }

    private int WriteKeys()
    {
        foreach (var touch in touches)
        {
            touch.Outcome = touch.Failure is null ? Outcome.Changed : Outcome.Faulted;
            WriteChange(touch);
        }

        return touches.Count;
    }

    /// <summary>The event can't be applied: its key had stopped before, or it has none.</summary>
    private static bool Stopped(Touch touch)
    {
        if (touch.Entry.Faulted)
        {
            touch.Outcome = Outcome.Parked;
            return true;
        }

        if (touch.Failure is null)
        {
            return false;
        }

        Stop(touch, touch.Failure);
        return true;
    }

    private static void Stop(Touch touch, Failure failure)
    {
        touch.Outcome = Outcome.Faulted;
        touch.Failure = failure;
        touch.Entry.Faulted = true;
        touch.Entry.Drop();
    }

    /// <summary>
    /// Makes the key's state of this batch again up to the touch that failed, writing each on the way: it may have been an earlier
    /// event that made the state what can't be written. Later events of the key are parked.
    /// </summary>
    private void GoBack(StateEntry entry, int failed, Failure failure)
    {
        entry.Drop();
        for (var i = 0; i < failed; i++)
        {
            if (touches[i].Entry != entry)
            {
                continue;
            }

            try
            {
                entry.Unit.Apply(entry, batch[touches[i].EventIndex]);
                Keep(entry, Written(entry));
            }
            catch (Exception error) when (error is not (OutOfMemoryException or FrameTooLargeException))
            {
                failed = i;
                failure = Failure.Of(error);
            }
        }

        Stop(touches[failed], failure);
        for (var i = failed + 1; i < touches.Count; i++)
        {
            if (touches[i].Entry == entry)
            {
                touches[i].Outcome = Outcome.Parked;
            }
        }
    }

    private ReadOnlySpan<byte> Written(StateEntry entry)
    {
        scratch.Begin(0, Tag.Projected);
        var start = scratch.Length;
        entry.Unit.Write(entry, scratch);
        return scratch.Written[start..];
    }

    /// <summary>Takes a written state for the entry's text; false when it is the same.</summary>
    private bool Keep(StateEntry entry, ReadOnlySpan<byte> written)
    {
        var isNull = written[0] == StateText.Null;
        if (isNull ? entry.Text is null : entry.Text is not null && written[5..].SequenceEqual(entry.Text))
        {
            return false;
        }

        entry.Text = isNull ? null : written[5..].ToArray();
        cache.Charge(entry);
        return true;
    }

    private void WriteHead(Touch touch)
    {
        writer.VarUInt((ulong)touch.EventIndex);
        writer.VarUInt((ulong)touch.UnitIndex);
        writer.String(touch.Entry.Key);
        writer.Byte((byte)touch.Outcome);
    }

    private void WriteChange(Touch touch)
    {
        WriteHead(touch);
        StateText.Copy(touch.Entry.Text, writer);
        if (touch.Outcome == Outcome.Faulted)
        {
            touch.Failure!.Write(writer);
        }
    }
}
