using System.Buffers.Binary;
using System.Text;

namespace Statefold.Wire;

/// <summary>Reads the fields of one frame in order; little endian. Throws <see cref="WireFormatException"/> past the end.</summary>
public ref struct WireReader(ReadOnlySpan<byte> payload)
{
    private readonly ReadOnlySpan<byte> payload = payload;

    public int Position { get; private set; }

    public readonly int Remaining => payload.Length - Position;

    public byte Byte()
    {
        if (Position >= payload.Length)
        {
            throw Truncated();
        }

        return payload[Position++];
    }

    public ulong VarUInt()
    {
        ulong value = 0;
        for (var shift = 0; shift < 64; shift += 7)
        {
            var next = Byte();
            value |= (ulong)(next & 0x7f) << shift;
            if (next < 0x80)
            {
                return value;
            }
        }

        throw new WireFormatException("A number has too many bytes.");
    }

    /// <summary>A count or an index: never more than what the frame could hold.</summary>
    public int Count()
    {
        var value = VarUInt();
        return value <= (ulong)payload.Length ? (int)value : throw new WireFormatException("A count is larger than its frame.");
    }

    public uint UInt32() => BinaryPrimitives.ReadUInt32LittleEndian(Take(4));

    public long Int64() => BinaryPrimitives.ReadInt64LittleEndian(Take(8));

    /// <summary>Bytes preceded by their length as a variable number: the UTF-8 of a string.</summary>
    public ReadOnlySpan<byte> Text() => Take(Count());

    public string String() => Encoding.UTF8.GetString(Text());

    /// <summary>Bytes preceded by their length as 32 bits.</summary>
    public ReadOnlySpan<byte> Blob()
    {
        var length = UInt32();
        return length <= int.MaxValue ? Take((int)length) : throw Truncated();
    }

    public void Skip(int count) => Take(count);

    private ReadOnlySpan<byte> Take(int count)
    {
        if (count > Remaining)
        {
            throw Truncated();
        }

        var span = payload.Slice(Position, count);
        Position += count;
        return span;
    }

    private static WireFormatException Truncated() => new("A frame ends before its fields do.");
}
