namespace Statefold.Wire;

/// <summary>What an answer may hold; the host refuses more. The host has the same in <c>wire.ts</c>.</summary>
public static class WireLimits
{
    /// <summary>Keys that one event may touch in one projection.</summary>
    public const int MaxKeys = 1_000;

    /// <summary>Changes of one answer, and keys whose states are asked for at once.</summary>
    public const int MaxEntries = 65_536;
}
