using System.Text;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>
/// Reads the events of a frame. An event leaves out what it shares with the one before it; names that repeat from frame to frame
/// are made into strings once.
/// </summary>
internal sealed class EventReader
{
    private const byte SameAggregate = 1;
    private const byte SameType = 2;
    private const byte SameContext = 4;
    private const byte HasCorrelation = 8;
    private const byte HasCausation = 16;
    private const byte HasMetadata = 32;
    private const byte Wanted = 64;

    private readonly NameTable names = new();
    private string aggregateId = "";
    private string aggregateType = "";
    private string eventType = "";
    private string? correlationId;
    private string? causationId;
    private byte[]? metadata;

    /// <summary>The state after the event that was read last is asked for.</summary>
    public bool IsWanted { get; private set; }

    /// <summary>Names what the next event may share: the aggregate of an item.</summary>
    public void Begin(string id, string type)
    {
        aggregateId = id;
        aggregateType = type;
        eventType = "";
        correlationId = null;
        causationId = null;
        metadata = null;
    }

    public string Name(ref WireReader reader) => names.Get(reader.Text());

    public Event Read(ref WireReader reader)
    {
        var flags = reader.Byte();
        IsWanted = (flags & Wanted) != 0;
        if ((flags & SameAggregate) == 0)
        {
            aggregateId = reader.String();
            aggregateType = names.Get(reader.Text());
        }

        if ((flags & SameType) == 0)
        {
            eventType = names.Get(reader.Text());
        }

        if ((flags & SameContext) == 0)
        {
            correlationId = (flags & HasCorrelation) != 0 ? reader.String() : null;
            causationId = (flags & HasCausation) != 0 ? reader.String() : null;
            metadata = (flags & HasMetadata) != 0 ? reader.Blob().ToArray() : null;
        }

        var version = (long)reader.VarUInt();
        var timestamp = DateTimeOffset.FromUnixTimeMilliseconds(reader.Int64());
        // A copy: tenant code may keep the event, and the frame's buffer is used again.
        var data = reader.Blob().ToArray();
        return new Event(aggregateId, aggregateType, eventType, version, data, metadata, correlationId, causationId, timestamp);
    }
}
