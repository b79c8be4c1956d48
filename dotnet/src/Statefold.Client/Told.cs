using System.Text.Json;

namespace Statefold.Client;

/// <summary>What a page or a stream tells: an item, or an erasure.</summary>
/// <typeparam name="T">Of the items.</typeparam>
/// <param name="Place">Of either.</param>
/// <param name="Item">Default where it is an erasure.</param>
/// <param name="Erasure">Null where it is an item.</param>
internal readonly record struct Told<T>(long Place, T? Item, FeedErasure? Erasure)
{
    /// <summary>An erasure has the type of one; an item has that of its message, or none in a page.</summary>
    public static Told<T> Of(JsonElement told, Func<JsonElement, T> itemOf, Func<T, long> placeOf)
    {
        if (told.TryGetProperty("type", out var type) && type.ValueEquals(FeedErasure.Type))
        {
            var erasure = told.Deserialize<FeedErasure>(JsonSerializerOptions.Web)!;
            return new Told<T>(erasure.Position, default, erasure);
        }

        var item = itemOf(told);
        return new Told<T>(placeOf(item), item, null);
    }
}
