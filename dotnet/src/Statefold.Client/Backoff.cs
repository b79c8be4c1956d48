namespace Statefold.Client;

/// <summary>Pauses that double, each by chance up to half shorter, so that clients do not come back together.</summary>
internal static class Backoff
{
    // The attempt counts from 1 on.
    public static TimeSpan Before(int attempt, TimeSpan first, TimeSpan most)
    {
        var whole = Math.Min(most.TotalMilliseconds, first.TotalMilliseconds * Math.Pow(2, Math.Min(attempt - 1, 20)));
        return TimeSpan.FromMilliseconds(whole * (0.5 + (Random.Shared.NextDouble() / 2)));
    }
}
