namespace Statefold.Client;

/// <summary>What the bound reducer made of an aggregate.</summary>
/// <typeparam name="T">The shape of the state.</typeparam>
/// <param name="Version">Of the aggregate; 0: it is not there.</param>
/// <param name="State">Default where it is not there, or the code gave none.</param>
public sealed record AggregateState<T>(long Version, T? State);
