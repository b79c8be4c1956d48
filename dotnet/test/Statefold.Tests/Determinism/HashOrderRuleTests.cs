namespace Statefold.Tests.Determinism;

/// <summary>The order of hash codes gets into no state: whatever takes it is refused, what has no order or sorts at once is not.</summary>
public sealed class HashOrderRuleTests
{
    private const string Set = "ImmutableHashSet<string> set = [\"a\", \"b\"]; ";
    private const string Table = "var table = ImmutableDictionary<string, int>.Empty; ";
    private const string Line = " ;; public sealed record Line(string Id, int Count, double Price);";

    public static TheoryData<string> Refused =>
    [
        // What enumerates.
        Set + "foreach (var one in set) { }",
        Table + "foreach (var (key, value) in table) { }",
        Table + "foreach (var key in table.Keys) { }",
        Set + "var text = string.Join(\",\", set);",
        Set + "var text = string.Concat(set);",
        Set + "var text = $\"{set}\";",
        Set + "var text = new System.Text.StringBuilder().AppendJoin(',', set);",
        Set + "List<string> all = [.. set];",
        Set + "string[] all = [\"x\", .. set];",
        Set + "var all = new List<string>(set);",
        Set + "var all = set.ToList();",
        Set + "var all = set.ToArray();",
        Set + "var all = set.ToHashSet();",
        Set + "var all = set.ToDictionary(one => one);",
        Set + "var all = set.ToImmutableList();",
        Set + "var all = set.ToImmutableArray();",
        Set + "var all = ImmutableList.CreateRange(set);",
        Set + "var all = ImmutableStack.CreateRange(set);",
        Set + "var first = set.First();",
        Set + "var first = set.FirstOrDefault(one => one.Length > 1);",
        Set + "var last = set.Last();",
        Set + "var some = set.Take(1).Order();",
        Set + "var some = set.Skip(1).Count();",
        Set + "var some = set.ElementAt(0);",
        Set + "var most = set.MaxBy(one => one.Length);",
        Set + "var text = set.Aggregate(\"\", (all, one) => all + one);",
        Set + "var pairs = set.Zip(new[] { 1, 2 });",
        Set + "var pairs = new[] { 1, 2 }.Zip(set);",
        Set + "var pairs = set.Select((one, i) => (one, i)).Order();",
        Set + "var pairs = set.Index();",
        Set + "var groups = set.GroupBy(one => one.Length);",
        Set + "var groups = set.ToLookup(one => one.Length);",
        Set + "var same = set.SequenceEqual(new[] { \"a\" });",
        Set + "var all = new[] { \"x\" }.Concat(set).ToList();",
        Set + "var all = new[] { \"x\" }.Union(set).ToList();",
        Set + "var all = new List<string>(); all.AddRange(set);",
        Set + "var all = new List<string>(); all.InsertRange(0, set);",
        Set + "var all = new HashSet<string>(); all.UnionWith(set);",
        Set + "var all = new HashSet<string> { \"a\" }; all.ExceptWith(set);",
        Set + "var all = new Queue<string>(set); ",
        Set + "var all = set.Distinct(StringComparer.OrdinalIgnoreCase).Order();",
        Set + "var all = set.DistinctBy(one => one.Length).Order();",
        Set + "var all = new SortedSet<string>(set, StringComparer.OrdinalIgnoreCase);",
        Set + "var all = set.ToImmutableSortedSet(StringComparer.OrdinalIgnoreCase);",
        Set + "var all = set.OrderBy(one => one.Length).ToList();",
        Set + "var all = set.Order(StringComparer.OrdinalIgnoreCase).ToList();",
        Set + "var all = (from one in set select one + \"!\").ToList();",
        Set + "var many = new[] { 1 }.SelectMany(_ => set).ToList();",
        Set + "var at = set.GetEnumerator();",
        Set + "IEnumerable<string> all = set;",
        Set + "object all = set;",
        Set + "IReadOnlyCollection<string> all = e.Version > 1 ? set : [\"a\"];",
        Set + "var all = (IEnumerable)set;",
        Set + "var all = set as IReadOnlySet<string>;",
        Set + "if (set is IEnumerable<string> all) { }",
        Set + "var n = set switch { IEnumerable<string> all => all.Count(), _ => 0 };",
        Set + "var all = new string[2]; ((ICollection<string>)set).CopyTo(all, 0);",
        Set + "Func<List<string>> all = set.ToList;",
        Set + "Func<ImmutableHashSet<string>.Enumerator> all = set.GetEnumerator;",
        Set + "Func<ImmutableHashSet<string>, string> join = Join; ;; static string Join(IEnumerable<string> all) => string.Join(',', all);",
        Set + "Func<IEnumerable<string>> all = All; ;; static ImmutableHashSet<string> All() => [];",
        Set + "Show(set); ;; static void Show(IEnumerable<string> all) { }",
        Set + "Show(set); ;; static void Show(params IEnumerable<string> all) { }",
        Set + "Show(set); ;; static void Show(params object[] all) { }",
        Set + "Show(set); ;; static string Show<T>(T all) where T : IEnumerable<string> => string.Join(',', all);",
        Set + "Show(set); ;; static string Show<T>(T all) => string.Join(',', (IEnumerable<string>)(object)all!);",
        Set + "Show(set); ;; static string Show<T>(T all) => all is IEnumerable<string> found ? string.Join(',', found) : \"\";",
        Set + "Show(set); ;; static string Show<T>(T all) => Inner(all); static string Inner<T>(T all) => all is IEnumerable<string> found ? string.Join(',', found) : \"\";",
        Set + "new Box<ImmutableHashSet<string>>(set).Show(); ;; sealed class Box<T>(T all) { public object Show() => all!; }",
        Set + "List<ImmutableHashSet<string>> sets = [set]; IEnumerable<IEnumerable<string>> all = sets;",
        Set + "List<ImmutableHashSet<string>> sets = [set]; foreach (IEnumerable<string> all in sets) { }",
        Set + "List<ImmutableHashSet<string>> sets = [set]; var all = sets.Cast<IEnumerable<string>>();",
        Set + "ImmutableHashSet<string>[] sets = [set]; IEnumerable<string>[] all = sets;",
        Set + "(int, ImmutableHashSet<string>) pair = (1, set); (int, IEnumerable<string>) all = pair;",
        Set + "IEnumerable<string> all; int n; (all, n) = (set, 1);",
        Set + "IEnumerable<string> all; int n; (all, n) = new Pair(set, 1); ;; sealed record Pair(ImmutableHashSet<string> All, int N);",
        Set + "Func<ImmutableHashSet<string>> f = () => set; Func<IEnumerable<string>> g = f;",
        ";; abstract class Base { public abstract IEnumerable<string> All { get; } } sealed class Own : Base { public override ImmutableHashSet<string> All => []; }",
        ";; sealed class Own : IEnumerable<string> { readonly ImmutableHashSet<string> all = []; public IEnumerator<string> GetEnumerator() => all.GetEnumerator(); IEnumerator IEnumerable.GetEnumerator() => GetEnumerator(); }",
        ";; interface ISource<out T> { T Get(); } sealed class Own : ISource<ImmutableHashSet<string>> { public ImmutableHashSet<string> Get() => []; } static ISource<IEnumerable<string>> Source() => new Own();",
        Table + "var keys = table.Keys;",
        Table + "var values = table.Values.ToList();",
        Table + "var value = table is { Keys: var keys };",
        Table + "var all = table.ToArray();",
        Table + "var all = table.OrderByDescending(entry => entry.Value).Take(3).ToList();",
        Table + "var all = table.Select(entry => entry.Value).ToList();",
        Table + "IReadOnlyDictionary<string, int> all = table;",
        Table + "var all = new Dictionary<string, int>(table);",
        Table + "var sum = table.Sum(entry => entry.Value * 0.1);",
        Table + "var sum = table.Values.Select(one => one * 0.1).Sum();",
        Table + "var mean = table.Average(entry => (double)entry.Value);",

        Set + "var all = set.WithComparer(StringComparer.OrdinalIgnoreCase);",
        Set + "var all = set.ToImmutableHashSet(StringComparer.OrdinalIgnoreCase);",
        Table + "var all = new ConcurrentDictionary<string, int>(table, StringComparer.OrdinalIgnoreCase);",
        Set + "var has = set.Contains(\"a\", new Own()); ;; sealed class Own : IEqualityComparer<string> { string all = \"\"; public bool Equals(string? a, string? b) { all += a; return false; } public int GetHashCode(string a) => 1; }",
        Set + "object all = new Own(set); ;; sealed class Own(ImmutableHashSet<string> all) { public IEnumerable<string> All => all; }",

        // Lambdas that take note of the order in which they are called.
        Set + "var all = new List<string>(); var n = set.Count(one => { all.Add(one); return true; });",
        Set + "var text = \"\"; var n = set.All(one => { text += one; return true; });",
        Set + "var n = 0; var all = set.Select(one => one + n++).Order(StringComparer.Ordinal);",
        Set + "var all = new List<string>(); var n = set.All(one => Note(all, one)); ;; static bool Note(List<string> all, string one) { all.Add(one); return true; }",
        Set + "var all = new HashSet<string>(); var n = set.Count(all.Add);",
        Set + "var all = new Notes(); var n = set.Count(all.Note); ;; sealed class Notes { public string All = \"\"; public bool Note(string one) { All += one; return true; } }",
        Set + "var all = new Notes(); var n = set.Count(one => { all[one] = true; return true; }); ;; sealed class Notes { public string All = \"\"; public bool this[string one] { set => All += one; } }",
        Set + "var all = new List<string>(); Action<string> note = all.Add; var n = set.All(one => { note(one); return true; });",
        Set + "var all = new List<int> { 1, 2 }.GetEnumerator(); IEnumerator<int> at = all; var n = set.Sum(one => { at.MoveNext(); return at.Current * one.Length; });",
        Set + "var count = 0; var n = set.Count(Note); bool Note(string one) { count = count * 31 + one.Length; return true; }",
        Set + "var all = new string[1]; var n = set.Count(one => { all[0] = one; return true; });",
        Set + "string? last = null; var n = set.Count(one => (last = one) is not null);",

        Set + "var all = new List<string>(); var n = set.Count(one => new Note(all, one).Done); ;; sealed class Note { public Note(List<string> all, string one) => all.Add(one); public bool Done => true; }",
        Set + "var all = new List<string>(); var n = set.Count(one => { var other = all; other.Add(one); return true; });",
        Set + "var all = new List<string>(); var n = set.Count(one => { var other = new List<string>(); other = all; other.Add(one); return true; });",
        Set + "var all = new List<string>(); var n = set.Count(one => { var other = new List<string>(); (other, _) = (all, 1); other.Add(one); return true; });",
        Set + "var all = new List<string>(); var n = set.Count(one => new Held(all).All().Remove(one)); ;; sealed record Held(List<string> List) { public List<string> All() => List; }",
        Set + "INote all = new Note(); var n = set.Count(all.Add); ;; interface INote { bool Add(string one); } sealed class Note : INote { string all = \"\"; bool INote.Add(string one) { all += one; return true; } }",
        Set + "INote all = new Note(); var n = set.Count(one => all.Done); ;; interface INote { bool Done { get; } } sealed class Note : INote { int n; public bool Done { get { n++; return true; } } }",

        Set + "var all = new char[9]; var n = set.Count(one => one.AsSpan().TryCopyTo(all));",
        Set + "var all = new byte[9]; var n = set.Sum(one => System.Text.Encoding.UTF8.GetBytes(one, 0, 1, all, 0));",
        Set + "var all = new int[] { 0 }; var n = set.Count(one => Interlocked.Increment(ref all[0]) > one.Length);",

        // All of the tables.
        "Hashtable all = []; foreach (DictionaryEntry one in all) { }",
        "Hashtable all = []; foreach (var one in all.Keys) { }",
        "Hashtable all = []; var copy = all.Clone();",
        "Hashtable all = []; var at = all.GetEnumerator();",
        "var all = new Hashtable().Cast<DictionaryEntry>().ToList();",
        "ConcurrentDictionary<string, int> all = []; foreach (var one in all) { }",
        "ConcurrentDictionary<string, int> all = []; var copy = all.ToArray();",
        "ConcurrentDictionary<string, int> all = []; var keys = all.Keys;",
        "FrozenSet<string> all = [\"a\"]; foreach (var one in all) { }",
        "FrozenSet<string> all = [\"a\"]; var items = all.Items;",
        "var all = new Dictionary<string, int>().ToFrozenDictionary(); var keys = all.Keys;",
        "IImmutableSet<string> all = ImmutableHashSet<string>.Empty; foreach (var one in all) { }",
        "IImmutableDictionary<string, int> all = ImmutableDictionary<string, int>.Empty; var keys = all.Keys;",
        "var all = ImmutableHashSet.CreateBuilder<string>(); foreach (var one in all) { }",
        "var all = ImmutableDictionary.CreateBuilder<string, int>(); var keys = all.Keys;",
        "var all = new System.Collections.Specialized.HybridDictionary(); foreach (var one in all) { }",
        "var all = new System.Collections.Specialized.StringDictionary(); foreach (var one in all) { }",
        "foreach (var one in new Own()) { } ;; sealed class Own : DictionaryBase { }",
        "ImmutableHashSet<Line> all = []; foreach (var one in all) { }" + Line,
        "ImmutableHashSet<(int, int)> all = []; foreach (var one in all) { }",
        "ImmutableHashSet<object> all = []; foreach (var one in all) { }",
        "ImmutableHashSet<int> all = ImmutableHashSet.Create<int>(new Own()); ;; sealed class Own : IEqualityComparer<int> { public bool Equals(int a, int b) => a == b; public int GetHashCode(int a) => HashCode.Combine(a); }",

        // Written as JSON in the fold.
        Set + "var text = System.Text.Json.JsonSerializer.Serialize(set);",
        Set + "var text = System.Text.Json.JsonSerializer.Serialize(new { set });",
        "var text = System.Text.Json.JsonSerializer.Serialize(new Held([])); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "var text = System.Text.Json.JsonSerializer.Serialize((object)new Held([])); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "var text = System.Text.Json.JsonSerializer.SerializeToElement(new Held([]), typeof(Held)); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "object value = new Held([]); var text = System.Text.Json.JsonSerializer.Serialize(value); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "var all = new Dictionary<string, object> { [\"a\"] = new Held([]) }; var text = System.Text.Json.JsonSerializer.Serialize(all); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "var text = Json(new Held([])); ;; public sealed record Held(ImmutableHashSet<string> All); static string Json<T>(T value) => System.Text.Json.JsonSerializer.Serialize(value);",
        Set + "var node = System.Text.Json.Nodes.JsonValue.Create(set);",
    ];

    public static TheoryData<string> Fine =>
    [
        Set + "var n = set.Count + set.Add(\"c\").Remove(\"a\").Union([\"d\"]).Except(set).Count; var has = set.Contains(\"a\") && set.IsSubsetOf(set) && set.SetEquals([\"a\"]) && !set.IsEmpty;",
        Set + "var all = set.Order(StringComparer.Ordinal).ToList(); foreach (var one in set.Order()) { }",
        Set + "var all = set.OrderBy(one => one, StringComparer.Ordinal).Select((one, i) => (one, i)).ToList();",
        Set + "var all = set.OrderBy(one => one.Length).ThenByDescending(one => one).First();",
        Set + "var all = set.Where(one => one.Length > 1).Select(one => one.Length).Distinct().Order().ToArray();",
        Set + "var all = from one in set where one != \"a\" orderby one select one + \"!\"; var text = string.Join(',', all);",
        Set + "var n = set.Count(one => one.Length > 1) + set.Sum(one => one.Length) + set.Max(one => one.Length) + (set.Any() ? 1 : 0); var max = set.Max();",
        Set + "var sorted = new SortedSet<string>(set); var other = set.ToImmutableSortedSet(); ImmutableSortedSet<string> third = [.. set]; SortedSet<string> fourth = new(set, StringComparer.Ordinal);",
        Set + "ImmutableHashSet<string> more = [.. set, \"c\"]; var built = set.ToBuilder(); built.UnionWith(set); var frozen = set.ToFrozenSet(); var upper = set.Select(one => one.ToUpperInvariant()).ToImmutableHashSet();",
        Set + "var left = new[] { \"a\", \"x\" }.Where(set.Contains).Except(set).Intersect(set).ToList();",
        Set + "var all = new[] { 1 }.SelectMany(_ => set).Distinct().Order(StringComparer.Ordinal).ToList();",
        Set + "var all = set.Concat([\"x\"]).Order().ToList(); var best = (set ?? []).Order().FirstOrDefault(); var maybe = s is null ? null : set?.Order().ToList();",
        Set + "if (set is null || set == null || set is { Count: > 3 } || ReferenceEquals(set, null) || Equals(set, null)) { } ArgumentNullException.ThrowIfNull(set);",
        Set + "var sets = new List<ImmutableHashSet<string>> { set }; IReadOnlyList<ImmutableHashSet<string>> more = sets; foreach (var one in more) { _ = one.Count; } var big = sets.Where(one => one.Count > 1).ToDictionary(one => one.Count);",
        Set + "IImmutableSet<string> same = set; (int, ImmutableHashSet<string>) pair = (1, set); var (n, all) = pair; _ = all.Count;",
        Set + "var single = set.Single(one => one == \"a\"); var at = set.TryGetValue(\"a\", out var found);",
        Set + "var box = new Box<ImmutableHashSet<string>>(set); _ = box.All?.Count; ;; sealed record Box<T>(T All) { public bool Has => All is not null; }",
        Set + "var state = Keep(set); ;; static ImmutableHashSet<string> Keep(ImmutableHashSet<string> all) => all.Add(\"x\");",
        Set + "var n = set.Count(one => { var parts = new List<string>(); parts.Add(one); parts[0] = \"x\"; var length = 0; foreach (var part in parts) { length += part.Length; } return length > 1; });",
        Set + "var n = set.Count(one => Big(one)) + set.Count(Big); ;; static bool Big(string one) { var n = one.Length; n++; return n > 2; }",
        Set + "var n = set.Count(one => Is(s, one)); ;; static bool Is(State? s, string one) => s?.Text == one;",
        Set + "var n = set.Select(one => new Line(one)).Count(line => line.Big) + (int)set.Average(one => one.Length); ;; sealed class Line { readonly int length; public Line(string id) { length = id.Length; } public bool Big => length > 1; }",
        Set + "Own own = set; _ = own.Count; ;; sealed record Own(int Count) { public static implicit operator Own(ImmutableHashSet<string> all) => new(all.Count); }",
        "var all = ImmutableHashSet<string>.Empty.WithComparer(StringComparer.OrdinalIgnoreCase).Add(\"a\"); var table = ImmutableDictionary.Create<string, int>(StringComparer.OrdinalIgnoreCase);",
        Table + "var all = table.OrderBy(entry => entry.Key, StringComparer.Ordinal).Select(entry => entry.Value).ToList(); foreach (var (key, value) in table.OrderBy(entry => entry.Key)) { }",
        Table + "var top = table.OrderByDescending(entry => entry.Value).ThenBy(entry => entry.Key, StringComparer.Ordinal).Take(3).ToList();",
        Table + "var n = table.Values.Sum() + table.Keys.Count() + table.Sum(entry => entry.Value) + table.GetValueOrDefault(\"a\") + table[\"a\"]; var keys = table.Keys.Order(StringComparer.Ordinal).ToList();",
        Table + "var more = table.SetItem(\"a\", 1).AddRange(table).RemoveRange(table.Keys); var other = table.Where(entry => entry.Value > 1).ToImmutableDictionary(); var sorted = table.ToImmutableSortedDictionary(); var map = new SortedDictionary<string, int>(table);",
        Table + "var total = table.Values.Select(one => one * 0.1m).Sum();",
        "ConcurrentDictionary<string, int> all = []; all.AddOrUpdate(\"a\", 1, (_, n) => n + 1); var n = all.GetOrAdd(\"b\", 2) + all.Count + all.Keys.Count; foreach (var key in all.Keys.Order(StringComparer.Ordinal)) { }",
        "Hashtable all = []; all[\"a\"] = 1; var has = all.ContainsKey(\"a\") && all.Count > 1;",
        "var all = e.DataAs<Held>()!.All; var text = System.Text.Json.JsonSerializer.Serialize(new { Count = all.Count }); ;; public sealed record Held(ImmutableHashSet<string> All);",
        "var all = new Dictionary<string, int> { [\"a\"] = 1 }; foreach (var one in all) { } var keys = string.Join(',', all.Keys); var groups = all.GroupBy(one => one.Value).ToLookup(one => one.Key); foreach (var group in groups) { }",
        "object value = 1; var text = System.Text.Json.JsonSerializer.Serialize(value);",
        Set + "var known = new[] { \"a\" }; var n = set.Count(one => Array.IndexOf(known, one) >= 0);",
        "ImmutableHashSet<decimal> all = [1.0m]; var sorted = all.Order().ToList();",
        Set + "var n = set.Count(one => { var part = new char[9]; return one.AsSpan().TryCopyTo(part) && part[0] == 'a'; });",
        "var all = new Own(); all.Set(\"a\", 1); ;; sealed class Own : DictionaryBase { public void Set(string key, int value) => InnerHashtable[key] = value; }",
        "var all = Load(new[] { 1 }); ;; static HashSet<string> Load<T>(IEnumerable<T> from) => [.. from.Select(one => one!.ToString()!)];",
    ];

    /// <summary>Told of, since it may be the same in each process: hash codes of numbers are, and no two elements may compare as equal.</summary>
    public static TheoryData<string> Told =>
    [
        "ImmutableDictionary<Guid, int> all = ImmutableDictionary<Guid, int>.Empty; foreach (var one in all) { }",
        "var all = new ConcurrentDictionary<int, int>().ToArray();",
        "var all = ImmutableDictionary<string, decimal>.Empty; var most = all.Values.Max();",
        "var all = ImmutableDictionary<string, DateTimeOffset>.Empty; var sorted = all.Values.Order().ToList();",
        "ConcurrentBag<int> all = []; foreach (var one in all) { }",
        "ImmutableHashSet<Line> all = []; var sorted = all.OrderBy(one => one.Id, StringComparer.Ordinal).ToList();" + Line,
        "var all = ImmutableDictionary<string, Line>.Empty; var sorted = all.Values.OrderBy(one => one.Count).ToList();" + Line,
    ];

    [Theory]
    [MemberData(nameof(Refused))]
    public void Is_refused(string snippet) => Assert.Contains(Snippet.Compile(snippet).Findings, f => f is { IsError: true, Code: "SF1024" });

    [Theory]
    [MemberData(nameof(Fine))]
    public void Is_fine(string snippet) => Assert.DoesNotContain(Snippet.Compile(snippet).Findings, f => f.IsError || f.Code is "SF1021" or "SF1024");

    [Theory]
    [MemberData(nameof(Told))]
    public void Is_told_and_compiles(string snippet)
    {
        var findings = Snippet.Compile(snippet).Findings;
        Assert.DoesNotContain(findings, f => f.IsError);
        Assert.Contains(findings, f => f.Code == "SF1021");
    }

    [Fact]
    public void A_sort_that_leaves_ties_is_told_how_to_go_on()
    {
        var finding = Snippet.Compile(Table + "var all = table.OrderBy(entry => entry.Value).ToList();").Findings.Single(f => f.IsError);
        Assert.Contains("ThenBy", finding.Message, StringComparison.Ordinal);
    }
}
