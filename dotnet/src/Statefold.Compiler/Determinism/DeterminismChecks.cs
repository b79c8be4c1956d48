namespace Statefold.Compiler.Determinism;

/// <summary>What becomes of code that can't be replayed. The numbers are those of the wire.</summary>
internal enum DeterminismChecks : byte
{
    Off = 0,

    /// <summary>Its errors are told as warnings.</summary>
    Warn = 1,
    Error = 2,
}
