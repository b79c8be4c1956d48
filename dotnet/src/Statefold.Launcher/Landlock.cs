using System.Runtime.InteropServices;

namespace Statefold.Launcher;

/// <summary>Landlock: which files may be opened, no TCP, no signals to and no abstract sockets of others. For the calling thread and what it execs.</summary>
internal static unsafe class Landlock
{
    private const ulong Execute = 1 << 0;
    private const ulong WriteFile = 1 << 1;
    private const ulong ReadFile = 1 << 2;
    private const ulong ReadDir = 1 << 3;
    private const ulong RemoveDir = 1 << 4;
    private const ulong RemoveFile = 1 << 5;
    private const ulong MakeDir = 1 << 7;
    private const ulong MakeFile = 1 << 8;
    private const ulong Refer = 1 << 13;
    private const ulong Truncate = 1 << 14;
    private const int PathOnly = 0x00200000;
    private const int CloseOnExec = 0x00080000;
    private const int CurrentDirectory = -100;
    private const int NetworkAbi = 4;

    /// <summary>Version of the kernel's interface.</summary>
    /// <exception cref="JailException">There is none.</exception>
    public static int Abi()
    {
        var abi = (int)Syscalls.Call(SyscallNumbers.LandlockCreateRuleset, 0, 0, 1);
        return abi > 0 ? abi : throw new JailException(JailException.NoLandlock, Syscalls.Errno == Syscalls.EOPNOTSUPP ? "landlock is compiled into this kernel, but not switched on" : "this kernel has no landlock");
    }

    /// <summary>TCP is refused here too, not by the filter of system calls alone.</summary>
    public static bool CoversNetwork(int abi) => abi >= NetworkAbi;

    /// <summary>An empty set of rules: everything that this kernel can refuse is refused.</summary>
    public static int Create(int abi)
    {
        // The rights that the versions know: of files, then TCP, then devices, then signals and abstract sockets.
        var files = RightsOfFiles(abi);
        var attributes = stackalloc ulong[3];
        attributes[0] = files;
        attributes[1] = abi >= NetworkAbi ? 3UL : 0;
        attributes[2] = abi >= 6 ? 3UL : 0;
        var size = abi >= 6 ? 24 : abi >= NetworkAbi ? 16 : 8;
        return (int)Syscalls.Require("landlock_create_ruleset", SyscallNumbers.LandlockCreateRuleset, (nint)attributes, size);
    }

    /// <summary>Below this path: reading. A path that isn't there is left out.</summary>
    public static void AllowReading(int ruleset, SyscallNumbers numbers, string path) => AllowPath(ruleset, numbers, path, ReadFile | ReadDir, ReadFile);

    /// <summary>Below this path: reading, and what the one exec needs: the program and its loader.</summary>
    public static void AllowExecuting(int ruleset, SyscallNumbers numbers, string path) => AllowPath(ruleset, numbers, path, Execute | ReadFile | ReadDir, Execute | ReadFile);

    public static void AllowWriting(int ruleset, SyscallNumbers numbers, string device) => AllowPath(ruleset, numbers, device, ReadFile | WriteFile, ReadFile | WriteFile);

    /// <summary>Below this folder: files and folders are read, made, changed and removed. No links, no devices, no sockets.</summary>
    public static void AllowChanging(int ruleset, SyscallNumbers numbers, int abi, string folder)
    {
        const ulong rights = ReadFile | ReadDir | WriteFile | RemoveDir | RemoveFile | MakeDir | MakeFile | Refer | Truncate;
        AllowPath(ruleset, numbers, folder, rights & RightsOfFiles(abi), ReadFile | WriteFile);
    }

    private static ulong RightsOfFiles(int abi) => (1UL << (abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13)) - 1;

    public static void Restrict(int ruleset) => Syscalls.Require("landlock_restrict_self", SyscallNumbers.LandlockRestrictSelf, ruleset);

    private static void AllowPath(int ruleset, SyscallNumbers numbers, string path, ulong ofDirectory, ulong ofFile)
    {
        var text = Marshal.StringToCoTaskMemUTF8(path);
        var descriptor = (int)Syscalls.Call(numbers.OpenAt, CurrentDirectory, text, PathOnly | CloseOnExec);
        if (descriptor < 0)
        {
            return;
        }

        // struct landlock_path_beneath_attr is packed: the rights, then the descriptor. Rights of directories are not for files.
        var rule = stackalloc uint[3];
        rule[2] = (uint)descriptor;
        *(ulong*)rule = ofDirectory;
        if (Syscalls.Call(SyscallNumbers.LandlockAddRule, ruleset, 1, (nint)rule) < 0)
        {
            *(ulong*)rule = ofFile;
            Syscalls.Require("landlock_add_rule", SyscallNumbers.LandlockAddRule, ruleset, 1, (nint)rule);
        }

        Syscalls.Call(numbers.Close, descriptor);
    }
}
