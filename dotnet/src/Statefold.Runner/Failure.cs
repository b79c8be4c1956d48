using System.Diagnostics;
using System.Text;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>Why an event stopped a state: a message, and where in the tenant's sources (line 0: unknown).</summary>
internal sealed record Failure(string Message, string File, int Line)
{
    private const int MaxMessage = 2_000;
    private const int MaxFile = 512;

    public static Failure Of(Exception error)
    {
        var message = error is StateException ? error.Message : $"{error.GetType().Name}: {MessageOf(error)}";
        var (file, line) = Place(error);
        return new Failure(Clip(message, MaxMessage), Clip(file, MaxFile), line);
    }

    public void Write(WireWriter writer)
    {
        writer.String(Message);
        writer.String(File);
        writer.VarUInt((ulong)Line);
    }

    // The message of an exception is tenant code too.
    private static string MessageOf(Exception error)
    {
        try
        {
            return error.Message ?? "";
        }
        catch (Exception second) when (second is not OutOfMemoryException)
        {
            return "(its message can't be read)";
        }
    }

    // The innermost frame of the artefact itself: the framework has no sources here, and the service none of interest.
    private static (string File, int Line) Place(Exception error)
    {
        foreach (var frame in new StackTrace(error, fNeedFileInfo: true).GetFrames())
        {
            if (frame.GetMethod()?.Module.Assembly.IsCollectible == true && frame.GetFileName() is { } file)
            {
                return (file, Math.Max(0, frame.GetFileLineNumber()));
            }
        }

        return ("", 0);
    }

    private static string Clip(string text, int max)
    {
        var clipped = text.Length <= max ? text : string.Concat(text.AsSpan(0, max - 1), "…");
        // Half surrogate pairs, cut here or made by the code, become U+FFFD.
        return Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(clipped));
    }
}
