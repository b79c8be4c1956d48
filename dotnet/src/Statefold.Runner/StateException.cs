namespace Statefold.Runner;

/// <summary>A state that can't be kept; the message is for the author of the code.</summary>
internal sealed class StateException(string message, Exception? inner = null) : Exception(message, inner);
