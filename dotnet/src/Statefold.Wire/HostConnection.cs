using System.Diagnostics;
using Microsoft.Win32.SafeHandles;

namespace Statefold.Wire;

/// <summary>What a child process has of its parent: frames on descriptor 3, and descriptor 4, which ends when the parent does.</summary>
public static class HostConnection
{
    private const int FramesDescriptor = 3;
    private const int LifeDescriptor = 4;

    public static FrameChannel Open()
    {
        // The code that runs here may print; nothing it writes may reach the parent's streams.
        Console.SetIn(TextReader.Null);
        Console.SetOut(TextWriter.Null);
        Console.SetError(TextWriter.Null);
        var life = OpenDescriptor(LifeDescriptor, FileAccess.Read);
        new Thread(() => EndWithParent(life), 128 * 1024) { IsBackground = true, Name = "parent" }.Start();
        var channel = new FrameChannel(OpenDescriptor(FramesDescriptor, FileAccess.ReadWrite));
        channel.ReadSeal();
        return channel;
    }

    // Descriptor 3 can't tell while the main thread is busy in someone else's code, maybe for ever.
    private static void EndWithParent(FileStream life)
    {
        try
        {
            while (life.ReadByte() >= 0)
            {
            }
        }
        catch (IOException)
        {
        }

        Process.GetCurrentProcess().Kill();
    }

    private static FileStream OpenDescriptor(int descriptor, FileAccess access) =>
        new(new SafeFileHandle(descriptor, ownsHandle: true), access, bufferSize: 0, isAsync: false);
}
