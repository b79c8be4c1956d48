using System.Globalization;

namespace Statefold.Client;

/// <summary>The query of a URL.</summary>
internal static class Query
{
    public static string Of(IEnumerable<(string Name, string? Value)> parameters)
    {
        var text = string.Join('&', parameters.Where(one => one.Value is not null).Select(one => $"{one.Name}={Uri.EscapeDataString(one.Value!)}"));
        return text.Length == 0 ? "" : $"?{text}";
    }

    public static string? Text(long? number) => number?.ToString(CultureInfo.InvariantCulture);
}
