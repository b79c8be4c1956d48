using Statefold.Launcher;

namespace Statefold.Tests;

/// <summary>The filter as the kernel would run it, for both processors, whatever this one is.</summary>
public sealed class SeccompFilterTests
{
    private const int Pid = 4711;
    private const uint X64 = 0xC000003E;
    private const uint Arm64 = 0xC00000B7;

    [Theory]
    [InlineData(Cpu.X64, X64)]
    [InlineData(Cpu.Arm64, Arm64)]
    internal void AllowsNothingOfAnotherProcessor(Cpu cpu, uint audit)
    {
        foreach (var other in new uint[] { X64, Arm64, 0x40000003, 0x40000028, 0 }.Where(other => other != audit))
        {
            Assert.Equal(SeccompFilter.KillProcess, Run(cpu, other, 0));
        }
    }

    [Theory]
    [InlineData(Cpu.X64, X64)]
    [InlineData(Cpu.Arm64, Arm64)]
    internal void AllowsWhatIsOnTheListAndNothingElse(Cpu cpu, uint audit)
    {
        var numbers = SyscallNumbers.Of(cpu);
        var listed = SyscallNumbers.Allowed(cpu).ToArray().Select(number => (int)number).ToHashSet();
        int[] looked = [numbers.Mmap, numbers.Clone, numbers.Kill, numbers.TgKill, numbers.RtSigqueueinfo, numbers.RtTgsigqueueinfo, numbers.Prlimit64, numbers.SchedSetAffinity, numbers.Ioctl, numbers.Fcntl, numbers.Prctl, numbers.ExecveAt];
        Assert.DoesNotContain(looked, listed.Contains);
        for (var number = 0; number <= 600; number++)
        {
            if (looked.Contains(number))
            {
                continue;
            }

            var expected = listed.Contains(number) ? SeccompFilter.Allow : number is 435 or 437 or > 461 ? SeccompFilter.Enosys : SeccompFilter.Eperm;
            Assert.True(expected == Run(cpu, audit, number), $"{cpu} {number}");
        }

        // The jail itself can't be loosened or put up again from inside, and no socket is on the list.
        Assert.DoesNotContain(new[] { numbers.Socket, numbers.Seccomp, numbers.SetResUid, numbers.CapSet, SyscallNumbers.LandlockRestrictSelf, numbers.Chdir }, listed.Contains);
    }

    [Fact]
    public void RefusesTheThirdInterfaceOfX64()
    {
        for (var number = 0; number < 600; number++)
        {
            Assert.Equal(SeccompFilter.Eperm, Run(Cpu.X64, X64, 0x40000000 + number));
        }

        Assert.Equal(SeccompFilter.Eperm, Run(Cpu.X64, X64, -1));
    }

    [Theory]
    [InlineData(Cpu.X64, X64)]
    [InlineData(Cpu.Arm64, Arm64)]
    internal void LooksIntoTheArgumentsOfSome(Cpu cpu, uint audit)
    {
        var numbers = SyscallNumbers.Of(cpu);
        void Allows(int number, params ulong[] arguments) => Assert.Equal(SeccompFilter.Allow, Run(cpu, audit, number, arguments));
        void Refuses(int number, params ulong[] arguments) => Assert.Equal(SeccompFilter.Eperm, Run(cpu, audit, number, arguments));

        foreach (var signal in new[] { numbers.Kill, numbers.TgKill, numbers.RtSigqueueinfo, numbers.RtTgsigqueueinfo })
        {
            Allows(signal, Pid);
            Refuses(signal, 0);
            Refuses(signal, 1);
            Refuses(signal, ulong.MaxValue);
            Refuses(signal, unchecked((ulong)-Pid));
        }

        Allows(numbers.Prlimit64, 0);
        Allows(numbers.Prlimit64, Pid);
        Refuses(numbers.Prlimit64, 1);
        Allows(numbers.SchedSetAffinity, 0);
        Refuses(numbers.SchedSetAffinity, 1);

        // A thread as glibc and as musl make it; a fork, a vfork, a process that shares memory, a thread in a namespace of its own.
        Allows(numbers.Clone, 0x3d0f00);
        Allows(numbers.Clone, 0x7d0f00);
        Refuses(numbers.Clone, 0x01200011);
        Refuses(numbers.Clone, 0x4111);
        Refuses(numbers.Clone, 0x100);
        for (var shift = 0; shift < 32; shift++)
        {
            if ((0x7e020000u & 1u << shift) != 0)
            {
                Refuses(numbers.Clone, 0x3d0f00 | 1UL << shift);
            }
        }

        Allows(numbers.Mmap, 0, 4096, 3, 0x22);
        Allows(numbers.Mmap, 0, 4096, 3, 0x20022);
        Refuses(numbers.Mmap, 0, 4096, 3, 0x122);
        Refuses(numbers.Mmap, 0, 4096, 3, 0x40022);
        // A file may be shared, memory may not: as such, reserved, or validated.
        Allows(numbers.Mmap, 0, 4096, 1, 0x01);
        Refuses(numbers.Mmap, 0, 4096, 3, 0x21);
        Refuses(numbers.Mmap, 0, 4096, 0, 0x4021);
        Refuses(numbers.Mmap, 0, 4096, 3, 0x23);
        Allows(numbers.Ioctl, 0, 0x5401);
        Refuses(numbers.Ioctl, 0, 0x5412);
        Refuses(numbers.Ioctl, 0, 0x8912);
        Allows(numbers.Fcntl, 3, 1030);
        Refuses(numbers.Fcntl, 3, 8);
        foreach (var locking in new ulong[] { 5, 6, 7, 36, 37, 38 })
        {
            Refuses(numbers.Fcntl, 3, locking);
        }

        Refuses(cpu == Cpu.X64 ? 73 : 32, 3, 2); // flock
        Allows(numbers.Prctl, 15);
        Refuses(numbers.Prctl, 1);
        Allows(numbers.ExecveAt, 200, 0, 0, 0, 0x1000);
        Refuses(numbers.ExecveAt, 200, 0, 0, 0, 0);
        Refuses(numbers.ExecveAt, 3, 0, 0, 0, 0x1000);
        Refuses(numbers.ExecveAt, unchecked((ulong)-100), 0, 0, 0, 0x1000);
    }

    private static uint Run(Cpu cpu, uint audit, int number, params ulong[] arguments)
    {
        var program = SeccompFilter.Build(cpu, Pid);
        Assert.InRange(program.Length, 1, 4096);
        uint Data(uint offset) => offset switch
        {
            0 => (uint)number,
            4 => audit,
            >= 16 and < 64 => (uint)(arguments.ElementAtOrDefault((int)(offset - 16) / 8) >> (offset % 8 == 0 ? 0 : 32)),
            _ => 0,
        };
        uint accumulator = 0;
        for (var at = 0; ; at++)
        {
            var (code, whenTrue, whenFalse, k) = ((ushort)program[at], (byte)(program[at] >> 16), (byte)(program[at] >> 24), (uint)(program[at] >> 32));
            switch (code)
            {
                case 0x20:
                    accumulator = Data(k);
                    break;
                case 0x54:
                    accumulator &= k;
                    break;
                case 0x15:
                    at += accumulator == k ? whenTrue : whenFalse;
                    break;
                case 0x25:
                    at += accumulator > k ? whenTrue : whenFalse;
                    break;
                case 0x35:
                    at += accumulator >= k ? whenTrue : whenFalse;
                    break;
                case 0x45:
                    at += (accumulator & k) != 0 ? whenTrue : whenFalse;
                    break;
                case 0x06:
                    return k;
                default:
                    throw new InvalidOperationException($"no such instruction: {code:x}");
            }
        }
    }
}
