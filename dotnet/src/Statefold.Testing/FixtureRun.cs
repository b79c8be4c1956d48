using System.Text;
using System.Text.Json;

namespace Statefold.Testing;

/// <summary>Runs one case, and judges it as <c>statefold test</c> does.</summary>
internal static class FixtureRun
{
    // Events without a time of their own are a second apart from here on.
    private static readonly DateTimeOffset FirstTime = new(2026, 1, 1, 0, 0, 0, TimeSpan.Zero);
    private static readonly JsonSerializerOptions Indented = new() { WriteIndented = true, Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    public static void Run(FixtureCase one, IReadOnlyList<FoldedClass> classes)
    {
        var target = TargetOf(one, classes);
        var fold = new Fold(target);
        var versions = new Dictionary<string, long>();
        var time = FirstTime;
        foreach (var (index, e) in one.Given.Concat(one.When).Index())
        {
            var id = e.AggregateId ?? $"{target.AggregateType ?? "default"}-1";
            versions[id] = versions.GetValueOrDefault(id) + 1;
            time = e.Timestamp?.ToUniversalTime() ?? time.AddSeconds(1);
            fold.Add(e.ToEvent(id, target.AggregateType, versions[id], time), given: index < one.Given.Count);
        }

        var failures = new StringBuilder();
        var thrown = JudgeFaults(one.Then, fold, failures);
        JudgeStates(one.Then, fold, failures);
        if (failures.Length > 0)
        {
            throw new FixtureFailedException(failures.ToString(), thrown);
        }
    }

    private static FoldedClass TargetOf(FixtureCase one, IReadOnlyList<FoldedClass> classes)
    {
        var has = string.Join(", ", classes);
        if ((one.Reducer ?? one.Projection) is { } name)
        {
            var named = classes.Where(c => c.IsReducer == (one.Reducer is not null) && c.IsNamed(name)).ToList();
            return named.Count == 1 ? named[0] : throw new FixtureFailedException(named.Count == 0 ? $"There is no '{name}' of that kind; the project has {has}." : $"'{name}' is {string.Join(", ", named)}: give the namespace too.");
        }

        var types = one.Given.Concat(one.When).Select(e => e.TypeOf()).Distinct().ToList();
        var candidates = classes.Count == 1 ? classes : types is [{ } type] ? [.. classes.Where(c => c.AggregateType == type)] : [];
        return candidates.Count == 1 ? candidates[0] : throw new FixtureFailedException($"Say with \"reducer\" or \"projection\" what it is for; the project has {has}.");
    }

    private static Exception? JudgeFaults(FixtureThen then, Fold fold, StringBuilder failures)
    {
        var expected = new Dictionary<string, string>(then.Faults ?? []);
        if (then.Fault is not null)
        {
            expected[fold.Faults.Keys.Concat(fold.Changed).FirstOrDefault() ?? ""] = then.Fault;
        }

        Exception? thrown = null;
        foreach (var (key, (error, version, given)) in fold.Faults)
        {
            var message = Fold.MessageOf(error);
            if (given || !expected.TryGetValue(key, out var part) || !message.Contains(part, StringComparison.Ordinal))
            {
                thrown ??= error;
                failures.Append($"{key} stopped at version {version}{(given ? ", which is one of the given events" : "")}: {message}\n");
            }
        }

        foreach (var (key, part) in expected.Where(e => !fold.Faults.ContainsKey(e.Key)))
        {
            failures.Append($"{key} was to stop with \"{part}\", and did not.\n");
        }

        return thrown;
    }

    private static void JudgeStates(FixtureThen then, Fold fold, StringBuilder failures)
    {
        if (then.State.ValueKind != JsonValueKind.Undefined)
        {
            var keys = fold.Changed.Count > 0 ? fold.Changed : [.. fold.Keys];
            if (keys.Count > 1)
            {
                failures.Append($"then.state is for one state, and there are {string.Join(", ", keys)}: give then.states.\n");
            }
            else
            {
                Compare(keys.FirstOrDefault() ?? "", then.State, fold, failures);
            }

            return;
        }

        if (then.States is not null)
        {
            // Each key that `when` changes has to be there.
            foreach (var key in then.States.Keys.Union(fold.Changed))
            {
                Compare(key, then.States.TryGetValue(key, out var expected) ? expected : null, fold, failures);
            }
        }
    }

    private static void Compare(string key, JsonElement? expected, Fold fold, StringBuilder failures)
    {
        var actual = fold.StateOf(key);
        if (expected is { ValueKind: not JsonValueKind.Null } wanted ? actual is null || !JsonElement.DeepEquals(wanted, actual.Value) : actual is not null)
        {
            failures.Append($"{key}: expected\n{Text(expected)}\nand it is\n{Text(actual)}\n");
        }
    }

    private static string Text(JsonElement? state) => state is { } some ? JsonSerializer.Serialize(some, Indented) : "null";
}
