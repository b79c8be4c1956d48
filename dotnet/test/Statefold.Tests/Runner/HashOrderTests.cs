using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Frozen;
using System.Collections.Immutable;
using System.Collections.Specialized;
using System.Text.Json;
using System.Text.Json.Serialization;
using Statefold.Runner;

namespace Statefold.Tests.Runner;

/// <summary>States are written in an order that is the same in every process, and read back as what they were.</summary>
public sealed class HashOrderTests
{
    private static readonly JsonSerializerOptions Options = StateText.NewOptions();
    private static readonly string[] Names = [.. Enumerable.Range(0, 40).Select(i => $"name-{i}")];
    private static readonly string[] Sorted = [.. Names.Order(StringComparer.Ordinal)];

    private enum Size
    {
        Small,
        Large,
    }

    public static TheoryData<object> Sets => new(
        Names.ToImmutableHashSet(),
        Names.ToFrozenSet(),
        new Holder<IImmutableSet<string>>(Names.ToImmutableHashSet()),
        new Holder<IEnumerable<string>>(Names.ToImmutableHashSet()),
        new Holder<IReadOnlyCollection<string>>(Names.ToFrozenSet()),
        new Holder<ISet<string>>(Names.ToFrozenSet()),
        new Holder<object>(Names.ToImmutableHashSet()),
        new Holder<List<ImmutableHashSet<string>>>([Names.ToImmutableHashSet()]),
        new Holder<Dictionary<string, ImmutableHashSet<string>>>(new() { ["all"] = Names.ToImmutableHashSet() }));

    public static TheoryData<object> Tables => new(
        Lengths.ToImmutableDictionary(),
        Lengths.ToFrozenDictionary(),
        new ConcurrentDictionary<string, int>(Lengths),
        new Hashtable(Lengths),
        Filled(new HybridDictionary()),
        new Holder<IImmutableDictionary<string, int>>(Lengths.ToImmutableDictionary()),
        new Holder<IReadOnlyDictionary<string, int>>(Lengths.ToImmutableDictionary()),
        new Holder<IDictionary<string, int>>(new ConcurrentDictionary<string, int>(Lengths)),
        new Holder<IDictionary>(new Hashtable(Lengths)));

    private static Dictionary<string, int> Lengths => Names.ToDictionary(name => name, name => name.Length);

    private sealed record Numbers(
        [property: JsonNumberHandling(JsonNumberHandling.WriteAsString | JsonNumberHandling.AllowReadingFromString)] ImmutableDictionary<string, long> Member,
        Typed Typed);

    [JsonNumberHandling(JsonNumberHandling.WriteAsString | JsonNumberHandling.AllowReadingFromString)]
    private sealed record Typed(ImmutableHashSet<long> Set);

    [Fact]
    public void Numbers_are_written_and_read_as_their_member_or_its_type_says()
    {
        var json = JsonSerializer.Serialize(new Numbers(new Dictionary<string, long> { ["b"] = 2, ["a"] = 1 }.ToImmutableDictionary(), new([30, 4])), Options);
        Assert.Equal("{\"member\":{\"a\":\"1\",\"b\":\"2\"},\"typed\":{\"set\":[\"4\",\"30\"]}}", json);
        var read = JsonSerializer.Deserialize<Numbers>(json, Options)!;
        Assert.Equal(1, read.Member["a"]);
        Assert.Contains(30, read.Typed.Set);
    }

    [Theory]
    [MemberData(nameof(Sets))]
    public void Sets_are_written_in_ordinal_order(object state)
    {
        var texts = Leaves(JsonSerializer.SerializeToElement(state, state.GetType(), Options)).Select(leaf => leaf.GetString());
        Assert.Equal(Sorted, texts);
    }

    [Theory]
    [MemberData(nameof(Tables))]
    public void Tables_are_written_in_the_ordinal_order_of_their_keys(object state)
    {
        var json = JsonSerializer.SerializeToElement(state, state.GetType(), Options);
        var table = json.TryGetProperty("value", out var held) ? held : json;
        Assert.Equal(Sorted, table.EnumerateObject().Select(entry => entry.Name));
    }

    [Theory]
    [MemberData(nameof(Sets))]
    [MemberData(nameof(Tables))]
    public void What_is_read_back_is_written_alike(object state)
    {
        var text = JsonSerializer.Serialize(state, state.GetType(), Options);
        Assert.Equal(text, JsonSerializer.Serialize(JsonSerializer.Deserialize(text, state.GetType(), Options), state.GetType(), Options));
    }

    [Fact]
    public void Numbers_are_ordered_by_their_values_and_records_by_their_text()
    {
        Assert.Equal("[-1,2,10,4294967295]", JsonSerializer.Serialize(ImmutableHashSet.Create(10L, uint.MaxValue, -1, 2), Options));
        Assert.Equal("[0,1]", JsonSerializer.Serialize(ImmutableHashSet.Create(Size.Large, Size.Small), Options));
        Assert.Equal(
            """[{"value":"a"},{"value":"b"},{"value":"c"}]""",
            JsonSerializer.Serialize(ImmutableHashSet.Create(new Holder<string>("c"), new Holder<string>("a"), new Holder<string>("b")), Options));
    }

    [Fact]
    public void Null_stays_null_and_order_of_coming_is_kept_elsewhere()
    {
        Assert.Null(JsonSerializer.Deserialize<ImmutableHashSet<string>>("null", Options));
        Assert.Equal("[\"b\",\"a\"]", JsonSerializer.Serialize<IEnumerable<string>>(new List<string> { "b", "a" }, Options));
        Assert.Equal("""{"value":{"b":1,"a":2}}""", JsonSerializer.Serialize(new Holder<IDictionary<string, int>>(new Dictionary<string, int> { ["b"] = 1, ["a"] = 2 }), Options));
    }

    private static IEnumerable<JsonElement> Leaves(JsonElement element) => element.ValueKind switch
    {
        JsonValueKind.Array => element.EnumerateArray().SelectMany(Leaves),
        JsonValueKind.Object => element.EnumerateObject().SelectMany(member => Leaves(member.Value)),
        _ => [element],
    };

    private static HybridDictionary Filled(HybridDictionary table)
    {
        foreach (var (name, length) in Lengths)
        {
            table.Add(name, length);
        }

        return table;
    }

    public sealed record Holder<T>(T Value);
}
