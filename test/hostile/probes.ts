/** C# that the suite uploads. What it tries is in the test that appends the event; what came of it goes into the state. */

const COMMON = `
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text.Json;

namespace Escape;

public sealed record Report(SortedDictionary<string, string> Attempts);

public sealed class Attempts : SortedDictionary<string, string>
{
    public void Add(string name, Func<object?> attempt)
    {
        try
        {
            this[name] = $"did {attempt()}";
        }
        catch (Exception e)
        {
            this[name] = (e as AggregateException)?.InnerException?.GetType().Name ?? e.GetType().Name;
        }
    }

    /// <summary>Of a call that gives -1 when it is refused.</summary>
    public void Call(string name, Func<long> attempt)
    {
        try
        {
            var result = attempt();
            this[name] = result == -1 ? $"errno {Marshal.GetLastPInvokeError()}" : $"did {result}";
        }
        catch (Exception e)
        {
            this[name] = (e as AggregateException)?.InnerException?.GetType().Name ?? e.GetType().Name;
        }
    }
}

public static class Libc
{
    [DllImport("libc", EntryPoint = "syscall", SetLastError = true)]
    public static extern long Syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0);

    [DllImport("libc", SetLastError = true)]
    public static extern int open(string path, int flags, int mode);

    [DllImport("libc", SetLastError = true)]
    public static extern int fork();

    [DllImport("libc", SetLastError = true)]
    public static extern int execve(string path, string?[] arguments, string?[] variables);

    [DllImport("libc", SetLastError = true)]
    public static extern long write(int descriptor, byte[] bytes, nint count);

    [DllImport("libc", SetLastError = true)]
    public static extern long read(int descriptor, byte[] bytes, nint count);

    [DllImport("libc", SetLastError = true)]
    public static extern nint mmap(nint address, nint length, int protection, int flags, int descriptor, nint offset);

    [DllImport("libc", SetLastError = true)]
    public static extern int madvise(nint address, nint length, int advice);

    [DllImport("libc", SetLastError = true)]
    public static extern int ioctl(int descriptor, ulong request, byte[] argument);

    [DllImport("libc", SetLastError = true)]
    public static extern int fcntl(int descriptor, int command, long argument);

    [DllImport("libc")]
    public static extern uint geteuid();
}
`;

export const DENIED = `${COMMON}
[AggregateType("probe")]
public sealed class ProbeReducer : IReducer<Report>
{
    public Report? Apply(Report? state, Event e)
    {
        var all = new Attempts();
        string Text(string name) => e.Data.GetProperty(name).GetString()!;
        IEnumerable<string> Texts(string name) => e.Data.GetProperty(name).EnumerateArray().Select(x => x.GetString()!);
        switch (e.EventType)
        {
            case "Read":
                foreach (var path in Texts("files")) all.Add(path, () => File.ReadAllBytes(path).Length);
                foreach (var path in Texts("folders")) all.Add(path + "/*", () => Directory.GetFileSystemEntries(path).Length);
                break;
            case "Write":
                var folder = Text("folder");
                var file = Text("file");
                all.Add("create", () => { File.WriteAllText(folder + "/made", "x"); return 1; });
                all.Add("overwrite", () => { File.WriteAllText(file, "x"); return 1; });
                all.Add("append", () => { File.AppendAllText(file, "x"); return 1; });
                all.Add("delete", () => { File.Delete(file); return 1; });
                all.Add("move", () => { File.Move(file, folder + "/moved"); return 1; });
                all.Add("mkdir", () => Directory.CreateDirectory(folder + "/dir").FullName);
                all.Add("symlink", () => File.CreateSymbolicLink(folder + "/link", "/etc").FullName);
                all.Add("chmod", () => { File.SetUnixFileMode(file, (UnixFileMode)511); return 1; });
                all.Add("times", () => { File.SetLastWriteTimeUtc(file, DateTime.UnixEpoch); return 1; });
                all.Add("attributes", () => { using var s = new FileStream(file, FileMode.Open, FileAccess.ReadWrite); s.SetLength(0); return 1; });
                all.Add("temporary", () => Path.GetTempFileName());
                all.Call("O_TMPFILE", () => Libc.open(folder, 0x410000 | 2, 384));
                all.Add("shared memory", () => { File.WriteAllText("/dev/shm/x", "x"); return 1; });
                all.Add("terminal", () => { File.WriteAllText("/dev/tty", "x"); return 1; });
                all.Add("kernel log", () => { File.WriteAllText("/dev/kmsg", "x"); return 1; });
                all.Add("own memory", () => { using var s = new FileStream("/proc/self/mem", FileMode.Open, FileAccess.Write); return 1; });
                all.Add("own oom score", () => { File.WriteAllText("/proc/self/oom_score_adj", "-1000"); return 1; });
                all.Add("own limits", () => { File.WriteAllText("/proc/self/limits", "x"); return 1; });
                all.Add("cgroup", () => { File.WriteAllText("/sys/fs/cgroup/cgroup.procs", "1"); return 1; });
                break;
            case "Environment":
                all.Add("variables", () => string.Join(",", Environment.GetEnvironmentVariables().Keys.Cast<string>().Order(StringComparer.Ordinal)));
                all.Add("raw", () => string.Join(",", File.ReadAllText("/proc/self/environ").Split('\\0', StringSplitOptions.RemoveEmptyEntries).Select(v => v[..v.IndexOf('=')]).Order(StringComparer.Ordinal)));
                all.Add("folder", () => Environment.CurrentDirectory);
                all.Add("user", () => Libc.geteuid());
                all.Add("capabilities", () => string.Join(",", File.ReadLines("/proc/self/status").Where(l => l.StartsWith("Cap")).Select(l => l.Split('\\t')[1]).Distinct()));
                all.Add("arguments", () => string.Join(" ", Environment.GetCommandLineArgs().Skip(1).Where(a => !a.All(char.IsDigit))));
                all.Add("descriptors", () => string.Join(",", Enumerable.Range(0, 300).Select(n => new FileInfo("/proc/self/fd/" + n).LinkTarget ?? "").Where(l => l.StartsWith('/') && l is not ("/dev/null" or "/dev/urandom")).Where(l => !l.EndsWith(".dll"))));
                break;
            case "Sockets":
                foreach (var (name, family) in new (string, int)[] { ("unix", 1), ("inet", 2), ("packet radio", 3), ("ipx", 4), ("inet6", 10), ("key", 15), ("netlink", 16), ("packet", 17), ("rds", 21), ("can", 29), ("tipc", 30), ("bluetooth", 31), ("alg", 38), ("vsock", 40), ("qipcrtr", 42), ("smc", 43), ("xdp", 44) })
                    foreach (var type in new[] { 1, 2, 3 })
                        all.Call($"{name} {type}", () => Libc.Syscall(Number(e, "socket"), family, type));
                foreach (var name in new[] { "socketpair", "bind", "connect", "listen", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown" })
                    all.Call($"{name} of the frames", () => Libc.Syscall(Number(e, name), 3));
                all.Call("interfaces", () => Libc.ioctl(3, 0x8912, new byte[4096]));
                all.Call("owner of the frames", () => Libc.ioctl(3, 0x8901, new byte[8]));
                break;
            case "Connections":
                var port = e.Data.GetProperty("port").GetInt32();
                all.Add("tcp", () => { using var c = new TcpClient(); c.Connect(IPAddress.Loopback, port); return 1; });
                all.Add("http", () => { using var c = new HttpClient(); return c.GetStringAsync($"http://127.0.0.1:{port}/").Result; });
                all.Add("udp", () => { using var c = new UdpClient(); return c.Send([1], 1, "127.0.0.1", port); });
                all.Add("listener", () => { var l = new TcpListener(IPAddress.Loopback, 0); l.Start(); return 1; });
                all.Add("unix", () => { using var s = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified); s.Connect(new UnixDomainSocketEndPoint(Text("unix"))); return 1; });
                all.Add("pipe", () => { using var p = new System.IO.Pipes.NamedPipeServerStream("x"); return 1; });
                break;
            case "Calls":
                foreach (var call in e.Data.GetProperty("calls").EnumerateArray())
                {
                    long Argument(int i) => i < call.GetProperty("arguments").GetArrayLength() ? call.GetProperty("arguments")[i].GetInt64() : 0;
                    all.Call(call.GetProperty("name").GetString()!, () => Libc.Syscall(call.GetProperty("number").GetInt64(), Argument(0), Argument(1), Argument(2), Argument(3), Argument(4)));
                }

                break;
            case "Processes":
                all.Add("start", () => Process.Start("/bin/sh", ["-c", "touch " + Text("file")]).Id);
                all.Add("start dotnet", () => Process.Start(Environment.ProcessPath!, "--version").Id);
                all.Add("list", () => Process.GetProcesses().Length);
                all.Add("parent", () => Process.GetProcessById(e.Data.GetProperty("parent").GetInt32()).ProcessName);
                all.Call("fork", () => Libc.fork());
                all.Call("execve", () => Libc.execve("/bin/sh", ["sh", "-c", "touch " + Text("file"), null], [null]));
                all.Call("owner of signals", () => Libc.fcntl(3, 8, e.Data.GetProperty("parent").GetInt32()));
                all.Call("signal of signals", () => Libc.fcntl(3, 10, 9));
                all.Call("lease", () => Libc.fcntl(3, 1024, 1));
                all.Call("one exec again", () => { for (var i = 0; i < 150; i++) Libc.fcntl(0, 0, 0); return Libc.fcntl(0, 0, 200); });
                break;
            case "Fine":
                all.Add("sha256", () => Convert.ToHexString(System.Security.Cryptography.SHA256.HashData("x"u8))[..8]);
                all.Add("time zone", () => TimeZoneInfo.FindSystemTimeZoneById("Europe/Berlin").GetUtcOffset(DateTime.UnixEpoch));
                all.Add("threads", () => { var sum = 0L; Parallel.For(0, 1000, i => Interlocked.Add(ref sum, i)); return sum; });
                all.Add("regex", () => System.Text.RegularExpressions.Regex.Replace("a1", "[0-9]", "2"));
                all.Add("culture", () => 1.5.ToString(System.Globalization.CultureInfo.InvariantCulture));
                all.Add("big numbers", () => System.Numerics.BigInteger.Pow(2, 100));
                all.Add("expressions", () => System.Linq.Expressions.Expression.Lambda<Func<int>>(System.Linq.Expressions.Expression.Constant(7)).Compile()());
                all.Add("tasks", () => Task.WhenAll(Task.Run(() => 1), Task.Run(() => 2)).Result.Sum());
                break;
        }

        return new(all);
    }

    private static long Number(Event e, string name) => e.Data.GetProperty("numbers").GetProperty(name).GetInt64();
}
`;

/** What ends, floods or fills its process. The state says \`survived\` where the code came to its end. */
export const NASTY = `${COMMON}
public sealed record Nasty(string Text, Node? Node);
public sealed class Node { public Node? Next { get; set; } }

public static class Kept
{
    public static int Static;
    public static readonly List<object> All = [];
}

[AggregateType("probe")]
public sealed class NastyReducer : IReducer<Nasty>
{
    public Nasty? Apply(Nasty? state, Event e)
    {
        switch (e.EventType)
        {
            case "Calm": break;
            case "Set": Kept.Static = 42; break;
            case "Get": return new(Kept.Static.ToString(), null);
            case "Loop": while (true) { }
            case "LoopInThreads": while (true) new Thread(() => { while (true) { } }, 256 * 1024).Start();
            case "SleepInThreads": while (true) new Thread(() => Thread.Sleep(-1), 256 * 1024).Start();
            case "FloodThePool":
                ThreadPool.SetMinThreads(10_000, 10_000);
                for (var i = 0; i < 10_000; i++) ThreadPool.QueueUserWorkItem(_ => { while (true) { } });
                Thread.Sleep(-1);
                break;
            case "Managed":
                while (true) { var one = new byte[16 << 20]; Array.Fill(one, (byte)1); Kept.All.Add(one); }
            case "Native":
                while (true) { var one = Marshal.AllocHGlobal(16 << 20); for (var i = 0; i < 16 << 20; i += 4096) Marshal.WriteByte(one, i, 1); }
            case "Mapped":
                while (true) { var one = Libc.mmap(0, 16 << 20, 3, 0x22, -1, 0); if (one == -1) return new($"errno {Marshal.GetLastPInvokeError()}", null); for (var i = 0; i < 16 << 20; i += 4096) Marshal.WriteByte(one, i, 1); }
            case "Shared":
                // Not counted as data, and given back from what is resident.
                for (var n = 0L; ; n += 16)
                {
                    var one = Libc.mmap(0, 16 << 20, 3, 0x21, -1, 0);
                    if (one == -1) return new($"errno {Marshal.GetLastPInvokeError()} after {n} MiB", null);
                    for (var i = 0; i < 16 << 20; i += 4096) Marshal.WriteByte(one, i, 1);
                    Libc.madvise(one, 16 << 20, 4);
                }

            case "SharedSlowly":
                // 600 MiB that are taken, and hidden by 16 MiB at a time; then it waits to be seen.
                for (var n = 0; n < 600; n += 16)
                {
                    var piece = Libc.mmap(0, 16 << 20, 3, 0x21, -1, 0);
                    if (piece == -1) return new($"errno {Marshal.GetLastPInvokeError()} after {n} MiB", null);
                    for (var i = 0; i < 16 << 20; i += 4096) Marshal.WriteByte(piece, i, 1);
                    Libc.madvise(piece, 16 << 20, 4);
                }

                Thread.Sleep(-1);
                break;
            case "Descriptors":
                var opened = 0;
                while (Libc.open("/dev/null", 0, 0) >= 0) opened++;
                return new($"errno {Marshal.GetLastPInvokeError()} after {opened}", null);
            case "Overflow": return Overflow(state, 0);
            case "FailFast": Environment.FailFast("gone"); break;
            case "Exit": Environment.Exit(0); break;
            case "HangAtExit":
                AppDomain.CurrentDomain.ProcessExit += (_, _) => Thread.Sleep(-1);
                Environment.Exit(0);
                break;
            case "HandleAll":
                AppDomain.CurrentDomain.UnhandledException += (_, _) => { while (true) { } };
                new Thread(() => throw new Exception("later")).Start();
                Thread.Sleep(-1);
                break;
            case "FirstChance":
                AppDomain.CurrentDomain.FirstChanceException += (_, _) => Thread.Sleep(-1);
                throw new Exception("first chance");
            case "AsyncVoid":
                Later();
                Thread.Sleep(-1);
                break;
            case "Signal": System.Diagnostics.Process.GetCurrentProcess().Kill(); break;
            case "OldCalls":
                // getpid of 32 bits: mov eax, 20; int 0x80; ret
                var code = Libc.mmap(0, 4096, 7, 0x22, -1, 0);
                Marshal.Copy(new byte[] { 0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3 }, 0, code, 8);
                return new(Marshal.GetDelegateForFunctionPointer<Func32>(code)().ToString(), null);
            case "Console":
                for (var i = 0; i < 300_000; i++) { Console.WriteLine("noise that nobody reads"); Console.Error.WriteLine("noise that nobody reads"); }
                break;
            case "RawErrors":
                var noise = new byte[64 * 1024];
                Array.Fill(noise, (byte)'x');
                while (true) Libc.write(2, noise, noise.Length);
            case "RawOutput":
                for (var i = 0; i < 1000; i++) Libc.write(1, new byte[64 * 1024], 64 * 1024);
                break;
            case "Life":
                Libc.write(4, new byte[1], 1);
                Thread.Sleep(-1);
                break;
            case "Garbage":
                Libc.write(3, new byte[1024], 1024);
                Thread.Sleep(-1);
                break;
            case "ReadyAgain":
                for (var i = 0; ; i++) Libc.write(3, [5, 0, 0, 0, 0, 0, 0, 0, 128], 9);
            case "Reflect":
                // The runner's own way to its host, found and opened once more.
                var connection = AppDomain.CurrentDomain.GetAssemblies().Single(a => a.GetName().Name == "Statefold.Wire").GetType("Statefold.Wire.HostConnection")!;
                var stream = (Stream)connection.GetMethod("OpenDescriptor", BindingFlags.NonPublic | BindingFlags.Static)!.Invoke(null, [3, FileAccess.ReadWrite])!;
                stream.Write([5, 0, 0, 0, 0, 0, 0, 0, 200]);
                stream.Flush();
                Thread.Sleep(-1);
                break;
            case "SafeHandle":
                // A handle by its number, through a constructor that only reflection finds.
                var made = (Microsoft.Win32.SafeHandles.SafeFileHandle)Activator.CreateInstance(typeof(Microsoft.Win32.SafeHandles.SafeFileHandle), [(nint)3, false])!;
                using (var raw = new FileStream(made, FileAccess.Write, 0)) raw.Write([13, 0, 0, 0, 2, 0, 0, 0, 133, 0, 0, 0, 0, 0, 0, 0, 0]);
                Thread.Sleep(-1);
                break;
            case "Flood":
                // Half a million equal changes, as an answer to whatever was asked.
                var many = new byte[9 + 4 + (500_000 * 6) + 8];
                BitConverter.TryWriteBytes(many.AsSpan(0), many.Length - 4);
                BitConverter.TryWriteBytes(many.AsSpan(4), 2);
                many[8] = 133;
                BitConverter.TryWriteBytes(many.AsSpan(9), 500_000);
                for (var i = 0; i < 500_000; i++) { many[13 + (i * 6) + 2] = 1; many[13 + (i * 6) + 3] = (byte)'k'; }
                Libc.write(3, many, many.Length);
                Thread.Sleep(-1);
                break;
            case "Trickle":
                Libc.write(3, [0, 0, 0, 4], 4);
                while (true) Libc.write(3, [0], 1);
            case "StealFrames":
                while (true) Libc.read(3, new byte[65536], 65536);
            case "CloseAll":
                for (var i = 0; i < 128; i++) Libc.Syscall(e.Data.GetProperty("close").GetInt64(), i);
                break;
            case "Huge": return new(new string('x', 100 << 20), null);
            case "Deep":
                var node = new Node();
                for (var i = 0; i < 100_000; i++) node = new Node { Next = node };
                return new("", node);
            case "Cyclic":
                var loop = new Node();
                loop.Next = loop;
                return new("", loop);
            case "Timers":
                for (var i = 0; i < 1000; i++) Kept.All.Add(new Timer(_ => { var end = Environment.TickCount64 + 50; while (Environment.TickCount64 < end) { } }, null, 0, 1));
                break;
            case "LeaveThreads":
                for (var i = 0; i < 16; i++) new Thread(() => { while (true) { } }) { IsBackground = true }.Start();
                break;
            case "LeaveHundred":
                // They begin when the event is over, which they would keep from ending in time.
                for (var i = 0; i < 100; i++) new Thread(() => { Thread.Sleep(1000); while (true) { } }, 256 * 1024) { IsBackground = true }.Start();
                break;
            case "Finalizers":
                for (var i = 0; i < 100_000; i++) _ = new Hanging();
                GC.Collect();
                break;
            case "FinalizersThrow":
                for (var i = 0; i < 100; i++) _ = new Throwing();
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(-1);
                break;
            case "Forge":
                // An answer to this very request, written before the runner's own.
                var text = System.Text.Encoding.UTF8.GetBytes("{\\"text\\":\\"forged\\",\\"node\\":null}");
                using (var frame = new MemoryStream())
                using (var writer = new BinaryWriter(frame))
                {
                    writer.Write(0);
                    writer.Write(e.Data.GetProperty("request").GetInt32());
                    writer.Write((byte)132);
                    writer.Write(1);
                    writer.Write((byte)1);
                    writer.Write((byte)1);
                    writer.Write(text.Length);
                    writer.Write(text);
                    writer.Write((byte)0);
                    writer.Seek(0, SeekOrigin.Begin);
                    writer.Write((int)frame.Length - 4);
                    Libc.write(3, frame.ToArray(), (nint)frame.Length);
                }

                return new("honest", null);
        }

        return new("survived", null);
    }

    private delegate int Func32();

    private static Nasty? Overflow(Nasty? state, int depth) => Overflow(state, depth + 1) is { } s ? s with { Text = depth.ToString() } : null;

    private static async void Later()
    {
        await Task.Yield();
        throw new Exception("async void");
    }

    private sealed class Hanging { ~Hanging() => Thread.Sleep(-1); }
    private sealed class Throwing { ~Throwing() => throw new Exception("finalizer"); }
}
`;

/** Code that runs before any method of it is called. */
export const MODULE_INITIALIZER = `using System.Runtime.CompilerServices;

namespace Escape;

public sealed record Late(int Count);

[AggregateType("late")]
public sealed class LateReducer : IReducer<Late>
{
    public Late? Apply(Late? state, Event e) => new(1);
}

public static class Loader
{
    [ModuleInitializer]
    public static void Run()
    {
        while (true) { }
    }
}
`;
