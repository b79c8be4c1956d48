using System.Runtime.InteropServices;
using Statefold.Launcher;

namespace Statefold.Tests;

/// <summary>Rule sets as older kernels would be asked for them: this one takes each that it knows. Nothing is restricted by them here.</summary>
public sealed class LandlockTests
{
    [Fact]
    public void EachVersionUpToThisKernelsIsAskedForWhatItKnows()
    {
        var numbers = SyscallNumbers.Of(RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? Cpu.Arm64 : Cpu.X64);
        int abi;
        try
        {
            abi = Landlock.Abi();
        }
        catch (Exception error) when (error is JailException or DllNotFoundException or EntryPointNotFoundException)
        {
            // There is nothing to ask on such a machine; the service refuses to run code there.
            return;
        }

        Assert.InRange(abi, 1, 100);
        for (var version = 1; version <= abi; version++)
        {
            var ruleset = Landlock.Create(version);
            Assert.True(ruleset > 2);
            Landlock.AllowExecuting(ruleset, numbers, "/usr/lib");
            Landlock.AllowReading(ruleset, numbers, "/proc/self/status");
            Landlock.AllowReading(ruleset, numbers, "/there/is/no/such/path");
            Landlock.AllowWriting(ruleset, numbers, "/dev/null");
            Syscalls.Call(numbers.Close, ruleset);
        }
    }
}
