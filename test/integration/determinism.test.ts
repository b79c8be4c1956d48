// Code that can't be replayed is refused, each with a code, its line and what to write instead; what looks like it and can be is not.
import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { CompileResult, Diagnostic } from '../../src/code-host/code-host.js';
import type { DeterminismChecks } from '../../src/code-host/dotnet/compile-codec.js';
import { goldenProjection, goldenReducer } from '../support/golden.js';
import { tags, tally, totals } from '../support/csharp.js';
import { type Fixture, openHost, projectRoot } from './code-host-fixture.js';

interface Case {
  readonly rule: string;
  readonly severity: 'error' | 'warning';
  /** Statements of `Apply`, or after `;;` members of the class; `⚡` stands before what is told of. */
  readonly refused: readonly string[];
  readonly fine: readonly string[];
}

const error = (rule: string, refused: readonly string[], fine: readonly string[]): Case => ({
  rule,
  severity: 'error',
  refused,
  fine,
});
const warning = (rule: string, refused: readonly string[], fine: readonly string[]): Case => ({
  rule,
  severity: 'warning',
  refused,
  fine,
});

const CASES: readonly Case[] = [
  error(
    'SF1001',
    [
      'var x = DateTime.⚡Now;',
      'var x = DateTime.⚡UtcNow;',
      'var x = DateTime.⚡Today;',
      'var x = DateTimeOffset.⚡UtcNow.Year;',
      'var x = System.Diagnostics.Stopwatch.⚡StartNew();',
      'var x = Environment.⚡TickCount64;',
      'var x = TimeProvider.⚡System;',
      'var x = DateTime.⚡Parse("12:00", System.Globalization.CultureInfo.InvariantCulture);',
      'var x = DateTime.⚡ParseExact("12:00", "HH:mm", System.Globalization.CultureInfo.InvariantCulture);',
      'var x = System.Text.RegularExpressions.Regex.⚡IsMatch("a", "a", default, TimeSpan.FromSeconds(1));',
      'Func<DateTime> f = () => DateTime.⚡UtcNow;',
      'var x = new[] { 1 }.Select(_ => DateTime.⚡Now).Count();',
      'Help(); ;; static void Help() { _ = DateTimeOffset.⚡Now; }',
      ';; public long At { get; } = DateTime.⚡UtcNow.Ticks;',
      '_ = $"{DateTime.⚡UtcNow:O}";',
      'using var m = new MemoryStream(); using var z = new System.IO.Compression.ZipArchive(m, System.IO.Compression.ZipArchiveMode.Create); z.⚡CreateEntry("a");',
    ],
    [
      'var x = e.Timestamp.UtcDateTime.AddDays(1);',
      'var x = DateTime.ParseExact(e.AggregateId, "yyyy-MM-dd", System.Globalization.CultureInfo.InvariantCulture);',
      'var x = new DateTime(2026, 1, 1); var y = DateTimeOffset.UnixEpoch; var z = DateTime.MaxValue;',
      'var x = nameof(DateTime.UtcNow);',
      'var Now = 1; var x = new { Now };',
      'var x = Clock.UtcNow; ;; static class Clock { public static int UtcNow => 1; }',
    ],
  ),
  error(
    'SF1002',
    [
      'var x = ⚡new Random().Next();',
      'var x = Random.⚡Shared.Next();',
      'var x = Enumerable.Range(0, 9).⚡Shuffle();',
      'var x = System.Security.Cryptography.RandomNumberGenerator.⚡GetInt32(5);',
      'using var x = System.Security.Cryptography.Aes.⚡Create();',
      'var x = Path.⚡GetRandomFileName();',
      ';; sealed class ⚡Dice : Random { }',
      'var x = ⚡new System.Security.Cryptography.HMACSHA256();',
      'var x = System.Security.Cryptography.TripleDES.⚡Create();',
      'var x = System.Security.Cryptography.HMAC.⚡Create("HMACSHA256");',
      'var x = ⚡new System.Security.Cryptography.Rfc2898DeriveBytes("p", 16, 1000, System.Security.Cryptography.HashAlgorithmName.SHA256);',
      'var x = ⚡new Lazy<Random>();',
      'var x = ⚡Make<Random>(); ;; static T Make<T>() where T : new() => new T();',
      'var x = Maker<Random>.⚡Make(); ;; static class Maker<T> where T : new() { public static T Make() => new(); }',
      ';; sealed class ⚡Dice : Maker<Random> { } class Maker<T> where T : new() { public T Made { get; } = new(); }',
      'var x = System.Text.Json.JsonSerializer.⚡Deserialize<Random>("{}");',
      'var x = e.⚡DataAs<Loaded>(); ;; public sealed record Loaded(List<Die> Dice); public sealed class Die { public Random? R { get; set; } }',
      'Random? r = null; LazyInitializer.⚡EnsureInitialized(ref r);',
    ],
    [
      'var x = new System.Security.Cryptography.HMACSHA256(new byte[16]).ComputeHash(new byte[1]); var y = System.Security.Cryptography.HMACSHA256.HashData(new byte[16], new byte[1]);',
      'var x = new Lazy<Random>(() => new Random(5)); var y = new List<Random> { new Random(1) }; var z = new Lazy<List<int>>();',
      'var x = Make<List<int>>(); ;; static T Make<T>() where T : new() => new T();',
      'var x = System.Security.Cryptography.Rfc2898DeriveBytes.Pbkdf2("p", new byte[8], 1000, System.Security.Cryptography.HashAlgorithmName.SHA256, 32);',
      'var x = new Random((int)e.Version).Next();',
      'var x = System.Security.Cryptography.SHA256.HashData("x"u8);',
    ],
  ),
  error(
    'SF1003',
    ['var x = Guid.⚡NewGuid();', 'var x = Guid.⚡CreateVersion7();', 'Func<Guid> f = Guid.⚡NewGuid;'],
    ['var x = Guid.Parse(e.AggregateId); var y = new Guid(new byte[16]); var z = Guid.Empty;'],
  ),
  error(
    'SF1004',
    [
      'var x = File.⚡ReadAllText("/etc/passwd");',
      'var x = ⚡new FileInfo("x");',
      'var x = Directory.⚡GetCurrentDirectory();',
      'using var x = ⚡new StreamReader("x");',
      'using var x = ⚡new FileStream("x", FileMode.Open);',
      'var x = Path.⚡GetTempPath();',
      'using var x = ⚡new System.IO.Pipes.AnonymousPipeServerStream();',
      'Func<string, bool> f = File.⚡Exists;',
      'var x = System.Xml.Linq.XDocument.⚡Load("/etc/x.xml");',
      'var x = System.Xml.Linq.XElement.⚡Load("/etc/x.xml");',
      'using var x = System.Xml.XmlReader.⚡Create("/etc/x.xml");',
      'using var x = System.Xml.XmlWriter.⚡Create("/tmp/x.xml");',
      'var d = new System.Xml.XmlDocument(); d.⚡Load("/etc/x.xml");',
      'var d = new System.Xml.Linq.XDocument(); d.⚡Save("/tmp/x.xml");',
      'var x = ⚡new System.Xml.XPath.XPathDocument("/etc/x.xml");',
      'var x = ⚡new System.Xml.XmlUrlResolver();',
      'var x = System.Security.Cryptography.X509Certificates.X509CertificateLoader.⚡LoadCertificateFromFile("x");',
      'var x = Path.⚡GetRelativePath("a", "b");',
    ],
    [
      'var x = System.Xml.Linq.XDocument.Parse("<a/>"); using var y = new StringReader("<a/>"); var z = System.Xml.Linq.XDocument.Load(y); using var r = System.Xml.XmlReader.Create(new StringReader("<b/>")); var d = new System.Xml.XmlDocument(); d.LoadXml("<c/>");',

      'var x = Path.GetExtension("a.b") + Path.Combine("a", "b");',
      'using var x = new MemoryStream(); using var y = new StreamReader(x); using var z = new StringReader("a");',
      'throw new FileNotFoundException("no");',
    ],
  ),
  error(
    'SF1005',
    [
      'Console.⚡WriteLine("x");',
      'var x = Console.⚡In;',
      'Array.ForEach(new[] { "x" }, Console.⚡WriteLine);',
      'System.Diagnostics.Trace.⚡Fail("x");',
    ],
    ['System.Diagnostics.Debug.WriteLine("x"); System.Diagnostics.Debug.Assert(true);'],
  ),
  error(
    'SF1006',
    [
      'using var x = ⚡new HttpClient();',
      'var x = System.Net.Dns.⚡GetHostName();',
      'using var x = ⚡new System.Net.Sockets.UdpClient();',
    ],
    [
      'var x = System.Net.IPAddress.Parse("127.0.0.1"); var y = System.Net.WebUtility.UrlEncode("a"); var z = System.Net.HttpStatusCode.OK;',
    ],
  ),
  error(
    'SF1007',
    [
      'var x = System.Diagnostics.Process.⚡Start("ls");',
      'var x = System.Diagnostics.Process.⚡GetCurrentProcess();',
      'var x = System.Text.Json.JsonSerializer.⚡Deserialize<System.Diagnostics.Process>("{}");',
      'var x = System.Text.Json.JsonSerializer.Deserialize("{}", ⚡typeof(System.Diagnostics.Process));',
      'var x = e.⚡DataAs<Dictionary<string, System.Diagnostics.Process[]>>();',
      '⚡Fill("{}", new { P = default(System.Diagnostics.Process) }); ;; static T? Fill<T>(string json, T of) => System.Text.Json.JsonSerializer.Deserialize<T>(json);',
      ';; public sealed record Held(System.Diagnostics.Process? P); public sealed class ⚡Other : IReducer<Held> { public Held? Apply(Held? s, Event e) => s; }',
    ],
    [';; sealed class Process { public static int Start() => 1; }'],
  ),
  error(
    'SF1008',
    [
      'var x = Environment.⚡GetEnvironmentVariable("HOME");',
      'Environment.⚡Exit(1);',
      'Environment.⚡FailFast("x");',
      'var x = Environment.⚡MachineName;',
      'var x = AppContext.⚡BaseDirectory;',
      'GC.⚡Collect();',
      'var x = e.Timestamp.⚡ToLocalTime();',
      'var x = TimeZoneInfo.⚡Local;',
      'var x = System.Runtime.InteropServices.RuntimeInformation.⚡OSDescription;',
      'var x = AppDomain.⚡CurrentDomain;',
      'try { } catch (Exception x) { _ = x.⚡StackTrace; }',
      'var x = Math.⚡ReciprocalEstimate(3);',
      'var x = ⚡new System.Diagnostics.StackTrace();',
      'var x = System.Buffers.ArrayPool<byte>.⚡Shared;',
    ],
    [
      'var x = Environment.NewLine; var y = TimeZoneInfo.Utc; var z = e.Timestamp.ToUniversalTime().ToOffset(TimeSpan.FromHours(2));',
    ],
  ),
  error(
    'SF1009',
    [
      '⚡new Thread(() => { }).Start();',
      'Task.⚡Run(() => 1);',
      'Parallel.⚡For(0, 1, _ => { });',
      'Thread.⚡Sleep(1);',
      'ThreadPool.⚡QueueUserWorkItem(_ => { });',
      'using var x = ⚡new Timer(_ => { });',
      'var x = new[] { 1 }.⚡AsParallel();',
      '_ = Task.⚡Delay(1);',
      '_ = System.Security.Cryptography.SHA256.⚡HashDataAsync(new MemoryStream());',
      '_ = Task.CompletedTask.⚡WaitAsync(TimeSpan.FromSeconds(1));',
      'var x = ⚡new Task(() => { });',
      'var x = ⚡new ThreadLocal<int>();',
      'using var x = ⚡new CancellationTokenSource(5);',
      ';; sealed class C { ~⚡C() { } }',
      'Task.Factory.⚡StartNew(() => 1);',
      'var x = ⚡new Progress<int>(_ => { });',
      'Task.CompletedTask.GetAwaiter().⚡OnCompleted(() => { });',
      'var x = ⚡new System.ComponentModel.BackgroundWorker();',
      'using var m = new MemoryStream(); m.⚡BeginRead(new byte[1], 0, 1, null, null);',
      'using var m = new MemoryStream(); m.⚡BeginWrite(new byte[1], 0, 1, null, null);',
      'using var m = new MemoryStream(); _ = m.⚡ReadAsync(new byte[1], 0, 1);',
    ],
    [
      'var n = 0; Interlocked.Increment(ref n); var t = Task.FromResult(1); CancellationToken.None.ThrowIfCancellationRequested();',
      ';; enum Thread { Sleep } static Thread T => Thread.Sleep;',
    ],
  ),
  error(
    'SF1010',
    [
      'Later().GetAwaiter().GetResult(); ;; static async Task<int> Later() { ⚡await Task.CompletedTask; return 1; }',
      'Task.CompletedTask.⚡Wait(30);',
      ';; static async Task Later(IAsyncEnumerable<int> all) { ⚡await foreach (var one in all) { } }',
    ],
    [';; static Task<int> Later() => Task.FromResult(1);', 'var await = 1; _ = await;'],
  ),
  warning(
    'SF1011',
    ['⚡lock (this) { }', 'Monitor.⚡Enter(this);', 'var x = ⚡new Lock();', 'using var x = ⚡new SemaphoreSlim(1);'],
    ['var locks = 1; _ = locks;'],
  ),
  error(
    'SF1012',
    [
      ';; [System.Runtime.InteropServices.DllImport("libc")] static extern int ⚡getpid();',
      'var x = System.Runtime.InteropServices.Marshal.⚡AllocHGlobal(5);',
      'var x = System.Runtime.CompilerServices.Unsafe.⚡As<string>(e);',
      'var x = System.Runtime.InteropServices.GCHandle.⚡Alloc(e);',
      'var x = ⚡new Microsoft.Win32.SafeHandles.SafeWaitHandle(3, true);',
      'var x = 1; System.Runtime.InteropServices.MemoryMarshal.⚡CreateSpan(ref x, 1000)[900] = 1;',
      'var x = System.Runtime.InteropServices.MemoryMarshal.⚡AsMemory("a".AsMemory());',
      'var x = P(); [System.Runtime.InteropServices.DllImport("libc")] static extern int ⚡P();',
      ';; [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Method)] static extern int ⚡Get(List<int> of);',
      ';; [System.Runtime.InteropServices.StructLayout(System.Runtime.InteropServices.LayoutKind.Explicit)] struct Both { [System.Runtime.InteropServices.FieldOffset(0)] public object ⚡One; }',
      'var x = 1; _ = System.Runtime.Intrinsics.Vector128.⚡LoadUnsafe(ref x);',
      'var x = typeof(State).GetMethod("ToString")!.MethodHandle.⚡GetFunctionPointer();',
      'var x = System.Runtime.InteropServices.NativeLibrary.⚡Load("x");',
    ],
    [
      ';; [System.Runtime.InteropServices.StructLayout(System.Runtime.InteropServices.LayoutKind.Explicit)] struct Both { [System.Runtime.InteropServices.FieldOffset(0)] public int One; [System.Runtime.InteropServices.FieldOffset(0)] public uint Two; }',
      'var x = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(new List<int> { 1 }).Length;',
      'Span<int> x = stackalloc int[4]; x[0] = 1;',
      'var x = System.Runtime.InteropServices.MemoryMarshal.AsBytes("a".AsSpan()).Length;',
    ],
  ),
  error(
    'SF1013',
    [
      'var x = System.Reflection.Assembly.⚡Load("x");',
      'var x = Type.⚡GetType("System.Console");',
      'var x = System.Reflection.Assembly.⚡GetExecutingAssembly();',
      'System.Linq.Expressions.Expression<Func<int>> x = ⚡() => 1;',
      ';; static int Run(System.Linq.Expressions.Expression<Func<int>> x) => x.⚡Compile()();',
      'var x = new[] { 1, 2 }.⚡AsQueryable();',
      ';; abstract class ⚡Tree : System.Linq.Expressions.Expression { }',
      'var x = ⚡new System.Runtime.Loader.AssemblyLoadContext("x");',
      'var x = System.Linq.Expressions.Expression.⚡Constant(1);',
      'var x = ⚡new System.Xml.Serialization.XmlSerializer(typeof(int));',
      'var x = ⚡new System.Resources.ResourceManager(typeof(State));',
      'var x = typeof(State).Assembly.⚡GetType("x");',
    ],
    ['var x = typeof(State).Name + e.GetType().FullName;', 'var x = new[] { 1, 2 }.Where(n => n > 1).Sum();'],
  ),
  error(
    'SF1014',
    [
      'var x = typeof(List<int>).GetConstructor([typeof(int)])!.⚡Invoke([1]);',
      'var x = typeof(State).GetField("x", System.Reflection.BindingFlags.NonPublic)!.⚡GetValue(s);',
      'var x = typeof(State).GetMethod("ToString")!.⚡CreateDelegate<Func<string>>(s);',
      'var x = Delegate.⚡CreateDelegate(typeof(Func<string>), s, "ToString");',
      'var x = ((System.Reflection.IReflect)typeof(State)).⚡InvokeMember("x", default, null, null, null, null, null, null);',
      'var x = System.Runtime.CompilerServices.RuntimeHelpers.⚡GetUninitializedObject(typeof(State));',
      'var x = System.ComponentModel.TypeDescriptor.⚡CreateInstance(null, typeof(State), null, null);',
      'var x = ⚡new System.Runtime.Serialization.DataContractSerializer(typeof(State));',
      'var x = Microsoft.VisualBasic.Interaction.⚡CallByName(e, "Version", Microsoft.VisualBasic.CallType.Get);',
      'var x = ⚡new System.ComponentModel.Design.Serialization.InstanceDescriptor(null, null);',
      'var x = typeof(State).GetMethod("ToString")!.⚡Invoke(e, null);',
      'var x = Activator.⚡CreateInstance(typeof(object));',
      'Func<int> f = () => 1; f.⚡DynamicInvoke();',
      'dynamic x = e; _ = ⚡x.Version;',
      'dynamic x = 1; int y = ⚡x;',
      'var x = System.Text.Json.JsonSerializer.⚡Deserialize("{}", e.GetType());',
      'var x = ⚡new System.Text.Json.Serialization.Metadata.DefaultJsonTypeInfoResolver();',
    ],
    ['Func<int> f = () => 1; f.Invoke();', 'var x = typeof(State).GetProperties().Length;'],
  ),
  error(
    'SF1015',
    [
      ';; static int ⚡count;',
      ';; public static string? ⚡Last { get; set; }',
      ';; static int Count { get; } = 1; static int ⚡other;',
      ';; [ThreadStatic] static int ⚡mine;',
      ';; static event Action? ⚡Changed;',
      ';; sealed class Memory { internal static Dictionary<string, int> ⚡Seen = []; }',
      ';; public static int ⚡Field { get; private set; }',
      ';; static int ⚡Half { get => field; set => field = value; }',
    ],
    [
      ';; const int Max = 1; static readonly int Min = 0; static int Zero { get; } = 0; static int One => 1; int unused = 1; int U => unused;',
      ';; static readonly Dictionary<string, int> Weights = new() { ["a"] = 1 }; static readonly string[] Names = ["a", "b"];',
      'static int Local(int x) => x; _ = Local(1);',
    ],
  ),
  error(
    'SF1016',
    [
      'Seen.⚡Add(e.AggregateId, 1); ;; static readonly Dictionary<string, int> Seen = [];',
      '⚡Seen["x"] = 1; ;; static readonly Dictionary<string, int> Seen = [];',
      '⚡Counts[0]++; ;; static readonly int[] Counts = new int[4];',
      'var all = All; all.⚡Add(1); ;; static readonly List<int> All = [];',
      '⚡Held.N += 1; ;; static readonly Box Held = new(); sealed class Box { public int N; }',
      'Held.⚡More(); ;; static readonly Box Held = new(); sealed class Box { int n; public int N => n; public void More() => Inner(); void Inner() => n++; }',
      'var x = Dice.⚡Next(); ;; static readonly Random Dice = new(5);',
      'Array.⚡Sort(Names); ;; static readonly string[] Names = ["b", "a"];',
      'Text.⚡Append("x"); ;; static System.Text.StringBuilder Text { get; } = new();',
      '⚡System.Text.RegularExpressions.Regex.CacheSize = 5;',
      'var x = string.⚡Intern("a");',
      'Interlocked.Increment(ref ⚡Counts[0]); ;; static readonly int[] Counts = new int[4];',
      'Store.All?.⚡Clear(); ;; static class Store { public static readonly List<int>? All = []; }',
      'Seen.⚡GetOrAdd("x", 1); ;; static readonly System.Collections.Concurrent.ConcurrentDictionary<string, int> Seen = new();',
      'ref var x = ref Counts[0]; ⚡x++; ;; static readonly int[] Counts = new int[4];',
      '⚡Counts.AsSpan()[0] = 1; ;; static readonly int[] Counts = new int[4];',
      'Span<int> x = Counts; ⚡x[0] = 1; ;; static readonly int[] Counts = new int[4];',
      'foreach (ref var x in Counts.AsSpan()) ⚡x = 1; ;; static readonly int[] Counts = new int[4];',
      'At()++; ;; static readonly int[] Counts = new int[4]; static ref int At() => ref ⚡Counts[0];',
      '⚡System.Runtime.InteropServices.CollectionsMarshal.AsSpan(All)[0] = 1; ;; static readonly List<int> All = [1];',
    ],
    [
      'var own = new int[4]; ref var x = ref own[0]; x++; Span<int> y = own; y[0] = 2; foreach (ref var z in own.AsSpan()) z++; ReadOnlySpan<int> r = Counts; var sum = r[0] + Counts.AsSpan().Length; ;; static readonly int[] Counts = new int[4];',

      'var x = Weights["a"] + (Names.Contains("b") ? 1 : 0) + Array.IndexOf(Names, "a"); foreach (var name in Names) x += name.Length; ;; static readonly Dictionary<string, int> Weights = new() { ["a"] = 1 }; static readonly string[] Names = ["a", "b"];',
      'var copy = Names.ToList(); copy.Add("x"); copy.Sort(); ;; static readonly string[] Names = ["b"];',
      ';; static readonly List<int> All = []; static ThingReducer() { All.Add(1); }',
      'var x = Options.PropertyNameCaseInsensitive; var y = System.Text.Json.JsonSerializer.Serialize(1, Options); ;; static readonly System.Text.Json.JsonSerializerOptions Options = new() { WriteIndented = true };',
      'var own = new List<int>(); own.Add(1); own[0]++; ;; static readonly Box Held = new(1); sealed record Box(int N); static Box More => Held with { N = Held.N + 1 };',
      'var x = string.Empty.Insert(0, "a"); var y = Set.Add(1); ;; static readonly System.Collections.Immutable.ImmutableList<int> Set = [];',
    ],
  ),
  error(
    'SF1017',
    [
      '⚡count++; ;; int count;',
      '⚡last = e; ;; Event? last;',
      '⚡Count += 1; ;; int Count { get; set; }',
      'seen.⚡Add(e.AggregateId); ;; readonly HashSet<string> seen = [];',
      '⚡seen["x"] = 1; ;; readonly Dictionary<string, int> seen = [];',
      'Note(); ;; int count; void Note() => ⚡count = 1;',
      'memory.⚡Put(1); ;; readonly Memory memory = new(); sealed class Memory { int n; public void Put(int x) => n = x; public int N => n; }',
      '(⚡a, var b) = (1, 2); ;; int a; int A => a;',
      'var x = ⚡lazy ??= "x"; ;; string? lazy;',
      'var all = seen; all.⚡Clear(); ;; readonly List<int> seen = [];',
    ],
    [
      'var x = weights["a"]; ;; readonly Dictionary<string, int> weights = []; public ThingReducer() { weights.Add("a", 1); weights["b"] = 2; }',
      's ??= new State(""); s.Notes.Add("x"); s.Count++; s.Grow();',
      'var local = new State(""); local.Count = 1; var changed = local with { Text = "y" };',
      ';; sealed class Own : IReducer<Own> { public int N { get; set; } public Own? Apply(Own? own, Event e) { own ??= new(); own.Add(); own.N++; return own; } void Add() => N++; }',
      'var b = new Builder(); b.Add(1); ;; sealed class Builder { readonly List<int> all = []; int n; public void Add(int x) { all.Add(x); n++; } public int N => n; }',
    ],
  ),
  error(
    'SF1018',
    [
      'var x = e.AggregateId.⚡GetHashCode();',
      'var x = HashCode.⚡Combine(1, 2);',
      'var x = e.⚡GetHashCode();',
      'var x = System.Runtime.CompilerServices.RuntimeHelpers.⚡GetHashCode(e);',
      'var x = StringComparer.Ordinal.⚡GetHashCode("a");',
      'var x = new object().⚡GetHashCode();',
      'Func<string, int> f = StringComparer.Ordinal.⚡GetHashCode;',
      ';; sealed class Id { public int Seen; public override int GetHashCode() => Seen = "a".⚡GetHashCode(); public override bool Equals(object? o) => false; }',
    ],
    [
      'var x = e.Version.GetHashCode() + 5.GetHashCode() + Guid.Empty.GetHashCode() + DayOfWeek.Friday.GetHashCode();',
      ';; sealed class Id { public string Text = ""; public override int GetHashCode() => HashCode.Combine(Text, Text.GetHashCode()); public override bool Equals(object? o) => o is Id i && i.Text == Text; }',
      'var x = new Dictionary<string, int>(StringComparer.Ordinal); x["a"] = 1;',
      ';; sealed record Pair(string A, string B);',
    ],
  ),
  warning(
    'SF1019',
    [
      'var x = double.⚡Parse("1.5");',
      'var x = decimal.⚡TryParse("1.5", out _);',
      'var x = DateTime.⚡Parse("2026-01-01");',
      'var x = DateTime.⚡Parse(e.AggregateId);',
      'var x = DateTime.⚡Parse(e.AggregateId, System.Globalization.CultureInfo.InvariantCulture);',
      'var x = 1.5.⚡ToString();',
      'var x = e.Timestamp.⚡ToString();',
      'var x = Convert.⚡ToDouble("1.5");',
      'var x = $"{⚡e.Timestamp}";',
      'var x = System.Globalization.CultureInfo.⚡CurrentCulture;',
      'var n = 1.5m; var x = $"{⚡n}";',
    ],
    [
      'var c = System.Globalization.CultureInfo.InvariantCulture; var x = double.Parse("1.5", c) + 1.5.ToString(c) + DateTime.Parse("2026-01-01", c);',
      'var x = int.Parse("1") + e.Version.ToString() + $"{e.Version} {e.Timestamp:O}" + e.Timestamp.ToString("yyyy-MM-dd");',
      'throw new InvalidOperationException($"{1.5m} is too much");',
      'var x = FormattableString.Invariant($"{1.5}") + string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{1.5}");',
    ],
  ),
  warning(
    'SF1020',
    [
      'var x = "a".⚡ToUpper();',
      'var x = string.⚡Compare("a", "b");',
      'var x = "a".⚡CompareTo("b");',
      'var x = "a".⚡StartsWith("b");',
      'var x = "a".⚡IndexOf("b");',
    ],
    [
      'var x = "a".ToUpperInvariant() + string.CompareOrdinal("a", "b") + "a".StartsWith("b", StringComparison.Ordinal) + "a".StartsWith(\'b\') + "a".IndexOf(\'b\') + "a".Contains("b") + ("a" == "b") + string.Compare("a", "b", StringComparison.Ordinal);',
    ],
  ),
  warning(
    'SF1021',
    [
      'var d = new Dictionary<string, int>(); d.⚡Remove("a");',
      'var h = new HashSet<int>(); h.⚡ExceptWith([1]);',
      'foreach (var x in ⚡Table) { } ;; static readonly System.Collections.Immutable.ImmutableDictionary<int, int> Table = System.Collections.Immutable.ImmutableDictionary<int, int>.Empty;',
    ],
    [
      'var d = new SortedDictionary<string, int>(); d.Remove("a"); var l = new List<int>(); l.Remove(1);',
      'var d = new Dictionary<string, int> { ["a"] = 1 }; foreach (var (k, v) in d) { } var h = new HashSet<int>(); foreach (var x in h.Order()) { }',
    ],
  ),
  error(
    'SF1022',
    [';; [System.Runtime.CompilerServices.ModuleInitializer] internal static void ⚡Begin() { }'],
    [';; static readonly int Ready = 1; int Use => Ready;'],
  ),
  error(
    'SF1023',
    [
      'var x = ⚡new System.Data.DataTable();',
      'var x = ⚡new System.ComponentModel.DataAnnotations.DisplayAttribute();',
      'var x = System.ComponentModel.DataAnnotations.Validator.⚡TryValidateObject(e, null!, null);',
      'var x = ⚡new System.Security.Cryptography.X509Certificates.X500DistinguishedName("CN=x");',
      'var x = System.Runtime.CompilerServices.RuntimeFeature.⚡IsDynamicCodeCompiled;',
      'var x = System.Text.Json.JsonSerializer.⚡Deserialize<System.Data.DataTable>("{}");',
      'var x = ⚡new List<System.Data.DataTable>();',
      ';; sealed class ⚡Table : System.Data.DataTable { }',
      ';; abstract class ⚡Lie : Type { }',
      ';; abstract class ⚡Slow : Stream { }',
      'System.Security.Cryptography.X509Certificates.X509Certificate2Collection x = ⚡[];',
      'var x = System.Formats.Asn1.AsnDecoder.⚡ReadBoolean(default, default, out _);',
    ],
    [
      'var c = System.Drawing.Color.FromArgb(1, 2, 3); var h = System.Web.HttpUtility.HtmlEncode("a"); var u = new Uri("https://a.b/c?d=e").Host; var v = new Version(1, 2);',
      'var n = System.Numerics.BigInteger.Pow(2, 100); var v = new System.Numerics.Vector3(1, 2, 3).Length(); var b = System.Numerics.BitOperations.PopCount(5u);',
      'var r = System.Text.RegularExpressions.Regex.Match("a1", "[0-9]").Value; var j = System.Text.Json.Nodes.JsonNode.Parse("{}")!.AsObject().Count; var s2 = new System.Text.StringBuilder("a").Append(1).ToString();',
      'var q = new PriorityQueue<string, int>(); q.Enqueue("a", 1); var i = System.Collections.Immutable.ImmutableSortedDictionary<string, int>.Empty.Add("a", 1); var l = new LinkedList<int>([1]);',
      'var d = DateOnly.FromDateTime(e.Timestamp.UtcDateTime).AddDays(1).DayOfWeek; var w = System.Globalization.ISOWeek.GetWeekOfYear(e.Timestamp.UtcDateTime); var t = TimeSpan.FromHours(1) * 2;',
      'var x = e.Data.TryGetProperty("a", out var p) && p.ValueKind == System.Text.Json.JsonValueKind.Number && p.TryGetDecimal(out _); var y = System.Text.Json.JsonSerializer.Serialize(new { A = 1, B = new[] { 1.5m } });',
      'using var m = new MemoryStream(); using (var z = new System.IO.Compression.GZipStream(m, System.IO.Compression.CompressionLevel.Fastest, true)) z.Write("a"u8); var b = Convert.ToBase64String(m.ToArray()) + Convert.ToHexString(System.Security.Cryptography.MD5.HashData("a"u8));',
      'var (a, b) = (1, "x"); var t = new Tuple<int, string>(a, b); var g = new[] { 3, 1 }.Order().Select((n, i) => (n, i)).GroupBy(p => p.n % 2).ToDictionary(p => p.Key, p => p.Sum(q => q.i)); var z = $"{a,5:000}" + string.Join(",", g.Keys.Order());',
      'Span<char> c = stackalloc char[4]; 12.TryFormat(c, out var n); var i = System.Buffers.Binary.BinaryPrimitives.ReadInt32LittleEndian(new byte[4]); var sv = System.Buffers.SearchValues.Create("ab"); var k = "xa".AsSpan().IndexOfAny(sv);',
      ';; [System.ComponentModel.Description("x")] public sealed record Money([property: System.ComponentModel.DataAnnotations.Range(0, 5)] decimal Amount, [property: System.Text.Json.Serialization.JsonConverter(typeof(System.Text.Json.Serialization.JsonStringEnumConverter))] DayOfWeek Day);',
      ';; public sealed class Upper : System.Text.Json.Serialization.JsonConverter<string> { public override string? Read(ref System.Text.Json.Utf8JsonReader r, Type t, System.Text.Json.JsonSerializerOptions o) => r.GetString(); public override void Write(System.Text.Json.Utf8JsonWriter w, string v, System.Text.Json.JsonSerializerOptions o) => w.WriteStringValue(v.ToUpperInvariant()); }',
      ';; public sealed class Bad(string why) : Exception(why); public abstract record Shape; public sealed record Circle(double R) : Shape; static double Area(Shape s) => s switch { Circle c => Math.PI * c.R * c.R, _ => throw new System.Diagnostics.UnreachableException() };',
      ';; public sealed record Tree(string Name, List<Tree> Inner, Dictionary<string, Tree?> By, Tree? Up, Guid Id, DateTimeOffset At, TimeSpan? Took, Uri? Link, Version? V, int[][] Grid, (int A, string B) Pair, System.Text.Json.JsonElement Raw, HashSet<DayOfWeek> Days); static Tree? Read(Event e) => e.DataAs<Tree>();',
      'throw new System.ComponentModel.DataAnnotations.ValidationException("no");',
      'var names = typeof(State).GetProperties().Select(p => p.Name + p.PropertyType.Name); var z = Enum.GetValues<DayOfWeek>().Length + Enum.Parse<DayOfWeek>("Friday").GetHashCode();',
      'using var all = new List<int> { 1 }.GetEnumerator(); while (all.MoveNext()) { } IEnumerable<int> Count() { yield return 1; } var x = Count().Chunk(2).SelectMany(c => c).Aggregate(0, (a, b) => a + b);',
    ],
  ),
  error(
    'SF1024',
    [
      'foreach (var x in ⚡Table) { } ;; static readonly System.Collections.Immutable.ImmutableDictionary<string, int> Table = System.Collections.Immutable.ImmutableDictionary<string, int>.Empty;',
      'var x = string.Join(",", new Tags([]).⚡All); ;; sealed record Tags(System.Collections.Immutable.ImmutableHashSet<string> All);',
      'var x = ⚡new System.Collections.Concurrent.ConcurrentDictionary<string, int>().OrderByDescending(p => p.Value).First();',
      'var x = new System.Collections.Hashtable().⚡Keys;',
    ],
    [
      'System.Collections.Immutable.ImmutableHashSet<string> set = ["a"]; var x = string.Join(",", set.Order(StringComparer.Ordinal)) + set.Add("b").Count + set.Contains("a");',
    ],
  ),
];

const HEAD = 7;
/** A file with a reducer of its own namespace. */
function fileOf(snippet: string, index: number): string {
  const [body = '', members = ''] = snippet.split(';;').map((part) => part.trim());
  return `namespace N${index};
public sealed record State(string Text) { public int Count { get; set; } public List<string> Notes { get; init; } = []; public void Grow() => Count++; }
[AggregateType("t${index}")]
public sealed class ThingReducer : IReducer<State>
{
    public State? Apply(State? s, Event e) {
        ${body}
${/\bthrow new\b[^;]*;$/.test(body) ? '' : '        return s;'}
    }
    ${members}
}
`;
}

const named = (name: string, texts: readonly string[]): Record<string, string> =>
  Object.fromEntries(texts.map((text, i) => [`${name}-${i}.cs`, text]));

interface Place {
  readonly code: string;
  readonly line: number | null;
  readonly column: number | null;
}
const placeOf = ({ code, line, column }: Diagnostic): Place => ({ code, line, column });

describe('determinism', () => {
  const hosts: Partial<Record<DeterminismChecks, Fixture>> = {};
  const host = (checks: DeterminismChecks): Fixture['host'] =>
    (hosts[checks] ??= openHost({ determinismChecks: checks })).host;
  after(() => Promise.all(Object.values(hosts).map((fixture) => fixture.close())));
  const compile = (
    checks: DeterminismChecks,
    files: Readonly<Record<string, string>>,
    kind: 'reducer' | 'projection' = 'reducer',
  ): Promise<CompileResult> =>
    host(checks).compile({
      kind,
      sources: () => PackedSources.pack(Object.entries(files).map(([path, text]) => ({ path, text }))),
    });

  for (const { rule, severity, refused, fine } of CASES) {
    it(`${rule}: ${refused[0]?.replace('⚡', '').split(';;')[0]?.trim() || refused[0]?.replace('⚡', '')}`, async () => {
      const marked = refused.map(fileOf);
      const expected = marked.map((text) => ({ code: rule, ...placeOfMark(text) }));
      const result = await compile('error', {
        ...named(
          'refused',
          marked.map((text) => text.replace('⚡', '')),
        ),
        ...named(
          'fine',
          fine.map((text, i) => fileOf(text, refused.length + i)),
        ),
      });
      const told = (file: string): Place[] =>
        result.diagnostics.filter((one) => one.file === file && one.code.startsWith('SF')).map(placeOf);
      assert.equal(
        result.diagnostics.find(({ code, severity: how }) => how === 'error' && code.startsWith('CS')),
        undefined,
        'the snippets are C#',
      );
      refused.forEach((text, i) => assert.deepEqual(told(`refused-${i}.cs`), [expected[i]], text));
      fine.forEach((text, i) => assert.deepEqual(told(`fine-${i}.cs`), [], text));
      assert.equal(result.ok, severity === 'warning');
      for (const one of result.diagnostics.filter(({ code }) => code === rule)) {
        assert.equal(one.severity, severity);
        assert.match(
          one.message,
          new RegExp(`^'.+' .+\\. .+\\. See docs/reference/determinism\\.md#${rule.toLowerCase()}\\.$`),
        );
      }
    });
  }

  it('every rule has its section in the reference, with the severity that it has', () => {
    const text = readFileSync(join(projectRoot, 'docs', 'reference', 'determinism.md'), 'utf8');
    const sections = [...text.matchAll(/^### (SF1\d{3})$\n+(Error|Warning)\./gm)].map(
      ([, rule, severity]) => `${rule} ${severity?.toLowerCase()}`,
    );
    assert.deepEqual(
      sections,
      CASES.map(({ rule, severity }) => `${rule} ${severity}`),
    );
  });

  it('the list of what a fold may use is in the reference as it is in the code', () => {
    const code = readFileSync(
      join(projectRoot, 'dotnet', 'src', 'Statefold.Compiler', 'Determinism', 'Allowed.cs'),
      'utf8',
    );
    const between = (from: string, to: string): string => code.slice(code.indexOf(from), code.indexOf(to));
    const names = (text: string): string[] => [...text.matchAll(/"([\w.]+)"/g)].map(([, name]) => name as string);
    const spaces = names(between('Namespaces =', '/// <summary>Of those namespaces'));
    const excepted = names(between('Excepted =', '/// <summary>Of namespaces that have'));
    const types = between('Types = new()', '/// <summary>Enumerations');
    const listed = [...types.matchAll(/\["([\w.]+)"\] =\s*\[([^\]]+)\]/g)].map(
      ([, space, all]) => [space, names(all ?? '')] as const,
    );
    assert.ok(spaces.length > 20 && excepted.length > 10 && listed.length > 10);
    const quoted = (of: readonly string[]): string => of.map((one) => `\`${one}\``).join(', ');
    const bases = [...between('Bases = new()', 'MayBeBase').matchAll(/\["([\w.]+)"\] =\s*\[([^\]]+)\]/g)];
    assert.ok(bases.length > 5);
    const expected = [
      ...spaces.map((space) => {
        const less = excepted.filter((one) => one.slice(0, one.lastIndexOf('.')) === space);
        const but = less.length === 0 ? '' : ` but ${quoted(less.map((one) => one.slice(space.length + 1)))}`;
        return `| \`${space}\` | all${but} |`;
      }),
      ...listed.map(([space, all]) => `| \`${space}\` | ${quoted(all)} |`),
    ];
    const page = readFileSync(join(projectRoot, 'docs', 'reference', 'determinism.md'), 'utf8');
    assert.deepEqual(
      page.split('\n').filter((line) => line.startsWith('| `System')),
      expected,
    );
    assert.deepEqual(
      page.split('\n').filter((line) => line.startsWith('| of `System')),
      bases.map(([, space, all]) => `| of \`${space}\` | ${quoted(names(all ?? ''))} |`),
    );
  });

  it('is told as a compiler does, also of a helper class in a file of its own', async () => {
    const result = await compile('error', {
      'src/Thing.cs': fileOf('_ = Helper.Stamp();', 0),
      'src/Helper.cs':
        'namespace N0;\npublic static class Helper\n{\n    public static long Stamp() => DateTimeOffset.UtcNow.Ticks;\n}\n',
    });
    assert.ok(!result.ok);
    assert.equal(
      result.compilationError,
      "src/Helper.cs(4,50): error SF1001: 'DateTimeOffset.UtcNow' reads the clock, which is another when the events are folded again. Use the Timestamp of the event. See docs/reference/determinism.md#sf1001.",
    );
  });

  it('a pragma hides a warning, and no error', async () => {
    const result = await compile('error', {
      'a.cs': `#pragma warning disable\n#pragma warning disable SF1001, SF1020\n${fileOf('_ = DateTime.UtcNow; _ = "a".ToUpper();', 0)}`,
    });
    assert.deepEqual(
      result.diagnostics.map(({ severity, code, line }) => [severity, code, line]),
      [['error', 'SF1001', HEAD + 2]],
    );
    const silenced = await compile('error', {
      'a.cs': `#pragma warning disable SF1020\n${fileOf('_ = "a".ToUpper();', 0)}`,
    });
    assert.deepEqual([silenced.ok, silenced.diagnostics], [true, []]);
  });

  it('can be told only, or not looked for', async () => {
    const file = { 'a.cs': fileOf('_ = DateTime.UtcNow;', 0) };
    const told = await compile('warn', file);
    assert.deepEqual(
      [told.ok, told.diagnostics.map(({ severity, code }) => `${severity} ${code}`)],
      [true, ['warning SF1001']],
    );
    const ignored = await compile('off', file);
    assert.deepEqual([ignored.ok, ignored.diagnostics], [true, []]);
  });

  it('ordinary code passes without a word: what the tests upload', async () => {
    const reducers = await compile('error', { 'a.cs': tally('a'), 'b.cs': goldenReducer });
    assert.deepEqual([reducers.ok, reducers.diagnostics], [true, []]);
    const projections = await compile(
      'error',
      { 'a.cs': totals(), 'b.cs': tags, 'c.cs': goldenProjection },
      'projection',
    );
    assert.deepEqual([projections.ok, projections.diagnostics], [true, []]);
  });

  it('ordinary code passes without a word: the samples, and what a new project begins with', async () => {
    const sourcesOf = (folder: string, names: readonly string[]): Record<string, string> =>
      Object.fromEntries(names.map((name) => [name, readFileSync(join(projectRoot, folder, name), 'utf8')]));
    for (const [kind, folder, names] of [
      ['reducer', 'samples/bank', ['AccountReducer.cs', 'Events.cs']],
      ['projection', 'samples/bank', ['Transfers.cs', 'Events.cs']],
      ['reducer', 'samples/flights', ['RouteReducer.cs', 'Flight.cs']],
      ['projection', 'samples/flights', ['AirportDelays.cs', 'Flight.cs']],
      ['reducer', 'templates/project', ['OrderReducer.cs', 'Events.cs']],
      ['projection', 'templates/project', ['Customers.cs', 'Events.cs']],
    ] as const) {
      const result = await compile('error', sourcesOf(folder, names), kind);
      assert.deepEqual([result.ok, result.diagnostics], [true, []], `${folder}: ${names.join(', ')}`);
    }
  });

  before(() => host('error'));
});

/** 1-based, of the one mark. */
function placeOfMark(text: string): { line: number; column: number } {
  const lines = text.split('\n');
  const line = lines.findIndex((one) => one.includes('⚡'));
  assert.ok(line >= 0 && lines.join('').indexOf('⚡') === lines.join('').lastIndexOf('⚡'), text);
  return { line: line + 1, column: (lines[line]?.indexOf('⚡') ?? 0) + 1 };
}
