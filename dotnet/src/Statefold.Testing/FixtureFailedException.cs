namespace Statefold.Testing;

/// <summary>A fixture does not hold; the message says what was expected and what came.</summary>
/// <param name="message">What was expected, and what came.</param>
/// <param name="inner">What the code threw, if it did.</param>
public sealed class FixtureFailedException(string message, Exception? inner = null) : Exception(message, inner);
