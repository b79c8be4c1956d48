using System.Runtime.InteropServices;
using System.Text;

namespace Statefold.Launcher;

/// <summary>
/// Puts the calling thread in the jail and execs `dotnet` from it: the runtime's other threads end with the exec, and what
/// the thread was restricted to stays. In this order, because each step takes away what the ones before it need.
/// </summary>
internal sealed unsafe class Jail(Cpu cpu, JailRequest request)
{
    private const int KeepDescriptors = 5;
    private const int OpenFiles = 128;

    /// <summary>Columns of parts are files. It may have the number of the one exec then, and be what it is once more, in the same jail.</summary>
    private const int OpenFilesOfEngine = 4096;
    private const int SchedIdle = 5;
    private const int PollError = 8;
    private const int PollHangUp = 16;
    private const long MiB = 1024 * 1024;

    private readonly SyscallNumbers numbers = SyscallNumbers.Of(cpu);

    /// <summary>Does not come back.</summary>
    /// <exception cref="JailException">A part of it could not be put up.</exception>
    public void Exec()
    {
        var abi = Landlock.Abi();
        var pid = (int)Syscalls.Call(numbers.GetPid);
        var maps = Encoding.UTF8.GetString(ReadAll("/proc/self/maps"));
        var environment = ReadAll("/proc/self/environ");
        var program = OpenProgram();
        var arguments = Strings(request.Check ? [.. request.Arguments, abi.ToString(null, null)] : request.Arguments);
        var variables = Split(environment);
        var empty = Text("");
        var filter = SeccompFilter.Build(cpu, pid, request.Folder is not null);
        var ruleset = Rules(abi, maps);

        // Apart from a terminal's signals, and not from the service's session: Linux may share out the processors by sessions, and
        // then no priority counts between two of them.
        Syscalls.Call(numbers.SetPgid);
        if (request.IsSpare && Environment.ProcessorCount > 1)
        {
            TakeWhatIsLeft();
        }

        Syscalls.Call(numbers.Umask, 0x3f);
        Syscalls.Require("chdir", numbers.Chdir, Text(request.Folder ?? "/"));
        DropPrivileges();
        // A change of the user takes it away.
        Syscalls.Require("prctl(PR_SET_PDEATHSIG)", numbers.Prctl, 1, 9);
        RequireHost();
        Syscalls.Require("prctl(PR_SET_NO_NEW_PRIVS)", numbers.Prctl, 38, 1);
        Syscalls.Require("close_range", SyscallNumbers.CloseRange, KeepDescriptors, unchecked((nint)uint.MaxValue), 4);
        Landlock.Restrict(ruleset);
        Limit();
        ResetSignals();
        fixed (ulong* instructions = filter)
        {
            var header = stackalloc nint[2];
            header[0] = filter.Length;
            header[1] = (nint)instructions;
            Syscalls.Require("seccomp", numbers.Seccomp, 1, 0, (nint)header);
        }

        Syscalls.Require("execveat", numbers.ExecveAt, program, empty, arguments, variables, 0x1000);
    }

    /// <summary>At a number past the limit of descriptors that comes.</summary>
    private int OpenProgram()
    {
        var opened = Syscalls.Require("open " + request.Program, numbers.OpenAt, -100, Text(request.Program), 0x00080000);
        var program = (int)Syscalls.Require("fcntl(F_DUPFD_CLOEXEC)", numbers.Fcntl, opened, 1030, SeccompFilter.ExecDescriptor);
        return program == SeccompFilter.ExecDescriptor ? program : throw new JailException(JailException.Refused, "the launcher was given too many descriptors");
    }

    private int Rules(int abi, string maps)
    {
        var ruleset = Landlock.Create(abi);
        foreach (var folder in FoldersOf(maps))
        {
            Landlock.AllowExecuting(ruleset, numbers, folder);
        }

        foreach (var path in new[] { "/lib", "/lib64", "/usr/lib", "/usr/lib64" })
        {
            Landlock.AllowExecuting(ruleset, numbers, path);
        }

        foreach (var path in request.Executable)
        {
            Landlock.AllowExecuting(ruleset, numbers, path);
        }

        foreach (var path in request.Readable)
        {
            Landlock.AllowReading(ruleset, numbers, path);
        }

        foreach (var path in new[]
        {
            "/etc/ld.so.cache", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/usr/share/zoneinfo", "/proc/meminfo", "/proc/cpuinfo",
            // File by file: the folder has the network's connections too.
            "/proc/self/cgroup", "/proc/self/environ", "/proc/self/maps", "/proc/self/mountinfo", "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
            "/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom",
        })
        {
            Landlock.AllowReading(ruleset, numbers, path);
        }

        Landlock.AllowWriting(ruleset, numbers, "/dev/null");
        if (request.Folder is { } own)
        {
            Landlock.AllowChanging(ruleset, numbers, abi, own);
        }

        return ruleset;
    }

    /// <summary>Folders of the libraries that this process runs on: where they are on a system that has them elsewhere.</summary>
    private static List<string> FoldersOf(string maps)
    {
        var folders = new List<string>();
        for (var start = 0; start < maps.Length;)
        {
            var end = maps.IndexOf('\n', start);
            end = end < 0 ? maps.Length : end;
            var path = maps.IndexOf('/', start, end - start);
            if (path >= 0 && maps.IndexOf(".so", path, end - path, StringComparison.Ordinal) >= 0)
            {
                var folder = maps[path..maps.LastIndexOf('/', end - 1)];
                if (!folders.Contains(folder))
                {
                    folders.Add(folder);
                }
            }

            start = end + 1;
        }

        return folders;
    }

    /// <summary>
    /// It has a processor while nothing else wants it: what is SCHED_IDLE gives it up at once. Where that is refused it runs at its
    /// niceness.
    /// </summary>
    private void TakeWhatIsLeft()
    {
        // struct sched_param
        var priority = stackalloc int[1] { 0 };
        Syscalls.Call(numbers.SchedSetScheduler, 0, SchedIdle, (nint)priority);
    }

    private void DropPrivileges()
    {
        // Only who has capabilities may take them from what it execs; ends at the first that this kernel doesn't know.
        for (var capability = 0; capability < 64 && Syscalls.Call(numbers.Prctl, 24, capability) >= 0; capability++)
        {
        }

        if (request.User is { } id)
        {
            var user = (nint)id;
            Syscalls.Require("setgroups", numbers.SetGroups);
            Syscalls.Require("setresgid", numbers.SetResGid, user, user, user);
            Syscalls.Require("setresuid", numbers.SetResUid, user, user, user);
        }

        // struct __user_cap_header_struct (version 3, this thread) and six empty words.
        var header = stackalloc uint[2];
        header[0] = 0x20080522;
        header[1] = 0;
        var none = stackalloc uint[6];
        new Span<uint>(none, 6).Clear();
        Syscalls.Require("capset", numbers.CapSet, (nint)header, (nint)none);
    }

    /// <summary>A host that ended before the line that makes this one end with it is told by nothing else: where it reads stderr, that end is closed.</summary>
    private void RequireHost()
    {
        // struct pollfd: a descriptor, what is asked for, and what is.
        var stderr = stackalloc short[4] { 2, 0, 0, 0 };
        var atOnce = stackalloc long[2] { 0, 0 };
        Syscalls.Require("ppoll", numbers.PPoll, (nint)stderr, 1, (nint)atOnce);
        if ((stderr[3] & (PollError | PollHangUp)) != 0)
        {
            throw new JailException(JailException.Refused, "who started it has ended");
        }
    }

    private void Limit()
    {
        Limit(2, request.DataBytes); // DATA
        Limit(9, request.AddressBytes); // AS
        Limit(3, 8 * MiB); // STACK
        Limit(4, 0); // CORE
        Limit(1, request.FileBytes); // FSIZE
        Limit(7, request.Folder is null ? OpenFiles : OpenFilesOfEngine); // NOFILE
        Limit(8, MiB); // MEMLOCK
        Limit(12, 0); // MSGQUEUE
        if (request.User is not null)
        {
            // Counted by user: each process that is jailed has one of its own.
            Limit(6, request.Threads); // NPROC
        }
    }

    private void Limit(int resource, long value)
    {
        var limit = stackalloc long[2];
        limit[0] = value;
        limit[1] = value;
        if (Syscalls.Call(numbers.Prlimit64, 0, resource, (nint)limit) >= 0)
        {
            return;
        }

        // The service itself may be under a lower one, which stays.
        var present = stackalloc long[2];
        Syscalls.Require("prlimit64", numbers.Prlimit64, 0, resource, 0, (nint)present);
        if ((ulong)present[1] > (ulong)value)
        {
            throw new JailException(JailException.Refused, "prlimit64 of resource " + resource.ToString(null, null) + " was refused");
        }
    }

    /// <summary>What is blocked or ignored stays so over an exec, and the runtime ignores SIGPIPE.</summary>
    private void ResetSignals()
    {
        var zeros = stackalloc byte[32];
        new Span<byte>(zeros, 32).Clear();
        Syscalls.Require("rt_sigaction", numbers.RtSigaction, 13, (nint)zeros, 0, 8);
        Syscalls.Require("rt_sigprocmask", numbers.RtSigprocmask, 2, (nint)zeros, 0, 8);
    }

    private byte[] ReadAll(string path)
    {
        var descriptor = Syscalls.Require("open " + path, numbers.OpenAt, -100, Text(path), 0x00080000);
        var bytes = new byte[64 * 1024];
        var count = 0;
        fixed (byte* start = bytes)
        {
            nint read;
            while (count < bytes.Length && (read = Syscalls.Require("read " + path, numbers.Read, descriptor, (nint)(start + count), bytes.Length - count)) > 0)
            {
                count += (int)read;
            }
        }

        Syscalls.Call(numbers.Close, descriptor);
        return bytes.AsSpan(0, count).ToArray();
    }

    private static nint Text(string text) => Marshal.StringToCoTaskMemUTF8(text);

    private static nint Strings(string[] texts)
    {
        var pointers = (nint*)NativeMemory.Alloc((nuint)(texts.Length + 1), (nuint)sizeof(nint));
        for (var i = 0; i < texts.Length; i++)
        {
            pointers[i] = Text(texts[i]);
        }

        pointers[texts.Length] = 0;
        return (nint)pointers;
    }

    /// <summary>The environment that this process was given, which is all that the host chose; nothing that the runtime added.</summary>
    private static nint Split(byte[] environment) => Strings(Encoding.UTF8.GetString(environment).Split('\0', StringSplitOptions.RemoveEmptyEntries));
}
