namespace Statefold.Launcher;

/// <summary>Which processor the numbers of the system calls are for.</summary>
internal enum Cpu
{
    X64,
    Arm64,
}
