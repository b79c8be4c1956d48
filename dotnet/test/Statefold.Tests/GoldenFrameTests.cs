using System.Text;
using System.Text.Json;
using Statefold.Compiler;
using Statefold.Runner;
using Statefold.Wire;

namespace Statefold.Tests;

/// <summary>The frames of <c>schemas/frames/conversation.json</c>: what the service sends is answered with the very bytes that its own tests read.</summary>
public sealed class GoldenFrameTests
{
    private static readonly JsonElement Golden = JsonElement.Parse(File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "conversation.json")));

    [Fact]
    public void The_runner_answers_the_conversation()
    {
        var source = new SourceFile("code.cs", Encoding.UTF8.GetBytes(Golden.GetProperty("source").GetString()!));
        var outcome = new ArtefactCompiler().Compile(new CompileRequest(ArtefactKind.Reducer, [source]));
        Assert.Equal("", outcome.Error);
        var load = new WireWriter();
        load.Begin(1, Tag.Load);
        load.String("artefact-1");
        load.Blob(outcome.Assembly!);

        var frames = Golden.GetProperty("exchanges").EnumerateArray().SelectMany(e => e.GetProperty("frames").EnumerateArray()).ToList();
        var stream = new ScriptedStream([.. load.End(), .. Bytes(frames, "host")]);
        new RunnerServer(new FrameChannel(stream), new RunnerLimits(100, 1_000_000, 10_000)).Serve();

        var ready = new WireWriter();
        ready.Begin(0, Tag.Ready);
        var loaded = new WireWriter();
        loaded.Begin(1, Tag.Loaded);
        byte[] expected = [.. ready.End(), .. loaded.End(), .. Bytes(frames, "runner")];
        Assert.Equal(Convert.ToHexString(expected), Convert.ToHexString(stream.Output));
    }

    [Fact]
    public void The_compiler_answers_a_request()
    {
        var frames = Golden.GetProperty("compile").GetProperty("frames").EnumerateArray().ToList();
        var stream = new ScriptedStream(Bytes(frames, "host"));
        new CompileServer(new FrameChannel(stream), new ArtefactCompiler()).Serve();
        var ready = new WireWriter();
        ready.Begin(0, Tag.Ready);
        byte[] expected = [.. ready.End(), .. Bytes(frames, "compiler")];
        Assert.Equal(Convert.ToHexString(expected), Convert.ToHexString(stream.Output));
    }

    private static byte[] Bytes(IEnumerable<JsonElement> frames, string from) =>
        [.. frames.Where(f => f.GetProperty("from").GetString() == from).SelectMany(f => Convert.FromHexString(f.GetProperty("hex").GetString()!))];
}
