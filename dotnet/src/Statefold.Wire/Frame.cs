namespace Statefold.Wire;

/// <summary>A frame as received. The payload is valid until the next one is read, unless it is kept.</summary>
public readonly record struct Frame(uint RequestId, Tag Tag, ReadOnlyMemory<byte> Payload)
{
    /// <summary>A copy that outlives the channel's buffer.</summary>
    public Frame Keep() => this with { Payload = Payload.ToArray() };
}
