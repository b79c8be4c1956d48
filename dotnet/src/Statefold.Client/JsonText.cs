using System.Text.Json;

namespace Statefold.Client;

internal static class JsonText
{
    public static T? As<T>(JsonElement element, JsonSerializerOptions? options) =>
        element.ValueKind is JsonValueKind.Undefined or JsonValueKind.Null
            ? default
            : element.Deserialize<T>(options ?? JsonSerializerOptions.Web);
}
