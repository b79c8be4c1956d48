namespace Statefold.Wire;

/// <summary>What a frame carries. The values and layouts are in <c>schemas/frames/README.md</c>.</summary>
public enum Tag : byte
{
    Compile = 1,
    Load = 2,
    Unload = 3,
    Forget = 4,
    Fold = 5,
    Project = 6,
    States = 7,
    Seal = 8,

    Ready = 128,
    Compiled = 129,
    Loaded = 130,
    Missing = 131,
    Folded = 132,
    Projected = 133,
    TooLarge = 134,
}
