namespace Statefold.Runner;

/// <summary>What became of one event at one key; values as on the wire.</summary>
internal enum Outcome : byte
{
    Changed = 0,
    Faulted = 1,
    Parked = 2,

    /// <summary>Not sent: the event was applied and there is nothing to tell.</summary>
    Applied = 255,
}
