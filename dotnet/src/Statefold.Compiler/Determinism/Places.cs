using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Text;

namespace Statefold.Compiler.Determinism;

internal static class Places
{
    private const int MaxText = 100;

    /// <summary>The code itself, or of a long piece its beginning.</summary>
    public static string TextOf(SyntaxNode syntax) =>
        syntax.Span.Length <= MaxText ? syntax.ToString() : $"{syntax.SyntaxTree.GetText().ToString(new TextSpan(syntax.SpanStart, MaxText))}…";

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
