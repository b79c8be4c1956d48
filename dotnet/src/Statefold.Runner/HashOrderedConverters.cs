using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Frozen;
using System.Collections.Immutable;
using System.Collections.Specialized;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Statefold.Runner;

/// <summary>Writes collections that are ordered by hash codes in the order of <see cref="HashOrder"/>, and reads them back.</summary>
internal sealed class HashOrderedConverters : JsonConverterFactory
{
    private static readonly Dictionary<Type, Type> Converters = new()
    {
        [typeof(ImmutableHashSet<>)] = typeof(ImmutableSet<>),
        [typeof(IImmutableSet<>)] = typeof(AnyImmutableSet<>),
        [typeof(FrozenSet<>)] = typeof(FrozenSetOf<>),
        [typeof(ImmutableDictionary<,>)] = typeof(ImmutableTable<,>),
        [typeof(IImmutableDictionary<,>)] = typeof(AnyImmutableTable<,>),
        [typeof(FrozenDictionary<,>)] = typeof(FrozenTable<,>),
        [typeof(ConcurrentDictionary<,>)] = typeof(ConcurrentTable<,>),
    };

    /// <summary>Whether collections of the type are ordered by hash codes.</summary>
    public static bool Has(Type type) => Generic(type) is not null || IsOlderTable(type);

    public override bool CanConvert(Type typeToConvert) => Has(typeToConvert);

    public override JsonConverter CreateConverter(Type typeToConvert, JsonSerializerOptions options)
    {
        var converter = Generic(typeToConvert) is { } collection
            ? Converters[collection.GetGenericTypeDefinition()].MakeGenericType(collection.GenericTypeArguments)
            : typeof(OlderTable<>).MakeGenericType(typeToConvert);
        return (JsonConverter)Activator.CreateInstance(converter)!;
    }

    /// <summary>The converter of a member whose numbers are written and read in another way than those of the options.</summary>
    public static JsonConverter With(JsonNumberHandling numbers, Type type, JsonSerializerOptions options) =>
        (JsonConverter)Activator.CreateInstance(typeof(WithNumbers<>).MakeGenericType(type), new JsonSerializerOptions(options) { NumberHandling = numbers })!;

    // Frozen collections are of classes below the one that is named.
    private static Type? Generic(Type? type)
    {
        for (; type is not null; type = type.BaseType)
        {
            if (type.IsGenericType && Converters.ContainsKey(type.GetGenericTypeDefinition()))
            {
                return type;
            }
        }

        return null;
    }

    private static bool IsOlderTable(Type type) =>
        (type == typeof(Hashtable) || type == typeof(HybridDictionary) || typeof(DictionaryBase).IsAssignableFrom(type)) && !type.IsAbstract && type.GetConstructor([]) is not null;

    private sealed class WithNumbers<T>(JsonSerializerOptions own) : JsonConverter<T>
    {
        public override T? Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) => JsonSerializer.Deserialize<T>(ref reader, own);

        public override void Write(Utf8JsonWriter writer, T value, JsonSerializerOptions options) => JsonSerializer.Serialize(writer, value, own);
    }

    private abstract class SetOf<TSet, T> : JsonConverter<TSet>, IHashOrdered
        where TSet : class, IEnumerable<T>
    {
        public override bool CanConvert(Type typeToConvert) => typeof(TSet).IsAssignableFrom(typeToConvert);

        public override TSet? Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) =>
            JsonSerializer.Deserialize<List<T>>(ref reader, options) is { } elements ? Of(elements) : null;

        public override void Write(Utf8JsonWriter writer, TSet value, JsonSerializerOptions options) => JsonSerializer.Serialize(writer, Sorted(value, options), options);

        object IHashOrdered.Sorted(object collection, JsonSerializerOptions options) => Sorted((TSet)collection, options);

        protected abstract TSet Of(List<T> elements);

        protected abstract IEqualityComparer<T> ComparerOf(TSet set);

        private HashSet<T> Sorted(TSet set, JsonSerializerOptions options) => HashOrder.Sorted(set, ComparerOf(set), options);
    }

    private abstract class TableOf<TTable, TKey, TValue> : JsonConverter<TTable>, IHashOrdered
        where TTable : class, IEnumerable<KeyValuePair<TKey, TValue>>
        where TKey : notnull
    {
        public override bool CanConvert(Type typeToConvert) => typeof(TTable).IsAssignableFrom(typeToConvert);

        public override TTable? Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) =>
            JsonSerializer.Deserialize<Dictionary<TKey, TValue>>(ref reader, options) is { } entries ? Of(entries) : null;

        public override void Write(Utf8JsonWriter writer, TTable value, JsonSerializerOptions options) => JsonSerializer.Serialize(writer, Sorted(value, options), options);

        object IHashOrdered.Sorted(object collection, JsonSerializerOptions options) => Sorted((TTable)collection, options);

        protected abstract TTable Of(Dictionary<TKey, TValue> entries);

        protected abstract IEqualityComparer<TKey> ComparerOf(TTable table);

        private OrderedDictionary<TKey, TValue> Sorted(TTable table, JsonSerializerOptions options) => HashOrder.Sorted(table, ComparerOf(table), options);
    }

    private sealed class ImmutableSet<T> : SetOf<ImmutableHashSet<T>, T>
    {
        protected override ImmutableHashSet<T> Of(List<T> elements) => [.. elements];

        protected override IEqualityComparer<T> ComparerOf(ImmutableHashSet<T> set) => set.KeyComparer;
    }

    private sealed class AnyImmutableSet<T> : SetOf<IImmutableSet<T>, T>
    {
        protected override IImmutableSet<T> Of(List<T> elements) => ImmutableHashSet.CreateRange(elements);

        protected override IEqualityComparer<T> ComparerOf(IImmutableSet<T> set) => set is ImmutableHashSet<T> known ? known.KeyComparer : EqualityComparer<T>.Default;
    }

    private sealed class FrozenSetOf<T> : SetOf<FrozenSet<T>, T>
    {
        protected override FrozenSet<T> Of(List<T> elements) => elements.ToFrozenSet();

        protected override IEqualityComparer<T> ComparerOf(FrozenSet<T> set) => set.Comparer;
    }

    private sealed class ImmutableTable<TKey, TValue> : TableOf<ImmutableDictionary<TKey, TValue>, TKey, TValue>
        where TKey : notnull
    {
        protected override ImmutableDictionary<TKey, TValue> Of(Dictionary<TKey, TValue> entries) => entries.ToImmutableDictionary();

        protected override IEqualityComparer<TKey> ComparerOf(ImmutableDictionary<TKey, TValue> table) => table.KeyComparer;
    }

    private sealed class AnyImmutableTable<TKey, TValue> : TableOf<IImmutableDictionary<TKey, TValue>, TKey, TValue>
        where TKey : notnull
    {
        protected override IImmutableDictionary<TKey, TValue> Of(Dictionary<TKey, TValue> entries) => entries.ToImmutableDictionary();

        protected override IEqualityComparer<TKey> ComparerOf(IImmutableDictionary<TKey, TValue> table) =>
            table is ImmutableDictionary<TKey, TValue> known ? known.KeyComparer : EqualityComparer<TKey>.Default;
    }

    private sealed class FrozenTable<TKey, TValue> : TableOf<FrozenDictionary<TKey, TValue>, TKey, TValue>
        where TKey : notnull
    {
        protected override FrozenDictionary<TKey, TValue> Of(Dictionary<TKey, TValue> entries) => entries.ToFrozenDictionary();

        protected override IEqualityComparer<TKey> ComparerOf(FrozenDictionary<TKey, TValue> table) => table.Comparer;
    }

    private sealed class ConcurrentTable<TKey, TValue> : TableOf<ConcurrentDictionary<TKey, TValue>, TKey, TValue>
        where TKey : notnull
    {
        protected override ConcurrentDictionary<TKey, TValue> Of(Dictionary<TKey, TValue> entries) => new(entries);

        protected override IEqualityComparer<TKey> ComparerOf(ConcurrentDictionary<TKey, TValue> table) => table.Comparer;
    }

    /// <summary>Of objects: keys are read back as texts, values as <see cref="JsonElement"/>.</summary>
    private sealed class OlderTable<TTable> : JsonConverter<TTable>, IHashOrdered
        where TTable : IDictionary, new()
    {
        public override TTable? Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options)
        {
            if (JsonSerializer.Deserialize<Dictionary<string, object?>>(ref reader, options) is not { } entries)
            {
                return default;
            }

            var table = new TTable();
            foreach (var (key, value) in entries)
            {
                table.Add(key, value);
            }

            return table;
        }

        public override void Write(Utf8JsonWriter writer, TTable value, JsonSerializerOptions options) => JsonSerializer.Serialize(writer, HashOrder.Sorted(value, options), options);

        object IHashOrdered.Sorted(object collection, JsonSerializerOptions options) => HashOrder.Sorted((IDictionary)collection, options);
    }
}
