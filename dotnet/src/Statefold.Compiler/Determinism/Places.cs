using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Statefold.Compiler.Determinism;

internal static class Places
{
    /// <summary>Of a member access the member's name: a chain of calls begins far before it.</summary>
    public static Location Of(SyntaxNode syntax) => syntax switch
    {
        InvocationExpressionSyntax { Expression: var called } => Of(called),
        MemberAccessExpressionSyntax { Name: var name } => name.GetLocation(),
        MemberBindingExpressionSyntax { Name: var name } => name.GetLocation(),
        ConditionalAccessExpressionSyntax { WhenNotNull: var accessed } => Of(accessed),
        _ => syntax.GetLocation(),
    };
}
