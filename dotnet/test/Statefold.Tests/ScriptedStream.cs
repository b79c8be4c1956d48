namespace Statefold.Tests;

/// <summary>Reads what it was given, in small pieces, and keeps what is written.</summary>
internal sealed class ScriptedStream(byte[] input) : Stream
{
    private readonly MemoryStream reads = new(input);
    private readonly MemoryStream writes = new();

    public byte[] Output => writes.ToArray();

    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => true;

    public override long Length => throw new NotSupportedException();

    public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }

    public override int Read(byte[] buffer, int offset, int count) => reads.Read(buffer, offset, Math.Min(count, 5));

    public override void Write(byte[] buffer, int offset, int count) => writes.Write(buffer, offset, count);

    public override void Write(ReadOnlySpan<byte> buffer) => writes.Write(buffer);

    public override void Flush()
    {
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();
}
