using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;

namespace Statefold.Client;

/// <summary>Checks that webhooks come from the service (Standard Webhooks 1.0).</summary>
/// <param name="secrets"><c>whsec_…</c> as the service gave it; several while one is rotated.</param>
public sealed class Webhook(params IReadOnlyList<string> secrets)
{
    private readonly byte[][] keys = [.. secrets.Select(KeyOf)];

    /// <summary>How far the time of a message may be from now.</summary>
    public TimeSpan Tolerance { get; init; } = TimeSpan.FromMinutes(5);

    /// <summary>What time it is.</summary>
    public TimeProvider Time { get; init; } = TimeProvider.System;

    /// <summary>The message, where it was signed with the secret, and now.</summary>
    /// <param name="body">As it came, not parsed and written again.</param>
    /// <param name="header">Gives the value of a header, null where there is none: <c>name => request.Headers[name]</c>.</param>
    /// <exception cref="WebhookException">It was not.</exception>
    public WebhookMessage Verify(ReadOnlySpan<byte> body, Func<string, string?> header)
    {
        ArgumentNullException.ThrowIfNull(header);
        var id = Required(header, "webhook-id");
        var timestamp = Required(header, "webhook-timestamp");
        var given = Required(header, "webhook-signature");
        if (!long.TryParse(timestamp, NumberStyles.None, CultureInfo.InvariantCulture, out var seconds) || seconds > 253402300799)
        {
            throw new WebhookException("the header webhook-timestamp is not a number of seconds");
        }

        var at = DateTimeOffset.FromUnixTimeSeconds(seconds);
        if ((Time.GetUtcNow() - at).Duration() > Tolerance)
        {
            throw new WebhookException($"the webhook is of {at:O}, more than {Tolerance.TotalSeconds} seconds from now");
        }

        byte[] signed = [.. Encoding.UTF8.GetBytes($"{id}.{timestamp}."), .. body];
        foreach (var key in keys)
        {
            var expected = Convert.ToBase64String(HMACSHA256.HashData(key, signed));
            foreach (var signature in given.Split(' '))
            {
                // Compares in a time that tells nothing of where they differ.
                if (CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes($"v1,{expected}"), Encoding.UTF8.GetBytes(signature)))
                {
                    return MessageOf(id, at, body);
                }
            }
        }

        throw new WebhookException("no signature of the webhook was made with the secret");
    }

    private static WebhookMessage MessageOf(string id, DateTimeOffset at, ReadOnlySpan<byte> body)
    {
        try
        {
            var payload = JsonElement.Parse(body);
            return new WebhookMessage(id, at, payload.GetProperty("type").GetString() ?? "", payload);
        }
        catch (Exception error) when (error is JsonException or KeyNotFoundException or InvalidOperationException)
        {
            throw new WebhookException("the body of the webhook is not JSON with a type");
        }
    }

    private static byte[] KeyOf(string secret)
    {
        try
        {
            var key = Convert.FromBase64String(secret.StartsWith("whsec_", StringComparison.Ordinal) ? secret[6..] : secret);
            // A setting that is missing: whoever knows that could sign.
            return key.Length > 0 ? key : throw new ArgumentException("the secret of webhooks is empty: it is whsec_ and base64, as the service gave it", nameof(secret));
        }
        catch (FormatException)
        {
            throw new ArgumentException("a secret of webhooks is whsec_ and base64, as the service gave it", nameof(secret));
        }
    }

    private static string Required(Func<string, string?> header, string name) =>
        header(name) is { Length: > 0 } value ? value : throw new WebhookException($"the webhook has no header {name}");
}
