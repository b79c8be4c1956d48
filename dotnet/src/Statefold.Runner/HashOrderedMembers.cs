using System.Collections;
using System.Text.Json.Serialization.Metadata;

namespace Statefold.Runner;

/// <summary>Members of an interface's type (<c>IReadOnlyDictionary</c>, <c>IEnumerable</c>) may hold a collection that is ordered by hash codes.</summary>
internal static class HashOrderedMembers
{
    public static void Sort(JsonTypeInfo info)
    {
        foreach (var member in info.Properties)
        {
            // Of a member with a converter that is not its own, System.Text.Json takes no such attribute.
            if ((member.NumberHandling ?? info.NumberHandling) is { } numbers && HashOrderedConverters.Has(member.PropertyType))
            {
                member.NumberHandling = null;
                member.CustomConverter = HashOrderedConverters.With(numbers, member.PropertyType, info.Options);
            }

            if (member.Get is { } get && member.PropertyType.IsInterface && typeof(IEnumerable).IsAssignableFrom(member.PropertyType))
            {
                member.Get = owner => get(owner) is { } value ? Sorted(value, member) : null;
            }
        }
    }

    private static object Sorted(object value, JsonPropertyInfo member) =>
        HashOrderedConverters.Has(value.GetType()) && member.Options.GetConverter(value.GetType()) is IHashOrdered converter && converter.Sorted(value, member.Options) is var sorted && member.PropertyType.IsInstanceOfType(sorted)
            ? sorted
            : value;
}
