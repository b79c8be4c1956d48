using Microsoft.CodeAnalysis;

namespace Statefold.Compiler;

/// <summary>How types are named to whoever is told of them.</summary>
internal static class TypeNames
{
    /// <summary>Every type by its full name, keywords (int, string) too.</summary>
    public static readonly SymbolDisplayFormat Full = new(
        SymbolDisplayGlobalNamespaceStyle.Omitted,
        SymbolDisplayTypeQualificationStyle.NameAndContainingTypesAndNamespaces,
        SymbolDisplayGenericsOptions.IncludeTypeParameters);
}
