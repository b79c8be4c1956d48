namespace Statefold.Runner;

/// <summary>Bounds of the state cache, and of one state as JSON.</summary>
internal sealed record RunnerLimits(long CacheEntries, long CacheBytes, int StateBytes);
