using System.Runtime.InteropServices;

namespace Statefold.Launcher;

/// <summary>
/// The kernel, called by number: most of what the jail is made of acts on the calling thread, and libc's own functions would act
/// on all threads, or don't exist.
/// </summary>
internal static unsafe class Syscalls
{
    public const int ENOENT = 2;
    public const int EACCES = 13;
    public const int EINVAL = 22;
    public const int ENOSYS = 38;
    public const int EOPNOTSUPP = 95;

    public static nint Call(nint number, nint a = 0, nint b = 0, nint c = 0, nint d = 0, nint e = 0) => Syscall(number, a, b, c, d, e);

    /// <summary>Of the last call that gave -1.</summary>
    public static int Errno => Marshal.GetLastPInvokeError();

    /// <exception cref="JailException">The kernel refused.</exception>
    public static nint Require(string what, nint number, nint a = 0, nint b = 0, nint c = 0, nint d = 0, nint e = 0)
    {
        var result = Syscall(number, a, b, c, d, e);
        return result >= 0 ? result : throw JailException.Of(what, Errno);
    }

    [DllImport("libc", EntryPoint = "syscall", SetLastError = true)]
    private static extern nint Syscall(nint number, nint a, nint b, nint c, nint d, nint e);
}
