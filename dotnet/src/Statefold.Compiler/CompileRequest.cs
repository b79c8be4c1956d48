using Statefold.Compiler.Determinism;

namespace Statefold.Compiler;

/// <param name="Refusal">Why they are not compiled, where that is known before they are read.</param>
internal sealed record CompileRequest(ArtefactKind Kind, IReadOnlyList<SourceFile> Sources, DeterminismChecks Checks = DeterminismChecks.Error, Finding? Refusal = null);
