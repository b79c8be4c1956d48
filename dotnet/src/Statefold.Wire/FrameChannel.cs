using System.Buffers.Binary;

namespace Statefold.Wire;

/// <summary>Frames over one stream: 32 bits of length, 32 bits of request id, a tag, the payload. One thread reads, one writes.</summary>
public sealed class FrameChannel(Stream stream)
{
    private const int Header = 9;
    private const int Kept = 1024 * 1024;
    private byte[] buffer = new byte[64 * 1024];
    private int start;
    private int end;
    private Seal? seal;

    /// <summary>Reads the key that the host begins with: every frame from here on ends with its seal.</summary>
    /// <exception cref="WireFormatException">The first frame is another.</exception>
    public void ReadSeal()
    {
        if (Read() is not { Tag: Tag.Seal } frame)
        {
            throw new WireFormatException("The host did not begin with a key.");
        }

        seal = new Seal(frame.Payload.Span);
        // Nothing else keeps it where uploaded code could come upon it by chance.
        Array.Clear(buffer, start - frame.Payload.Length, frame.Payload.Length);
    }

    /// <summary>The next frame; null at the end of the stream.</summary>
    /// <exception cref="WireFormatException">The stream does not hold frames.</exception>
    public Frame? Read()
    {
        if (!Fill(4))
        {
            return null;
        }

        var length = BinaryPrimitives.ReadUInt32LittleEndian(buffer.AsSpan(start));
        if (length is < Header - 4 or > WireWriter.MaxFrame)
        {
            throw new WireFormatException($"A frame claims {length} bytes.");
        }

        var total = 4 + (int)length;
        if (!Fill(total))
        {
            return null;
        }

        var frame = new Frame(
            BinaryPrimitives.ReadUInt32LittleEndian(buffer.AsSpan(start + 4)),
            (Tag)buffer[start + 8],
            buffer.AsMemory(start + Header, total - Header));
        start += total;
        return frame;
    }

    /// <summary>Sends the frame that the writer holds.</summary>
    public void Write(WireWriter writer)
    {
        seal?.Write(writer);
        stream.Write(writer.End());
        stream.Flush();
    }

    private bool Fill(int count)
    {
        if (end - start >= count)
        {
            return true;
        }

        // Room for the whole frame at the front; one that was large gives its memory back with the next.
        var size = count > buffer.Length ? count : buffer.Length > Kept && Math.Max(count, end - start) <= Kept ? Kept : buffer.Length;
        if (size != buffer.Length)
        {
            var next = new byte[size];
            buffer.AsSpan(start, end - start).CopyTo(next);
            buffer = next;
        }
        else
        {
            buffer.AsSpan(start, end - start).CopyTo(buffer);
        }

        end -= start;
        start = 0;
        while (end < count)
        {
            var read = stream.Read(buffer, end, buffer.Length - end);
            if (read == 0)
            {
                return false;
            }

            end += read;
        }

        return true;
    }
}
