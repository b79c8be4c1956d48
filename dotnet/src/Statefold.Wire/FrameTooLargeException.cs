namespace Statefold.Wire;

/// <summary>A frame that would pass <see cref="WireWriter.MaxFrame"/>.</summary>
public sealed class FrameTooLargeException() : Exception("The frame would be too large.");
