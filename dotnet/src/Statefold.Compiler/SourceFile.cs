namespace Statefold.Compiler;

/// <summary>One file of an upload: its path in the archive and its UTF-8 text.</summary>
internal sealed record SourceFile(string Path, byte[] Utf8);
