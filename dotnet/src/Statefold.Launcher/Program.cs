using System.Runtime.InteropServices;
using Statefold.Launcher;

// The host runs this in place of `dotnet`; it ends as the exec of what it was asked for.
Cpu cpu;
switch (RuntimeInformation.ProcessArchitecture)
{
    case Architecture.X64:
        cpu = Cpu.X64;
        break;
    case Architecture.Arm64:
        cpu = Cpu.Arm64;
        break;
    default:
        return JailException.WrongMachine;
}

try
{
    if (args is ["inmate", var abi])
    {
        return Inmate.Tell(cpu, abi);
    }

    new Jail(cpu, JailRequest.Of(args)).Exec();
    return JailException.Refused;
}
catch (JailException error)
{
    Inmate.Write(SyscallNumbers.Of(cpu), 2, "jail: " + error.Message + "\n");
    return error.ExitCode;
}
