using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>Folds events of aggregates through reducers. Nothing is folded before the state of every item is at hand.</summary>
internal sealed class FoldHandler(
    Artefacts artefacts, StateCache cache, EventReader events, WireWriter writer, Func<uint, Frame> askForStates)
{
    private readonly List<Unit> units = [];
    private readonly List<FoldItem> items = [];
    private readonly List<int> missing = [];
    private readonly List<Event> folded = [];
    private readonly WireWriter scratch = new();

    public void Serve(Frame frame)
    {
        var position = ReadItems(frame);
        if (missing.Count > 0)
        {
            frame = frame.Keep();
            FetchMissing(frame.RequestId);
        }

        var reader = new WireReader(frame.Payload.Span);
        reader.Skip(position);
        writer.Begin(frame.RequestId, Tag.Folded);
        foreach (var item in items)
        {
            var end = reader.Position + item.EventBytes;
            Fold(item, ref reader);
            reader.Skip(end - reader.Position);
        }

        folded.Clear();
        items.Clear();
    }

    private int ReadItems(Frame frame)
    {
        units.Clear();
        items.Clear();
        missing.Clear();
        var reader = new WireReader(frame.Payload.Span);
        for (var left = reader.Count(); left > 0; left--)
        {
            units.Add(artefacts.Unit(new UnitId("", events.Name(ref reader), events.Name(ref reader))));
        }

        var count = reader.Count();
        for (var i = 0; i < count; i++)
        {
            var unit = units[reader.Count()];
            var aggregateId = reader.String();
            var aggregateType = events.Name(ref reader);
            var baseVersion = (long)reader.VarUInt();
            var entry = cache.Use(unit, aggregateId);
            if (reader.Byte() == 1)
            {
                Set(entry, StateText.Read(ref reader), baseVersion);
            }
            else if (entry.Missing || entry.Version != baseVersion)
            {
                missing.Add(i);
            }

            items.Add(new FoldItem(entry, aggregateId, aggregateType, baseVersion, reader.Count(), (int)reader.UInt32()));
        }

        return reader.Position;
    }

    private void FetchMissing(uint requestId)
    {
        writer.Begin(requestId, Tag.Missing);
        writer.VarUInt((ulong)missing.Count);
        foreach (var index in missing)
        {
            writer.VarUInt((ulong)index);
        }

        var states = new WireReader(askForStates(requestId).Payload.Span);
        foreach (var index in missing)
        {
            Set(items[index].Entry, StateText.Read(ref states), items[index].BaseVersion);
        }
    }

    private static void Set(StateEntry entry, byte[]? text, long version)
    {
        entry.Drop();
        entry.Text = text;
        entry.Version = version;
        entry.Missing = false;
    }

    private void Fold(FoldItem item, ref WireReader reader)
    {
        var entry = item.Entry;
        var states = 0;
        var kept = 0;
        Failure? failure = null;
        folded.Clear();
        events.Begin(item.AggregateId, item.AggregateType);
        var countAt = writer.Length;
        writer.UInt32(0);
        while (folded.Count < item.EventCount)
        {
            var e = events.Read(ref reader);
            folded.Add(e);
            var before = writer.Length;
            try
            {
                entry.Unit.Apply(entry, e);
                if (!events.IsWanted)
                {
                    continue;
                }

                writer.VarUInt((ulong)folded.Count);
                var start = writer.Length;
                entry.Unit.Write(entry, writer);
                Keep(entry, writer.Written[start..]);
                kept = folded.Count;
                states++;
            }
            catch (Exception error) when (error is not (OutOfMemoryException or FrameTooLargeException or WireFormatException))
            {
                writer.Truncate(before);
                failure = Failure.Of(error);
                break;
            }
        }

        var good = folded.Count;
        if (failure is not null)
        {
            var lastSent = kept;
            good = GoBack(entry, kept, folded.Count - 1, ref failure);
            if (good != lastSent || states == 0)
            {
                writer.VarUInt((ulong)good);
                StateText.Copy(entry.Text, writer);
                states++;
            }
        }

        entry.Version = good == 0 ? item.BaseVersion : folded[good - 1].Version;
        cache.Charge(entry);
        writer.PatchUInt32(countAt, (uint)states);
        writer.Byte(failure is null ? (byte)0 : (byte)1);
        if (failure is not null)
        {
            writer.VarUInt((ulong)good);
            failure.Write(writer);
        }
    }

    /// <summary>
    /// The typed state may have been changed in place by the event that threw, so it is made again from the last text. Each event
    /// is written on the way: when it was the state that couldn't be written, an earlier one may be the first that made it so.
    /// </summary>
    /// <returns>The number of events that the entry's text now reflects.</returns>
    private int GoBack(StateEntry entry, int kept, int until, ref Failure failure)
    {
        entry.Drop();
        for (var i = kept; i < until; i++)
        {
            try
            {
                entry.Unit.Apply(entry, folded[i]);
                scratch.Begin(0, Tag.Folded);
                var start = scratch.Length;
                entry.Unit.Write(entry, scratch);
                Keep(entry, scratch.Written[start..]);
            }
            catch (Exception error) when (error is not (OutOfMemoryException or FrameTooLargeException))
            {
                entry.Drop();
                failure = Failure.Of(error);
                return i;
            }
        }

        entry.Drop();
        return until;
    }

    private static void Keep(StateEntry entry, ReadOnlySpan<byte> written)
    {
        var reader = new WireReader(written);
        entry.Text = StateText.Read(ref reader);
    }
}
