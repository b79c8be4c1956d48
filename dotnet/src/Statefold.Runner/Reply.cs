namespace Statefold.Runner;

/// <summary>What a projection request is answered with.</summary>
internal enum Reply : byte
{
    /// <summary>Every change of every state.</summary>
    Each = 0,

    /// <summary>The state of each touched key at the end.</summary>
    Last = 1,

    /// <summary>The keys alone; nothing is folded.</summary>
    Keys = 2,
}
