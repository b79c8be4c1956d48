namespace Statefold.Launcher;

/// <summary>What the host asks for.</summary>
/// <param name="User">The user and group to become; null: stays who the host is, without capabilities.</param>
/// <param name="DataBytes">RLIMIT_DATA.</param>
/// <param name="AddressBytes">RLIMIT_AS: shared memory is data that no other limit counts.</param>
/// <param name="Threads">RLIMIT_NPROC; only with a user of its own.</param>
/// <param name="Program">What is executed: `dotnet`, which runs this, or another program.</param>
/// <param name="Executable">Folders and files from which may be executed, beside the libraries of the system.</param>
/// <param name="Readable">Folders and files that may be read.</param>
/// <param name="Arguments">From the program's own name on.</param>
/// <param name="Check">The program is this one, and tells how the jail holds.</param>
/// <param name="Folder">The one folder that it may change; null: there is none.</param>
/// <param name="FileBytes">RLIMIT_FSIZE.</param>
/// <param name="IsSpare">It has a processor while nothing else wants it.</param>
internal sealed record JailRequest(
    uint? User,
    long DataBytes,
    long AddressBytes,
    long Threads,
    string Program,
    string[] Executable,
    string[] Readable,
    string[] Arguments,
    bool Check,
    string? Folder,
    long FileBytes,
    bool IsSpare)
{
    private const long MiB = 1024 * 1024;

    /// <summary>
    /// `run`, `spare` (the same on what others leave of the processors) or `check`, the user or `-`, bytes of RLIMIT_DATA and of
    /// RLIMIT_AS, RLIMIT_NPROC, the program's assembly, and its arguments.
    /// Or `engine`, the same five, the folder that it may change, RLIMIT_FSIZE, what it may read (lines), the program, and its arguments.
    /// </summary>
    /// <exception cref="FormatException">They are others.</exception>
    public static JailRequest Of(string[] arguments)
    {
        if (arguments.Length < 6 || arguments[0] is not ("run" or "spare" or "check" or "engine") || (arguments[0] == "engine" && arguments.Length < 9))
        {
            throw new FormatException(
                "Statefold.Launcher run|spare|check <uid>|- <bytes of data> <bytes of addresses> <threads> <assembly> [argument…], "
                + "or engine <uid>|- <bytes of data> <bytes of addresses> <threads> <folder> <bytes of a file> <readable paths> <program> [argument…]");
        }

        uint? user = arguments[1] == "-" ? null : uint.Parse(arguments[1]);
        var data = long.Parse(arguments[2]);
        var addresses = long.Parse(arguments[3]);
        var threads = long.Parse(arguments[4]);
        if (arguments[0] == "engine")
        {
            return new JailRequest(
                user,
                data,
                addresses,
                threads,
                arguments[8],
                [arguments[8]],
                arguments[7].Split('\n'),
                [.. arguments.AsSpan(8)],
                Check: false,
                Folder: arguments[5],
                FileBytes: long.Parse(arguments[6]),
                // A statement can be sent again.
                IsSpare: true);
        }

        var dotnet = Environment.ProcessPath ?? "";
        var root = FolderOf(dotnet);
        return new JailRequest(
            user,
            data,
            addresses,
            threads,
            "/proc/self/exe",
            [root + "/dotnet", root + "/host", root + "/shared"],
            [FolderOf(arguments[5])],
            [dotnet, .. arguments.AsSpan(5)],
            Check: arguments[0] == "check",
            Folder: null,
            // At 0 the runtime doesn't start.
            FileBytes: MiB,
            IsSpare: arguments[0] == "spare");
    }

    private static string FolderOf(string path) => path[..Math.Max(0, path.LastIndexOf('/'))];
}
