using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>Whether code changes something outside it: then it matters in which order it is called.</summary>
internal sealed class SideEffects(Compilation compilation)
{
    // Of what is read in turn: an enumerator, a reader, a generator.
    private static readonly string[] Advancing = ["MoveNext", "Reset", "Next", "Read"];

    private static readonly HashSet<string> Filled = ["destination", "bytes", "chars", "buffer"];

    private readonly Dictionary<ISymbol, bool> known = new(SymbolEqualityComparer.Default);

    /// <summary>Of a delegate that is passed: unknown ones may have any.</summary>
    public bool Has(IOperation passed) => passed switch
    {
        IConversionOperation { Operand: var operand } => Has(operand),
        IDelegateCreationOperation { Target: IAnonymousFunctionOperation { Body: var body } } => InCode(body),
        IAnonymousFunctionOperation { Body: var body } => InCode(body),
        IDelegateCreationOperation { Target: IMethodReferenceOperation { Method: var method } reference } => Has(method, reference.Instance),
        { ConstantValue: { HasValue: true, Value: null } } => false,
        _ => true,
    };

    private bool InCode(IOperation code) => code.DescendantsAndSelf().Any(operation => operation switch
    {
        IAssignmentOperation { Target: var target } => !IsInside(target, code),
        IIncrementOrDecrementOperation { Target: var target } => !IsInside(target, code),
        IEventAssignmentOperation => true,
        IArgumentOperation { Parameter.RefKind: RefKind.Ref or RefKind.Out, Value: var value } => !IsInside(value, code),
        // What is filled there is an array, or a part of one.
        IArgumentOperation { Parameter: { Type: IArrayTypeSymbol, Name: var name }, Value: var value } when Filled.Contains(name) => !IsMadeInside(value, code),
        IConversionOperation { Operand: { Type: IArrayTypeSymbol } array, Type: { Name: "Span" or "Memory" or "ArraySegment" } } => !IsMadeInside(array, code),
        IInvocationOperation { TargetMethod: { MethodKind: MethodKind.DelegateInvoke } } => true,
        IInvocationOperation { TargetMethod: var method } call => Has(method, Mutators.ChangesFirstArgument(method) ? call.Arguments.FirstOrDefault()?.Value : call.Instance, code),
        IMethodReferenceOperation { Method: var method, Instance: var instance } => Has(method, instance, code),
        IPropertyReferenceOperation { Property: var property } => compilation.Owns(property) && new[] { property.GetMethod, property.SetMethod }.Any(one => one is not null && Has(one, null)),
        _ => Operations.MembersOf(operation).OfType<IMethodSymbol>().Any(method => compilation.Owns(method) && Has(method, null)),
    });

    private bool Has(IMethodSymbol method, IOperation? instance, IOperation? code = null)
    {
        if (compilation.Owns(method))
        {
            return InOwn(method.OriginalDefinition);
        }

        var changes = Mutators.Changes(method) || (instance is not null && method.MethodKind != MethodKind.Constructor && (method.ReturnsVoid || Advancing.Any(name => method.Name.StartsWith(name, StringComparison.Ordinal))));
        return changes && !(code is not null && IsMadeInside(instance, code));
    }

    /// <summary>Of one that others stand in for, all that bear its name.</summary>
    private bool InOwn(IMethodSymbol method)
    {
        if (known.TryGetValue(method, out var found))
        {
            return found;
        }

        // One that calls itself has what the rest of it has.
        known[method] = false;
        var bodies = method.IsAbstract || method.IsVirtual || method.IsOverride ? StandingFor(method) : [method];
        return known[method] = bodies.SelectMany(one => one.DeclaringSyntaxReferences).Any(declared => InDeclared(declared.GetSyntax()));
    }

    private IEnumerable<IMethodSymbol> StandingFor(IMethodSymbol method)
    {
        var name = method.AssociatedSymbol?.Name ?? method.Name;
        return compilation.GetSymbolsWithName(one => one == name || one.EndsWith($".{name}", StringComparison.Ordinal) || name == "this[]", SymbolFilter.Member)
            .SelectMany(found => found switch
            {
                IPropertySymbol property => new[] { property.GetMethod, property.SetMethod }.OfType<IMethodSymbol>(),
                IMethodSymbol one => [one],
                _ => [],
            })
            .Where(one => one.MethodKind == method.MethodKind || one.MethodKind == MethodKind.ExplicitInterfaceImplementation);
    }

    private bool InDeclared(SyntaxNode syntax)
    {
        // A record's constructor and its properties are declared by the record.
        if (syntax is TypeDeclarationSyntax or ParameterSyntax)
        {
            return false;
        }

        var code = compilation.GetSemanticModel(syntax.SyntaxTree).GetOperation(syntax);
        return code is not null && InCode(code);
    }

    /// <summary>A variable of the code, or a member of what it has made.</summary>
    private static bool IsInside(IOperation target, IOperation code) => target switch
    {
        ILocalReferenceOperation { Local: var local } => !local.IsRef && IsDeclaredIn(local, code),
        IParameterReferenceOperation { Parameter: { RefKind: RefKind.None } parameter } => IsDeclaredIn(parameter, code),
        IDeclarationExpressionOperation or IDiscardOperation => true,
        ITupleOperation { Elements: var elements } => elements.All(element => IsInside(element, code)),
        IMemberReferenceOperation { Instance: IInstanceReferenceOperation { ReferenceKind: InstanceReferenceKind.ImplicitReceiver } } => true,
        // A constructor fills what it makes.
        IMemberReferenceOperation { Instance: IInstanceReferenceOperation { ReferenceKind: InstanceReferenceKind.ContainingTypeInstance } } => code is IConstructorBodyOperation,
        IMemberReferenceOperation { Instance: var instance } => IsMadeInside(instance, code),
        IArrayElementReferenceOperation { ArrayReference: var array } => IsMadeInside(array, code),
        IConversionOperation { Operand: var operand } => IsInside(operand, code),
        _ => false,
    };

    private static bool IsMadeInside(IOperation? value, IOperation code) => value switch
    {
        IObjectCreationOperation or IArrayCreationOperation or ICollectionExpressionOperation => true,
        IInstanceReferenceOperation { ReferenceKind: InstanceReferenceKind.ImplicitReceiver } => true,
        // Of a chain each call gives what it was called on.
        IInvocationOperation { Instance: { } instance, Type: var type } => SymbolEqualityComparer.Default.Equals(type, instance.Type) && IsMadeInside(instance, code),
        IConversionOperation { Operand: var operand } => IsMadeInside(operand, code),
        ILocalReferenceOperation { Local: { IsRef: false } local } => IsDeclaredIn(local, code)
            && code.DescendantsAndSelf().OfType<IVariableDeclaratorOperation>().Any(one => SymbolEqualityComparer.Default.Equals(one.Symbol, local) && one.Initializer is { Value: var made } && IsMadeInside(made, code))
            && !code.DescendantsAndSelf().Any(operation => Replaces(operation, local)),
        _ => false,
    };

    /// <summary>The variable stands for something else from there on.</summary>
    private static bool Replaces(IOperation operation, ILocalSymbol local)
    {
        var target = operation switch
        {
            IAssignmentOperation { Target: var assigned } => assigned,
            IArgumentOperation { Parameter.RefKind: RefKind.Ref or RefKind.Out, Value: var value } => value,
            _ => null,
        };
        var replaced = target is ITupleOperation { Elements: var elements } ? elements : target is null ? [] : [target];
        return replaced.Any(one => one is ILocalReferenceOperation { Local: var again } && SymbolEqualityComparer.Default.Equals(again, local));
    }

    private static bool IsDeclaredIn(ISymbol symbol, IOperation code) =>
        symbol.DeclaringSyntaxReferences.Any(declared => declared.SyntaxTree == code.Syntax.SyntaxTree && (code.Syntax.Span.Contains(declared.Span) || IsLambdaOf(declared, code)));

    // The parameters of a lambda stand before its body.
    private static bool IsLambdaOf(SyntaxReference declared, IOperation code) => code.Parent is IAnonymousFunctionOperation { Syntax.Span: var lambda } && lambda.Contains(declared.Span);
}
