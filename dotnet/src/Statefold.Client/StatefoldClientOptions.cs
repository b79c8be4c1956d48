using System.Text.Json;

namespace Statefold.Client;

/// <summary>Where the service is, and how it is asked.</summary>
public sealed record StatefoldClientOptions
{
    /// <summary>Of the service, for instance <c>https://events.example.com</c>.</summary>
    public required Uri Url { get; init; }

    /// <summary>Key of a tenant.</summary>
    public required string ApiKey { get; init; }

    /// <summary>How long one attempt of a request may take.</summary>
    public TimeSpan Timeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>How often a request is sent in all, where it may be repeated; 1: never again.</summary>
    public int Attempts { get; init; } = 6;

    /// <summary>Between the first two attempts; doubled from then on, and by chance up to half shorter.</summary>
    public TimeSpan FirstDelay { get; init; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between two attempts.</summary>
    public TimeSpan MostDelay { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>How data, metadata and states are written and read; by default as for the web: names in camel case.</summary>
    public JsonSerializerOptions Json { get; init; } = JsonSerializerOptions.Web;
}
