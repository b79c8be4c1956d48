using System.Collections;
using System.Text;
using System.Text.Json;

namespace Statefold.Runner;

/// <summary>
/// The elements of collections whose order is that of hash codes, which differ from process to process, in an order that doesn't: of
/// texts the ordinal one, of numbers, times and GUIDs that of their values, of anything else that of their JSON.
/// </summary>
internal static class HashOrder
{
    private static readonly HashSet<Type> ByValue =
    [
        typeof(bool), typeof(char), typeof(sbyte), typeof(byte), typeof(short), typeof(ushort), typeof(int), typeof(uint), typeof(long), typeof(ulong), typeof(Int128), typeof(UInt128), typeof(Half),
        typeof(float), typeof(double), typeof(decimal), typeof(Guid), typeof(DateTime), typeof(DateTimeOffset), typeof(DateOnly), typeof(TimeOnly), typeof(TimeSpan),
    ];

    /// <summary>A set that enumerates in that order.</summary>
    public static HashSet<T> Sorted<T>(IEnumerable<T> elements, IEqualityComparer<T> comparer, JsonSerializerOptions options) => new(Sorted(elements, element => element, options), comparer);

    /// <summary>A dictionary that enumerates in the order of its keys.</summary>
    public static OrderedDictionary<TKey, TValue> Sorted<TKey, TValue>(IEnumerable<KeyValuePair<TKey, TValue>> entries, IEqualityComparer<TKey> comparer, JsonSerializerOptions options)
        where TKey : notnull => new(Sorted(entries, entry => entry.Key, options), comparer);

    /// <summary>The entries of one of the older tables, in the order of their keys.</summary>
    public static OrderedDictionary<object, object?> Sorted(IDictionary table, JsonSerializerOptions options) =>
        Sorted(table.Cast<DictionaryEntry>().Select(entry => KeyValuePair.Create(entry.Key, entry.Value)), EqualityComparer<object>.Default, options);

    private static IEnumerable<TItem> Sorted<TItem, TKey>(IEnumerable<TItem> items, Func<TItem, TKey> keyOf, JsonSerializerOptions options) =>
        typeof(TKey).IsEnum || ByValue.Contains(typeof(TKey)) ? items.OrderBy(keyOf) : items.OrderBy(item => TextOf(keyOf(item), options), StringComparer.Ordinal);

    private static string TextOf<T>(T key, JsonSerializerOptions options) => key as string ?? Encoding.UTF8.GetString(JsonSerializer.SerializeToUtf8Bytes(key, options));
}
