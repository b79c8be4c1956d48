using System.Runtime.InteropServices;
using System.Text;

namespace Statefold.Launcher;

/// <summary>The far end of a check: it runs in the jail, and tries what must not work there.</summary>
internal static unsafe class Inmate
{
    /// <summary>One line on stdout for the host: the kernel's version of landlock. Anything that worked and must not ends it with a reason.</summary>
    public static int Tell(Cpu cpu, string abi)
    {
        var numbers = SyscallNumbers.Of(cpu);
        var path = Marshal.StringToCoTaskMemUTF8("/etc/passwd");
        if (Syscalls.Call(numbers.OpenAt, -100, path) >= 0 || Syscalls.Errno != Syscalls.EACCES)
        {
            throw new JailException(JailException.Refused, "files can be read in the jail");
        }

        if (Syscalls.Call(numbers.Socket, 2, 1) >= 0)
        {
            throw new JailException(JailException.Refused, "sockets can be opened in the jail");
        }

        Write(numbers, 1, "landlock " + abi + "\n");
        return 0;
    }

    public static void Write(SyscallNumbers numbers, int descriptor, string text)
    {
        var bytes = Encoding.UTF8.GetBytes(text);
        fixed (byte* start = bytes)
        {
            Syscalls.Call(numbers.Write, descriptor, (nint)start, bytes.Length);
        }
    }
}
