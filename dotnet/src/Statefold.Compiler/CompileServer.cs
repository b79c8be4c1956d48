using Statefold.Compiler.Determinism;
using Statefold.Wire;

namespace Statefold.Compiler;

/// <summary>Answers the host's compile requests, one at a time.</summary>
internal sealed class CompileServer(FrameChannel channel, ArtefactCompiler compiler)
{
    private readonly WireWriter writer = new();

    public void Serve()
    {
        compiler.WarmUp();
        writer.Begin(0, Tag.Ready);
        channel.Write(writer);
        while (channel.Read() is { } frame)
        {
            if (frame.Tag != Tag.Compile)
            {
                throw new WireFormatException($"A compiler was sent {frame.Tag}.");
            }

            var outcome = compiler.Compile(ReadRequest(frame.Payload.Span));
            writer.Begin(frame.RequestId, Tag.Compiled);
            Write(outcome);
            channel.Write(writer);
        }
    }

    internal static CompileRequest ReadRequest(ReadOnlySpan<byte> payload)
    {
        var reader = new WireReader(payload);
        var kind = reader.Byte() == 1 ? ArtefactKind.Projection : ArtefactKind.Reducer;
        var sources = PackedSources.Unpack(reader.Blob());
        var checks = (DeterminismChecks)reader.Byte();
        return new CompileRequest(kind, sources ?? [], checks, sources is null ? SourceLimits.TooLong() : null);
    }

    private void Write(CompileOutcome outcome)
    {
        writer.Byte(outcome.Assembly is null ? (byte)0 : (byte)1);
        if (outcome.Assembly is null)
        {
            writer.String(outcome.Error);
        }
        else
        {
            writer.Blob(outcome.Assembly);
            writer.VarUInt((ulong)outcome.Discovered.Count);
            foreach (var found in outcome.Discovered)
            {
                writer.String(found.ClassName);
                writer.String(found.StateTypeName);
                writer.String(found.AggregateType ?? "");
            }

            writer.Blob(outcome.StateTypes);
        }

        writer.VarUInt((ulong)outcome.Findings.Count);
        foreach (var finding in outcome.Findings)
        {
            writer.Byte(finding.IsError ? (byte)1 : (byte)0);
            writer.String(finding.Code);
            writer.String(finding.Message);
            writer.String(finding.File ?? "");
            writer.VarUInt((ulong)finding.Line);
            writer.VarUInt((ulong)finding.Column);
        }
    }
}
