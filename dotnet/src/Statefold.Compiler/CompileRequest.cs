namespace Statefold.Compiler;

internal sealed record CompileRequest(ArtefactKind Kind, IReadOnlyList<SourceFile> Sources);
