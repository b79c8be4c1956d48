namespace Statefold.Launcher;

/// <summary>
/// The filter of system calls, as the kernel's BPF. An allow list: what isn't on it gives EPERM, and ENOSYS where the C library
/// then falls back to an older call.
/// </summary>
internal sealed class SeccompFilter
{
    public const uint Allow = 0x7fff0000;
    public const uint KillProcess = 0x80000000;
    public const uint Eperm = 0x00050000 | 1;
    public const uint Enosys = 0x00050000 | 38;

    /// <summary>The number of the descriptor that the one exec goes through. Above the limit of descriptors, so that it can't be opened again.</summary>
    public const int ExecDescriptor = 200;

    /// <summary>The last call that the list was made with in mind; a C library that knows younger ones falls back.</summary>
    private const uint LastKnown = 461;

    private const int MaxLength = 512;
    private const uint X32 = 0x40000000;
    private const ushort LoadWord = 0x20;
    private const ushort JumpEqual = 0x15;
    private const ushort JumpGreater = 0x25;
    private const ushort JumpGreaterOrEqual = 0x35;
    private const ushort JumpSet = 0x45;
    private const ushort And = 0x54;
    private const ushort Return = 0x06;

    /// <summary>CLONE_VM, CLONE_SIGHAND, CLONE_THREAD: a thread of this process.</summary>
    private const uint ThreadFlags = 0x00010900;

    /// <summary>CLONE_NEW*.</summary>
    private const uint NamespaceFlags = 0x7e020000;

    /// <summary>MAP_GROWSDOWN, memory that RLIMIT_DATA doesn't count, and MAP_HUGETLB.</summary>
    private const uint UncountedMaps = 0x00040100;

    private readonly ulong[] program = new ulong[MaxLength];
    private int length;
    private int opened = -1;

    private SeccompFilter()
    {
    }

    /// <summary>struct sock_filter[]: code, jump if true, jump if false, k.</summary>
    /// <param name="pid">Of the process that will be jailed: the only one that it may signal.</param>
    /// <param name="changesFiles">It has a folder that it may change: landlock says which.</param>
    public static ulong[] Build(Cpu cpu, int pid, bool changesFiles = false)
    {
        var filter = new SeccompFilter();
        filter.Write(cpu, SyscallNumbers.Of(cpu), (uint)pid, changesFiles);
        return filter.program.AsSpan(0, filter.length).ToArray();
    }

    private void Write(Cpu cpu, SyscallNumbers numbers, uint pid, bool changesFiles)
    {
        Load(4);
        Add(JumpEqual, numbers.Audit, 1, 0);
        Add(Return, KillProcess);
        Load(0);
        if (cpu == Cpu.X64)
        {
            Add(JumpGreaterOrEqual, X32, 0, 1);
            Add(Return, Eperm);
        }

        Ranges(SyscallNumbers.Allowed(cpu));
        if (changesFiles)
        {
            Ranges(SyscallNumbers.OfFiles(cpu));
        }

        When(numbers.Mmap);
        LoadArgument(3);
        Add(JumpSet, UncountedMaps, 1, 0);
        // Anonymous shared memory the runtime itself needs for each assembly that is loaded: the service counts what is mapped.
        Verdict();

        When(numbers.Clone);
        LoadArgument(0);
        Add(JumpSet, NamespaceFlags, 3, 0);
        Add(And, ThreadFlags);
        Add(JumpEqual, ThreadFlags, 0, 1);
        Verdict();

        // Signals, limits and processors of this process alone.
        OneOf(numbers.Kill, 0, [pid]);
        OneOf(numbers.TgKill, 0, [pid]);
        OneOf(numbers.RtSigqueueinfo, 0, [pid]);
        OneOf(numbers.RtTgsigqueueinfo, 0, [pid]);
        OneOf(numbers.Prlimit64, 0, [0, pid]);
        OneOf(numbers.SchedSetAffinity, 0, [0]);

        // Nothing of sockets, nothing that sends signals: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
        OneOf(numbers.Ioctl, 1, [0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451]);

        // F_DUPFD to F_SETFL, F_DUPFD_CLOEXEC; no locks, which other processes would meet on files of the system, no owners, leases or pipe sizes.
        // A database asks for the size of a pipe, which changes nothing: F_GETPIPE_SZ.
        OneOf(numbers.Fcntl, 1, changesFiles ? [0, 1, 2, 3, 4, 1030, 1032] : [0, 1, 2, 3, 4, 1030]);

        // PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA.
        OneOf(numbers.Prctl, 0, [3, 15, 16, 0x53564d41]);

        When(numbers.ExecveAt);
        LoadArgument(0);
        Add(JumpEqual, ExecDescriptor, 0, 3);
        LoadArgument(4);
        Add(JumpEqual, 0x1000, 0, 1);
        Verdict();

        When(SyscallNumbers.Clone3);
        Add(Return, Enosys);
        When(SyscallNumbers.OpenAt2);
        Add(Return, Enosys);
        CloseBlock();
        Add(JumpGreater, LastKnown, 0, 1);
        Add(Return, Enosys);
        Add(Return, Eperm);
    }

    /// <summary>Runs of neighbouring numbers take one comparison of each end.</summary>
    private void Ranges(ReadOnlySpan<ushort> numbers)
    {
        for (var i = 0; i < numbers.Length; i++)
        {
            var first = numbers[i];
            while (i + 1 < numbers.Length && numbers[i + 1] == numbers[i] + 1)
            {
                i++;
            }

            if (numbers[i] == first)
            {
                Add(JumpEqual, first, 0, 1);
            }
            else
            {
                Add(JumpGreaterOrEqual, first, 0, 2);
                Add(JumpGreater, numbers[i], 1, 0);
            }

            Add(Return, Allow);
        }
    }

    private void OneOf(int number, int argument, ReadOnlySpan<uint> values)
    {
        When(number);
        LoadArgument(argument);
        for (var i = 0; i < values.Length; i++)
        {
            var last = i == values.Length - 1;
            Add(JumpEqual, values[i], (byte)(values.Length - 1 - i), last ? (byte)1 : (byte)0);
        }

        Verdict();
    }

    /// <summary>What follows up to the next one is for this call, and ends in a verdict.</summary>
    private void When(int number)
    {
        CloseBlock();
        opened = length;
        Add(JumpEqual, (uint)number, 0, 0);
    }

    /// <summary>Allowed when the last comparison goes on, refused when it skips one.</summary>
    private void Verdict()
    {
        Add(Return, Allow);
        Add(Return, Eperm);
        CloseBlock();
    }

    private void CloseBlock()
    {
        if (opened < 0)
        {
            return;
        }

        program[opened] |= (ulong)(length - opened - 1) << 24;
        opened = -1;
    }

    private void Load(uint offset) => Add(LoadWord, offset);

    /// <summary>The low word: what these arguments are 32 bits of.</summary>
    private void LoadArgument(int index) => Load(16 + (uint)index * 8);

    private void Add(ushort code, uint k, byte whenTrue = 0, byte whenFalse = 0) => program[length++] = code | (ulong)whenTrue << 16 | (ulong)whenFalse << 24 | (ulong)k << 32;
}
