using Statefold.Compiler.Determinism;

namespace Statefold.Compiler;

internal sealed record CompileRequest(ArtefactKind Kind, IReadOnlyList<SourceFile> Sources, DeterminismChecks Checks = DeterminismChecks.Error);
