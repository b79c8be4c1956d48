namespace Statefold.Tests.Determinism;

/// <summary>Ways past the checks of replay that were found once: each is refused, with its class, and what looks like it is not.</summary>
public sealed class RefusedTests
{
    public static TheoryData<string, string> Refused => new()
    {
        // Trees of code.
        { "SF1013", "System.Linq.Expressions.Expression<Func<int>> x = () => 1;" },
        { "SF1013", "Take(() => 1); ;; static void Take(System.Linq.Expressions.Expression<Func<int>> x) { }" },
        { "SF1013", "_ = new[] { 1 }.AsQueryable();" },
        { "SF1013", "_ = System.Linq.Queryable.AsQueryable(new[] { 1 });" },
        { "SF1013", "Func<IEnumerable<int>, IQueryable<int>> f = Queryable.AsQueryable;" },
        { "SF1013", "IQueryProvider? p = null; _ = p!.Execute<int>(null!);" },
        { "SF1013", "_ = new EnumerableQuery<int>(new[] { 1 });" },
        { "SF1013", ";; public sealed class Liar : System.Linq.Expressions.Expression { }" },
        { "SF1013", ";; public abstract class Visitor : System.Linq.Expressions.ExpressionVisitor { }" },
        { "SF1013", ";; public interface IOwn : System.Linq.Expressions.IDynamicExpression { }" },
        { "SF1013", ";; public interface IOwn : IQueryable<int> { }" },
        { "SF1013", "IQueryable<int>? q = null; foreach (var x in q!) { }" },
        { "SF1013", "IQueryable<int>? q = null; int[] all = [.. q!];" },
        { "SF1013", "_ = new List<System.Linq.Expressions.Expression>();" },
        { "SF1013", "var q = from x in Own() select x; ;; static Tree Own() => new(); public sealed class Tree { public int Select(System.Linq.Expressions.Expression<Func<int, int>> f) => 1; }" },

        // Types of the framework that lie about themselves.
        { "SF1023", ";; public abstract class Lie : Type { }" },
        { "SF1023", ";; public sealed class Lie : System.Reflection.Binder { }".Replace("sealed", "abstract", StringComparison.Ordinal) },
        { "SF1023", ";; public abstract class Lie : System.Reflection.MethodInfo { }" },
        { "SF1023", ";; public abstract class Slow : Stream { }" },
        { "SF1023", ";; public abstract class Slow : MemoryStream { }" },
        { "SF1023", ";; public abstract class Slow : TextReader { }" },
        { "SF1023", ";; public abstract class Lie : System.Globalization.CultureInfo { protected Lie() : base(\"\") { } }" },
        { "SF1023", ";; public abstract class Own : System.Xml.XmlReader { }" },
        { "SF1023", ";; public abstract class Own : System.Security.Cryptography.HashAlgorithm { }" },
        { "SF1023", ";; public abstract class Own : System.Text.Encoding { }" },
        { "SF1023", "_ = new System.Buffers.ReadOnlySequence<char>(\"a\".AsMemory());" },

        // Other threads.
        { "SF1009", "_ = System.Text.Json.JsonSerializer.DeserializeAsync<object>(new MemoryStream());" },
        { "SF1009", "_ = System.Text.Json.JsonSerializer.DeserializeAsyncEnumerable<int>(new MemoryStream());" },
        { "SF1009", "_ = System.Security.Cryptography.SHA256.HashDataAsync(new MemoryStream());" },
        { "SF1009", "_ = System.Security.Cryptography.HMACSHA256.HashDataAsync(new byte[1], new MemoryStream());" },
        { "SF1009", "_ = System.Xml.Linq.XDocument.LoadAsync(new MemoryStream(), default, default);" },
        { "SF1009", "_ = System.Xml.XmlReader.Create(new MemoryStream()).ReadAsync();" },
        { "SF1009", "_ = System.Text.Json.JsonDocument.ParseAsync(new MemoryStream());" },
        { "SF1009", "_ = new StringReader(\"a\").ReadToEndAsync();" },
        { "SF1009", "Func<Stream, CancellationToken, ValueTask<byte[]>> f = System.Security.Cryptography.SHA256.HashDataAsync;" },
        { "SF1009", "_ = new Task(() => { });" },
        { "SF1009", "Task? t = null; t!.RunSynchronously();" },
        { "SF1009", "_ = Task.WhenAll(Task.CompletedTask);" },
        { "SF1009", "_ = AsyncEnumerable.Range(0, 1);" },
        { "SF1009", "_ = new TaskCompletionSource().Task.WaitAsync(TimeSpan.FromSeconds(1));" },
        { "SF1009", "_ = Task.CompletedTask.Id;" },
        { "SF1010", "new TaskCompletionSource().Task.Wait(30);" },
        { "SF1010", "Monitor.Wait(e, 20);" },
        { "SF1009", "System.Collections.Concurrent.BlockingCollection<int> b = [1, 2];" },

        // JSON by a type of run time.
        { "SF1014", "_ = System.Text.Json.JsonSerializer.Deserialize(\"{}\", e.GetType());" },
        { "SF1014", "_ = System.Text.Json.JsonSerializer.Serialize(e, e.GetType());" },
        { "SF1014", "Func<string, Type, System.Text.Json.JsonSerializerOptions?, object?> f = System.Text.Json.JsonSerializer.Deserialize;" },
        { "SF1014", "_ = new System.Text.Json.JsonSerializerOptions().GetTypeInfo(typeof(int));" },
        { "SF1014", "_ = new System.Text.Json.JsonSerializerOptions().GetConverter(e.GetType());" },
        { "SF1014", "_ = new System.Text.Json.JsonSerializerOptions { TypeInfoResolver = null };" },
        { "SF1014", "_ = new System.Text.Json.Serialization.Metadata.DefaultJsonTypeInfoResolver();" },
        { "SF1014", "System.Text.Json.Serialization.Metadata.JsonPropertyInfo? p = null; _ = p!.Get!(e);" },
        { "SF1014", ";; public abstract class Context : System.Text.Json.Serialization.JsonSerializerContext { protected Context() : base(null) { } }" },
        { "SF1007", "_ = e.DataAs<Shape>(); ;; [System.Text.Json.Serialization.JsonDerivedType(typeof(Run), \"r\")] public class Shape { } public sealed class Run : Shape { public System.Diagnostics.Process? P { get; set; } }" },
        { "SF1007", "_ = e.DataAs<Shape>(); ;; public sealed class Shape { [System.Text.Json.Serialization.JsonInclude] private System.Diagnostics.Process? P { get; set; } }" },
        { "SF1007", "_ = e.DataAs<Shape>(); ;; public sealed class Shape { [System.Text.Json.Serialization.JsonConstructor] private Shape(System.Diagnostics.Process p) { } }" },

        // Today's date.
        { "SF1001", "_ = DateTime.TryParse(\"12:00\", out _);" },
        { "SF1001", "_ = DateTimeOffset.Parse(\"12:00\", System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = DateOnly.Parse(\"01-02\", System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = DateTime.ParseExact(\"01-02\", \"MM-dd\", System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = DateTime.ParseExact(\"01-02\", \"MM-dd'y'\", System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = DateTime.ParseExact(\"01-02\", [\"yyyy\", \"t\"], System.Globalization.CultureInfo.InvariantCulture, default);" },
        { "SF1001", "_ = Convert.ToDateTime(\"12:00\", System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = ((IConvertible)\"12:00\").ToDateTime(null);" },
        { "SF1001", "_ = Convert.ChangeType(\"12:00\", typeof(DateTime), System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = Convert.ChangeType(\"12:00\", e.GetType(), System.Globalization.CultureInfo.InvariantCulture);" },
        { "SF1001", "_ = System.Xml.XmlConvert.ToDateTimeOffset(\"12:00:00\");" },
        { "SF1001", "_ = (DateTime)new System.Xml.Linq.XElement(\"a\", \"12:00\");" },
        { "SF1001", "_ = Read<DateTime>(\"12:00\"); ;; static T Read<T>(string text) where T : IParsable<T> => T.Parse(text, null);" },
        { "SF1008", "_ = DateTime.ParseExact(\"2026\", \"yyyy\", System.Globalization.CultureInfo.InvariantCulture, System.Globalization.DateTimeStyles.AssumeLocal);" },
        { "SF1001", "_ = System.Text.RegularExpressions.Regex.IsMatch(\"a\", \"a\", default, TimeSpan.FromMilliseconds(5));" },

        // Randomness, hash codes, the machine.
        { "SF1002", "_ = Enumerable.Range(0, 9).Shuffle();" },
        { "SF1002", "Func<IEnumerable<int>, IEnumerable<int>> f = Enumerable.Shuffle;" },
        { "SF1018", "Func<string, int> f = StringComparer.Ordinal.GetHashCode;" },
        { "SF1018", "Func<int> f = e.AggregateId.GetHashCode;" },
        { "SF1018", "_ = string.GetHashCode(\"a\", StringComparison.Ordinal);" },
        { "SF1018", ";; static int GetHashCode(string text, int of) => text.GetHashCode() % of;" },
        { "SF1018", ";; public sealed class Key { public int Seen; public override int GetHashCode() => Seen = \"a\".GetHashCode(); public override bool Equals(object? o) => false; }" },
        { "SF1018", ";; public sealed class Key { public List<int> Seen = []; public override int GetHashCode() { var h = \"a\".GetHashCode(); Seen.Add(h); return h; } public override bool Equals(object? o) => false; }" },
        { "SF1018", ";; public sealed class Key { public override int GetHashCode() => throw new Exception($\"{\"a\".GetHashCode()}\"); public override bool Equals(object? o) => false; }" },
        { "SF1018", ";; public sealed class Key { static int Note(int h) => h; public override int GetHashCode() => Note(HashCode.Combine(\"a\")); public override bool Equals(object? o) => false; }" },
        { "SF1008", "try { } catch (Exception x) { _ = x.StackTrace; }" },
        { "SF1008", "try { } catch (InvalidOperationException x) { _ = x.ToString(); }" },
        { "SF1008", "_ = new System.ComponentModel.Win32Exception();" },
        { "SF1008", "_ = new System.Net.Sockets.SocketException();" },
        { "SF1008", "_ = Math.ReciprocalEstimate(3);" },
        { "SF1008", "_ = System.Numerics.Vector.IsHardwareAccelerated;" },
        { "SF1008", "_ = System.Numerics.Vector<int>.Count;" },
        { "SF1008", "var h = new System.Runtime.CompilerServices.DefaultInterpolatedStringHandler(1, 1); _ = h.Text.Length;" },

        // State in the framework's own statics.
        { "SF1016", "System.Text.RegularExpressions.Regex.CacheSize++;" },
        { "SF1016", "System.Text.RegularExpressions.Regex.CacheSize = 5;" },
        { "SF1016", "(System.Text.RegularExpressions.Regex.CacheSize, _) = (5, 6);" },
        { "SF1016", "_ = System.Diagnostics.Debug.IndentLevel;" },
        { "SF1016", "System.Diagnostics.Debug.Indent();" },
        { "SF1016", "System.Globalization.CultureInfo.CurrentCulture = System.Globalization.CultureInfo.InvariantCulture;" },
        { "SF1016", "_ = string.Intern(\"a\");" },
        { "SF1016", "_ = string.IsInterned(\"a\");" },
        { "SF1016", "_ = Monitor.IsEntered(e);" },
        { "SF1016", "Gate.Release(); ;; static readonly SemaphoreSlim Gate = new(0);" },

        // What the compiler calls without a name.
        { "SF1014", "dynamic a = 1; dynamic b = 2; _ = (object)(a + b);" },
        { "SF1014", "dynamic a = 1; int b = a; _ = b;" },
        { "SF1014", "dynamic a = 1; a += 2;" },
        { "SF1014", "dynamic a = 1; a++;" },
        { "SF1014", "dynamic a = 1; _ = (object)(-a);" },
        { "SF1014", "dynamic a = 1; if (a) { }" },
        { "SF1014", "dynamic a = 1; foreach (var x in a) { }" },
        { "SF1014", "dynamic a = 1; _ = (string)a;" },
        { "SF1023", "_ = (System.Data.SqlTypes.SqlInt32)5;" },
        { "SF1023", "System.Data.SqlTypes.SqlInt32 a = default; _ = a + a;" },
        { "SF1023", "System.Data.SqlTypes.SqlInt32 a = default; _ = -a;" },
        { "SF1023", "System.Data.SqlTypes.SqlInt32 a = default; a += a;" },
        { "SF1023", "Func<System.Data.SqlTypes.SqlInt32, int> f = a => (int)a;" },
        { "SF1006", "System.Net.Http.MultipartContent m = [];" },
        { "SF1023", "System.Security.Cryptography.X509Certificates.X509Certificate2Collection c = [];" },
        { "SF1012", "var n = 1; var r = __makeref(n); _ = __refvalue(r, int);" },
    };

    public static TheoryData<string> Fine => new()
    {
        "_ = new[] { 3, 1 }.Order().Where(n => n > 1).Sum(); Func<int, int> f = n => n + 1; _ = f(1);",
        "List<int> a = [1, .. new[] { 2 }, .. Enumerable.Range(0, 3)]; System.Collections.Immutable.ImmutableArray<int> b = [1]; HashSet<string> c = [\"a\"]; ReadOnlySpan<int> d = [1, 2];",
        "_ = Task.FromResult(1).Result + Later().GetAwaiter().GetResult(); ;; static ValueTask<int> Later() => new(1);",
        "_ = System.Text.Json.JsonSerializer.Deserialize(\"{}\", typeof(State)); _ = System.Text.Json.JsonSerializer.Serialize(s, new System.Text.Json.JsonSerializerOptions { WriteIndented = true });",
        "_ = System.Text.Json.JsonSerializer.Deserialize<Shape>(\"{}\"); ;; [System.Text.Json.Serialization.JsonDerivedType(typeof(Circle), \"c\")] public class Shape { } public sealed class Circle : Shape { public double R { get; set; } }",
        "_ = DateTime.ParseExact(\"2026-01-02\", \"yyyy-MM-dd\", System.Globalization.CultureInfo.InvariantCulture) + TimeSpan.FromDays(1); _ = DateTimeOffset.TryParseExact(\"x\", [\"O\", \"yyyy'-'MM\"], System.Globalization.CultureInfo.InvariantCulture, System.Globalization.DateTimeStyles.AssumeUniversal, out _);",
        "const string format = \"yyyyMMdd\"; _ = DateOnly.ParseExact(\"20260102\", format, System.Globalization.CultureInfo.InvariantCulture); _ = TimeOnly.Parse(\"12:00\", System.Globalization.CultureInfo.InvariantCulture); _ = e.Data.GetDateTime();",
        "_ = Read<int>(\"1\") + Convert.ToInt32(\"1\", System.Globalization.CultureInfo.InvariantCulture) + (int)Convert.ChangeType(\"1\", typeof(int), System.Globalization.CultureInfo.InvariantCulture); ;; static T Read<T>(string text) where T : IParsable<T> => T.Parse(text, null);",
        ";; public sealed class Key(string a, int[] all) { public override int GetHashCode() { var h = new HashCode(); h.Add(a.ToUpperInvariant()); foreach (var one in all) h.Add(one); return h.ToHashCode(); } public override bool Equals(object? o) => false; }",
        ";; public sealed class Key(string a, int[] all) { public override int GetHashCode() => all.Aggregate(a.GetHashCode(), (h, one) => HashCode.Combine(h, one)) * 397 ^ 1; public override bool Equals(object? o) => false; }",
        ";; public sealed class Same : IEqualityComparer<string> { public bool Equals(string? a, string? b) => a == b; public int GetHashCode(string of) => StringComparer.Ordinal.GetHashCode(of.Trim()); }",
        ";; public sealed class Same : IEqualityComparer<string> { bool IEqualityComparer<string>.Equals(string? a, string? b) => a == b; int IEqualityComparer<string>.GetHashCode(string of) => of.GetHashCode(); }",
        ";; public readonly struct Money(decimal of) : IComparable<Money>, IFormattable, System.Numerics.IAdditionOperators<Money, Money, Money> { readonly decimal of = of; public int CompareTo(Money other) => of.CompareTo(other.of); public string ToString(string? f, IFormatProvider? p) => of.ToString(f, p); public static Money operator +(Money a, Money b) => new(a.of + b.of); }",
        ";; public sealed class Stock : Dictionary<string, int> { } public sealed class Names : System.Collections.ObjectModel.KeyedCollection<string, string> { protected override string GetKeyForItem(string item) => item; }",
        ";; public sealed class Bad(string why) : InvalidOperationException(why); public sealed class MineAttribute : Attribute; public delegate int Of(int n); public enum Kind : byte { A } public record struct R(int A);",
        ";; public sealed class Snake : System.Text.Json.JsonNamingPolicy { public override string ConvertName(string name) => name; } public sealed class Made : System.Text.Json.Serialization.JsonConverterFactory { public override bool CanConvert(Type t) => t == typeof(State); public override System.Text.Json.Serialization.JsonConverter? CreateConverter(Type t, System.Text.Json.JsonSerializerOptions o) => null; }",
        "var (a, b) = (1, 2L); (a, b) = (a + 1, b + a); var c = new[] { 1, 2, 3 } is [var first, .., var last] ? first + last : 0; var d = \"abc\"[1..^1] + \"abc\"[^1]; _ = e is { Version: > 1, AggregateId: { Length: > 2 } }; var t = (a, c) == (1, 2);",
        "_ = $\"{e.Version,5:000}\"; var h = new System.Text.StringBuilder(); h.Append(System.Globalization.CultureInfo.InvariantCulture, $\"{e.Version}\"); System.Numerics.BigInteger n = 5; n += 1; n++; _ = (int)(-n); DateTimeOffset at = DateTime.UnixEpoch; _ = at - e.Timestamp > TimeSpan.Zero; decimal m = 5; m *= 2; m++; checked { _ = (int)m; }",
        "using var m = new MemoryStream(); using (var w = new StreamWriter(m)) w.Write(1); foreach (var (k, v) in new Dictionary<string, int>()) _ = k + v; foreach (var p in e.Data.EnumerateObject()) _ = p.Name; string? u = null; u ??= \"x\"; _ = u?.Length ?? 0;",
        "try { throw new InvalidOperationException(\"x\"); } catch (InvalidOperationException x) when (x.Message.Length > 0) { _ = x.Message; } finally { } goto done; done: ; int Local(int x) => x switch { 1 or 2 => 1, > 5 => 2, _ => throw new ArgumentException() }; _ = Local(1);",
        "_ = from x in new[] { 1, 2 } join y in new[] { 2 } on x equals y orderby x descending select new { x, y }; _ = System.Text.RegularExpressions.Regex.Replace(\"a\", \"[a-z]\", m => m.Value.ToUpperInvariant()); var u8 = \"x\"u8; _ = u8.Length; _ = new System.Random(5).Next(3); object o = 1; _ = o is int i && i > 0; _ = sizeof(int) + default(int); lock (e) { }",
        "var x = new State(\"a\") { Count = 1 }; var y = x with { Count = 2 }; var z = new Dictionary<string, List<int>> { [\"a\"] = [1], [\"b\"] = new() { 1, 2 } }; Span<int> q = stackalloc int[3]; q[0] = 1; ref var r = ref q[0]; r++; IEnumerable<int> Count() { yield return 1; yield break; } _ = Count().First(); Action? act = null; act?.Invoke();",
    };

    [Theory]
    [MemberData(nameof(Refused))]
    public void Is_refused(string code, string snippet)
    {
        var outcome = Snippet.Compile(snippet);
        Assert.DoesNotContain(outcome.Findings, f => f.IsError && f.Code.StartsWith("CS", StringComparison.Ordinal));
        Assert.Contains(outcome.Findings, f => f.IsError && f.Code == code);
        Assert.Null(outcome.Assembly);
        Assert.All(outcome.Findings.Where(f => f.Code == code), f => Assert.Matches(@"^'.+' .+\. .+\. See docs/reference/determinism\.md#sf10\d\d\.$", f.Message.ReplaceLineEndings(" ")));
    }

    /// <summary>What a text is, and whether it has a date, is not known before an event comes.</summary>
    [Theory]
    [InlineData("_ = DateTime.Parse(e.AggregateId, System.Globalization.CultureInfo.InvariantCulture);")]
    [InlineData("_ = DateTime.ParseExact(\"01-02\", e.AggregateId, System.Globalization.CultureInfo.InvariantCulture);")]
    [InlineData("Func<string, DateTime> f = DateTime.Parse;")]
    public void Is_told_and_compiles(string snippet)
    {
        var findings = Snippet.Compile(snippet).Findings;
        Assert.DoesNotContain(findings, f => f.IsError);
        Assert.Contains(findings, f => f.Code == "SF1019" && f.Message.Contains("the date of today", StringComparison.Ordinal));
    }

    [Theory]
    [MemberData(nameof(Fine))]
    public void Is_fine(string snippet) => Assert.DoesNotContain(Snippet.Compile(snippet).Findings, f => f.IsError);
}
