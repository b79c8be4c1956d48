using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

internal static class OwnCode
{
    /// <summary>The symbol is declared in what is compiled: its code is looked at, where that of others is judged by its name.</summary>
    internal static bool Owns(this Compilation compilation, ISymbol symbol) =>
        SymbolEqualityComparer.Default.Equals(symbol.ContainingAssembly, compilation.Assembly);
}
