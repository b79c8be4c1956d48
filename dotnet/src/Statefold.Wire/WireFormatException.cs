namespace Statefold.Wire;

/// <summary>A frame that does not follow the protocol.</summary>
public sealed class WireFormatException(string message) : Exception(message);
