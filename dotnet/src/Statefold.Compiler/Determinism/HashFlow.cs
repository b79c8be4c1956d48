using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>Where the hash codes go that an own <c>GetHashCode()</c> asks for: it may combine and return them, and nothing else.</summary>
internal static class HashFlow
{
    /// <summary>The method that hash tables call, by <c>object</c> or by a comparer.</summary>
    public static bool Defines(IMethodSymbol method) =>
        (method is { Name: "GetHashCode", IsStatic: false, IsOverride: true, Parameters.Length: 0 })
        || (method is { IsStatic: false, Parameters.Length: 1 } && (method.Name == "GetHashCode" || method.ExplicitInterfaceImplementations.Any(one => one.Name == "GetHashCode")));

    /// <summary>Something that may be a hash code is kept, thrown, or given to other code than what combines them.</summary>
    public static bool Leaks(IMethodSymbol method, IOperation code) => code.DescendantsAndSelf().Any(operation => operation switch
    {
        IDeconstructionAssignmentOperation { Value: var value } => MayBeHash(value, method),
        IAssignmentOperation { Target: not (ILocalReferenceOperation or IDiscardOperation), Value: var value } => MayBeHash(value, method),
        IIncrementOrDecrementOperation { Target: not ILocalReferenceOperation } => true,
        IArgumentOperation { Parameter.RefKind: RefKind.Ref or RefKind.Out, Value: not (ILocalReferenceOperation or IDeclarationExpressionOperation or IDiscardOperation) } => true,
        IThrowOperation { Exception: { } thrown } => MayBeHash(thrown, method),
        IInvocationOperation call when !Combines(call.TargetMethod) => call.Arguments.Any(a => MayBeHash(a.Value, method)),
        IObjectCreationOperation { Arguments: var arguments } => arguments.Any(a => MayBeHash(a.Value, method)),
        // A loop or a branch that hash codes steer counts them.
        ILoopOperation loop => Conditions(loop).Any(condition => MayBeHash(condition, method)) && Writes(loop.Body),
        IConditionalOperation { Condition: var condition } branch when Writes(branch) => MayBeHash(condition, method),
        _ => false,
    });

    private static IEnumerable<IOperation> Conditions(ILoopOperation loop) => loop switch
    {
        IWhileLoopOperation { Condition: { } condition } => [condition],
        IForLoopOperation { Condition: { } condition } => [condition],
        IForEachLoopOperation { Collection: var collection } => [collection],
        _ => [],
    };

    private static bool Writes(IOperation code) => code.DescendantsAndSelf().Any(one =>
        one is IAssignmentOperation { Target: not (ILocalReferenceOperation or IDiscardOperation) } or IIncrementOrDecrementOperation { Target: not ILocalReferenceOperation }
        || (one is IInvocationOperation { TargetMethod: var called } && !Combines(called)));

    private static bool Combines(IMethodSymbol method) => method.Name is "GetHashCode" or "Equals"
        || FrameworkRules.NameOf(method.ContainingType) is "System.HashCode" or "System.Linq.Enumerable" or "System.Math" or "System.Numerics.BitOperations"
        || method.ContainingType.SpecialType is >= SpecialType.System_SByte and <= SpecialType.System_Double;

    private static bool MayBeHash(IOperation value, IMethodSymbol method) => value.DescendantsAndSelf().Any(one => one switch
    {
        IInvocationOperation { TargetMethod: var called } => called.Name == "GetHashCode" || FrameworkRules.NameOf(called.ContainingType) == "System.HashCode",
        IMethodReferenceOperation { Method.Name: "GetHashCode" } => true,
        ILocalReferenceOperation { Local: var local } => !IsElement(local),
        // Of a lambda: what is combined so far is given to it.
        IParameterReferenceOperation { Parameter: var parameter } => !SymbolEqualityComparer.Default.Equals(parameter.ContainingSymbol, method),
        _ => false,
    });

    private static bool IsElement(ILocalSymbol local) => local.DeclaringSyntaxReferences is [var declared] && declared.GetSyntax() is ForEachStatementSyntax { Expression: IdentifierNameSyntax or MemberAccessExpressionSyntax };
}
