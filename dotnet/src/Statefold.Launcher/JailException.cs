namespace Statefold.Launcher;

/// <summary>A part of the jail could not be put up: nothing may run.</summary>
internal sealed class JailException(int exitCode, string message) : Exception(message)
{
    /// <summary>The host reads the reason from these.</summary>
    public const int NoLandlock = 70;
    public const int WrongMachine = 71;
    public const int Refused = 72;

    public int ExitCode { get; } = exitCode;

    public static JailException Of(string what, int errno) => new(Refused, what + " failed with errno " + errno.ToString(null, null));
}
