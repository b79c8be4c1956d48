using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>
/// Serves one tenant's host: loads artefacts, folds events. All on one thread, in the order of the frames; a frame that arrives
/// while a fold waits for the states it lacks is kept for later.
/// </summary>
internal sealed class RunnerServer
{
    /// <summary>Of a process that ended because memory did. The host tells it from other ends.</summary>
    public const int OutOfMemory = 75;

    private readonly FrameChannel channel;
    private readonly WireWriter writer = new();
    private readonly Queue<Frame> waiting = new();
    private readonly StateCache cache;
    private readonly Artefacts artefacts;
    private readonly FoldHandler folds;
    private readonly ProjectHandler projections;

    public RunnerServer(FrameChannel channel, RunnerLimits limits)
    {
        this.channel = channel;
        cache = new StateCache(limits);
        artefacts = new Artefacts(cache, limits);
        var events = new EventReader();
        folds = new FoldHandler(artefacts, cache, events, writer, AskForStates);
        projections = new ProjectHandler(artefacts, cache, events, writer, AskForStates);
    }

    public void Serve()
    {
        writer.Begin(0, Tag.Ready);
        channel.Write(writer);
        try
        {
            while ((waiting.TryDequeue(out var kept) ? kept : channel.Read()) is { } frame)
            {
                Serve(frame);
            }
        }
        catch (OutOfMemoryException)
        {
            Environment.Exit(OutOfMemory);
        }
    }

    private void Serve(Frame frame)
    {
        switch (frame.Tag)
        {
            case Tag.Load:
                var load = new WireReader(frame.Payload.Span);
                artefacts.Load(load.String(), load.Blob());
                writer.Begin(frame.RequestId, Tag.Loaded);
                break;
            case Tag.Unload:
                artefacts.Unload(new WireReader(frame.Payload.Span).String());
                return;
            case Tag.Forget:
                artefacts.Forget(new WireReader(frame.Payload.Span).String());
                return;
            case Tag.Fold:
                Answer(frame, folds.Serve);
                break;
            case Tag.Project:
                Answer(frame, projections.Serve);
                break;
            default:
                throw new WireFormatException($"A runner was sent {frame.Tag}.");
        }

        channel.Write(writer);
    }

    private void Answer(Frame frame, Action<Frame> serve)
    {
        try
        {
            serve(frame);
        }
        catch (FrameTooLargeException)
        {
            // The states have moved on, but the host has not seen where to: it asks again in smaller parts, from what it knows.
            cache.Clear();
            writer.Begin(frame.RequestId, Tag.TooLarge);
        }

        cache.Trim();
    }

    /// <summary>Sends what the writer holds (a <see cref="Tag.Missing"/>) and waits for the states it asks for.</summary>
    private Frame AskForStates(uint requestId)
    {
        channel.Write(writer);
        while (true)
        {
            var frame = channel.Read() ?? throw new WireFormatException("The host ended while it was asked for states.");
            if (frame.Tag == Tag.States)
            {
                return frame.RequestId == requestId ? frame : throw new WireFormatException("States came for another request.");
            }

            waiting.Enqueue(frame.Keep());
        }
    }
}
