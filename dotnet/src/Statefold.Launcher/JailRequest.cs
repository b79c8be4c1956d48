namespace Statefold.Launcher;

/// <summary>What the host asks for.</summary>
/// <param name="User">The user and group to become; null: stays who the host is, without capabilities.</param>
/// <param name="DataBytes">RLIMIT_DATA.</param>
/// <param name="AddressBytes">RLIMIT_AS: shared memory is data that no other limit counts.</param>
/// <param name="Threads">RLIMIT_NPROC; only with a user of its own.</param>
/// <param name="DotnetRoot">The folder that `dotnet` is in.</param>
/// <param name="Assemblies">The folder of the program.</param>
/// <param name="Arguments">From `dotnet` on.</param>
/// <param name="Check">The program is this one, and tells how the jail holds.</param>
internal sealed record JailRequest(uint? User, long DataBytes, long AddressBytes, long Threads, string DotnetRoot, string Assemblies, string[] Arguments, bool Check)
{
    /// <summary>
    /// `run` or `check`, the user or `-`, bytes of RLIMIT_DATA and of RLIMIT_AS, RLIMIT_NPROC, the program's assembly, and its arguments.
    /// </summary>
    /// <exception cref="FormatException">They are others.</exception>
    public static JailRequest Of(string[] arguments)
    {
        if (arguments.Length < 6 || arguments[0] is not ("run" or "check"))
        {
            throw new FormatException("Statefold.Launcher run|check <uid>|- <bytes of data> <bytes of addresses> <threads> <assembly> [argument…]");
        }

        var dotnet = Environment.ProcessPath ?? "";
        var assembly = arguments[5];
        return new JailRequest(
            arguments[1] == "-" ? null : uint.Parse(arguments[1]),
            long.Parse(arguments[2]),
            long.Parse(arguments[3]),
            long.Parse(arguments[4]),
            dotnet[..Math.Max(0, dotnet.LastIndexOf('/'))],
            assembly[..Math.Max(0, assembly.LastIndexOf('/'))],
            [dotnet, .. arguments.AsSpan(5)],
            arguments[0] == "check");
    }
}
