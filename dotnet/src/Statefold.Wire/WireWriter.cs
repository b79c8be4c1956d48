using System.Buffers;
using System.Buffers.Binary;
using System.Text;

namespace Statefold.Wire;

/// <summary>Builds one frame at a time in a buffer that is kept; little endian.</summary>
public sealed class WireWriter : IBufferWriter<byte>
{
    /// <summary>Bytes of a frame after its length field. Both sides refuse more.</summary>
    public const int MaxFrame = 64 * 1024 * 1024;

    /// <summary>The seal comes last, and must find room.</summary>
    private const int MostContent = MaxFrame - Seal.Bytes;
    private const int Kept = 1024 * 1024;
    private byte[] buffer = new byte[64 * 1024];

    public int Length { get; private set; }

    public ReadOnlySpan<byte> Written => buffer.AsSpan(0, Length);

    public void Begin(uint requestId, Tag tag)
    {
        if (buffer.Length > Kept)
        {
            buffer = new byte[Kept];
        }

        Length = 4;
        UInt32(requestId);
        Byte((byte)tag);
    }

    /// <summary>The finished frame, its length filled in.</summary>
    public ReadOnlySpan<byte> End()
    {
        PatchUInt32(0, (uint)(Length - 4));
        return Written;
    }

    /// <summary>Forgets what was written after <paramref name="length"/>.</summary>
    public void Truncate(int length) => Length = length;

    public void Byte(byte value)
    {
        Ensure(1);
        buffer[Length++] = value;
    }

    public void VarUInt(ulong value)
    {
        Ensure(10);
        while (value >= 0x80)
        {
            buffer[Length++] = (byte)(value | 0x80);
            value >>= 7;
        }

        buffer[Length++] = (byte)value;
    }

    public void UInt32(uint value)
    {
        Ensure(4);
        BinaryPrimitives.WriteUInt32LittleEndian(buffer.AsSpan(Length), value);
        Length += 4;
    }

    public void PatchUInt32(int position, uint value) => BinaryPrimitives.WriteUInt32LittleEndian(buffer.AsSpan(position), value);

    public void String(string value)
    {
        var count = Encoding.UTF8.GetByteCount(value);
        VarUInt((ulong)count);
        Ensure(count);
        Length += Encoding.UTF8.GetBytes(value, buffer.AsSpan(Length));
    }

    public void Blob(ReadOnlySpan<byte> bytes)
    {
        UInt32((uint)bytes.Length);
        Ensure(bytes.Length);
        bytes.CopyTo(buffer.AsSpan(Length));
        Length += bytes.Length;
    }

    /// <summary>The last bytes of the frame before it ends, for which room is always left.</summary>
    internal void WriteSeal(uint low, uint high)
    {
        Ensure(Seal.Bytes, MaxFrame);
        UInt32(low);
        UInt32(high);
    }

    public void Advance(int count) => Length += count;

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        Ensure(Math.Max(sizeHint, 1));
        return buffer.AsMemory(Length);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        Ensure(Math.Max(sizeHint, 1));
        return buffer.AsSpan(Length);
    }

    private void Ensure(int count, int most = MostContent)
    {
        if (count > buffer.Length - Length)
        {
            var needed = (long)Length + count;
            if (needed > most)
            {
                throw new FrameTooLargeException();
            }

            Array.Resize(ref buffer, (int)Math.Min(Math.Max(needed, buffer.Length * 2L), most));
        }
    }
}
