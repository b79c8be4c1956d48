using System.Buffers;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>
/// Lets one state through to the frame. What the serializer asks for ahead may be several times what it writes, so the room is
/// generous and the length is checked at the end.
/// </summary>
internal sealed class LimitedWriter(WireWriter writer, int maxBytes) : IBufferWriter<byte>
{
    private readonly int start = writer.Length;

    public void Advance(int count) => writer.Advance(count);

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        CheckRoom(sizeHint);
        return writer.GetMemory(sizeHint);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        CheckRoom(sizeHint);
        return writer.GetSpan(sizeHint);
    }

    public void Check()
    {
        if (writer.Length - start > maxBytes)
        {
            throw TooLarge();
        }
    }

    private void CheckRoom(int sizeHint)
    {
        if (writer.Length - start > maxBytes || sizeHint > (6L * maxBytes) + 65_536)
        {
            throw TooLarge();
        }
    }

    private StateException TooLarge() => new($"The state is larger than {maxBytes} bytes.");
}
