using System.Text.Json;

namespace Statefold.Runner;

/// <summary>Of a converter whose collections are ordered by hash codes.</summary>
internal interface IHashOrdered
{
    /// <summary>A collection with the same elements, which enumerates as <see cref="HashOrder"/> says.</summary>
    object Sorted(object collection, JsonSerializerOptions options);
}
