using System.Buffers.Binary;

namespace Statefold.Wire;

/// <summary>
/// What the frames to the host end with: the next 64 bits of a sequence that begins with a key, which the host sends before any
/// uploaded code is in the process. Code that only has the descriptor can't write a frame that is taken. xoshiro128++: its
/// numbers go nowhere but to the host, so it need not hold against one who sees them.
/// </summary>
internal sealed class Seal
{
    public const int Bytes = 8;
    private const int KeyBytes = 16;

    private uint a;
    private uint b;
    private uint c;
    private uint d;

    /// <exception cref="WireFormatException">It is no key.</exception>
    public Seal(ReadOnlySpan<byte> key)
    {
        if (key.Length != KeyBytes)
        {
            throw new WireFormatException($"A key of {key.Length} bytes.");
        }

        a = BinaryPrimitives.ReadUInt32LittleEndian(key);
        b = BinaryPrimitives.ReadUInt32LittleEndian(key[4..]);
        c = BinaryPrimitives.ReadUInt32LittleEndian(key[8..]);
        d = BinaryPrimitives.ReadUInt32LittleEndian(key[12..]);
    }

    public void Write(WireWriter writer) => writer.WriteSeal(Next(), Next());

    private uint Next()
    {
        var result = uint.RotateLeft(a + d, 7) + a;
        var shifted = b << 9;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= shifted;
        d = uint.RotateLeft(d, 11);
        return result;
    }
}
