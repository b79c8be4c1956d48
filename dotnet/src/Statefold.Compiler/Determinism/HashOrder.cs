using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// Finds where the order of a hash table gets into what a fold does. A table may go anywhere as what it is, since its members then say
/// what is asked of it. Where it becomes anything else (<c>IEnumerable</c>, <c>object</c>, its keys), it must be sorted at once, or
/// be asked for what has no order.
/// </summary>
internal sealed class HashOrder(Compilation compilation, TypesInUse inUse, Breaches breaches)
{
    private const string Linq = "System.Linq.Enumerable";

    /// <summary>Of a table: what doesn't depend on the order of its elements.</summary>
    private static readonly HashSet<string> Unordered =
    [
        "Add", "AddOrUpdate", "AddRange", "Capacity", "Clear", "Comparer", "Contains", "ContainsKey", "ContainsValue", "Count", "Create", "CreateBuilder", "CreateRange", "Empty", "Equals", "Except",
        "ExceptWith", "GetAlternateLookup", "GetHashCode", "GetOrAdd", "GetType", "GetValueOrDefault", "GetValueRefOrNullRef", "InnerHashtable", "Intersect", "IntersectWith", "IsEmpty", "IsFixedSize",
        "IsProperSubsetOf", "IsProperSupersetOf", "IsReadOnly", "IsSubsetOf", "IsSupersetOf", "IsSynchronized", "Item", "KeyComparer", "Overlaps", "Remove", "RemoveRange", "SetEquals", "SetItem",
        "SetItems", "SymmetricExcept", "SymmetricExceptWith", "ToBuilder", "ToImmutable", "ToString", "TryAdd", "TryGetAlternateLookup", "TryGetKey", "TryGetValue", "TryPeek", "TryRemove", "TryTake",
        "TryUpdate", "Union", "UnionWith", "ValueComparer", "WithComparer", "WithComparers", "ToImmutableHashSet", "ToImmutableDictionary", "ToFrozenSet", "ToFrozenDictionary",
        // As a class derived from a table asks its own part of it.
        "OnGet", "OnSet", "OnInsert", "OnRemove", "OnClear", "OnValidate", "OnSetComplete", "OnInsertComplete", "OnRemoveComplete", "OnClearComplete", "this[]",
    ];

    /// <summary>Of what the new comparer takes for the same they keep the one that came first.</summary>
    private static readonly HashSet<string> Rehashing = ["WithComparer", "WithComparers"];

    /// <summary>Of any set: whether it has what the other has.</summary>
    private static readonly HashSet<string> Comparing = ["SetEquals", "IsSubsetOf", "IsSupersetOf", "IsProperSubsetOf", "IsProperSupersetOf", "Overlaps"];

    private static readonly HashSet<string> Reducing = ["Count", "LongCount", "Any", "All", "Contains", "Single", "SingleOrDefault", "TryGetNonEnumeratedCount"];

    private static readonly HashSet<string> Adding = ["Sum", "Average"];

    private static readonly HashSet<string> Extremes = ["Min", "Max"];

    /// <summary>What they give has the order of what they take, or none.</summary>
    private static readonly HashSet<string> Passing =
    [
        "Where", "Select", "SelectMany", "OfType", "Cast", "Distinct", "Concat", "Union", "Except", "Intersect", "AsEnumerable", "DefaultIfEmpty", "Append", "Prepend", "Reverse",
    ];

    /// <summary>Of their second sequence they take what it has.</summary>
    private static readonly HashSet<string> TakingAsSet = ["Except", "ExceptBy", "Intersect", "IntersectBy"];

    private static readonly HashSet<string> Sorting = ["Order", "OrderDescending", "OrderBy", "OrderByDescending"];

    private static readonly HashSet<string> Sorted =
    [
        "System.Collections.Generic.SortedSet`1", "System.Collections.Generic.SortedDictionary`2", "System.Collections.Generic.SortedList`2", "System.Collections.SortedList",
        "System.Collections.Immutable.ImmutableSortedSet`1", "System.Collections.Immutable.ImmutableSortedDictionary`2",
    ];

    private readonly SideEffects effects = new(compilation);

    // Type parameters of own code whose values become something else there, or are written as JSON.
    private readonly HashSet<ITypeParameterSymbol> opened = new(SymbolEqualityComparer.Default);
    private readonly List<(ITypeParameterSymbol Parameter, ITypeSymbol Argument, SyntaxNode Syntax, string Subject)> given = [];

    // A table that an own type holds.
    private ITypeSymbol? held;

    public void Look(IOperation operation)
    {
        if (breaches.Full)
        {
            return;
        }

        switch (operation)
        {
            case IConversionOperation { Operand: { Type: { } from } operand, Type: { } to } conversion:
                LookAtConversion(conversion, operand, from, conversion.OperatorMethod is { Parameters: [{ Type: var taken }] } ? taken : to);
                break;
            case IForEachLoopOperation { Collection: var collection } loop:
                LookAtLoop(loop, collection);
                break;
            case ISpreadOperation { Operand: { Type: { } type } operand } when HashTables.Is(type):
                Judge(operand, operand, type);
                break;
            case IInterpolationOperation { Expression: { Type: { } type } value } when HashTables.Is(type):
                Tell(Fate.Leaks, type, value.Syntax, $"{{{Places.TextOf(value.Syntax)}}}");
                break;
            case IInvocationOperation call:
                LookAtCall(call);
                break;
            case IObjectCreationOperation { Constructor: { } constructor, Type: { } type } creation:
                LookAtComparer(creation.Arguments, type, creation.Syntax);
                LookAtTypeArguments(constructor.ContainingType, creation.Syntax);
                break;
            case IMethodReferenceOperation { Method: var method } reference:
                LookAtMember(reference, method, reference.Instance);
                LookAtGeneric(method, reference.Syntax);
                break;
            case IPropertyReferenceOperation { Property: var property } reference:
                LookAtMember(reference, property, reference.Instance);
                break;
            case IDelegateCreationOperation { Target: IMethodReferenceOperation { Method: var method } reference, Type: INamedTypeSymbol { DelegateInvokeMethod: { } invoked } } creation:
                LookAtDelegate(creation, reference, method, invoked);
                break;
            case IDeclarationPatternOperation { InputType: var from, MatchedType: { } to } pattern:
                LookAtPattern(pattern, from, to);
                break;
            case IRecursivePatternOperation { InputType: var from, MatchedType: { } to } pattern:
                LookAtPattern(pattern, from, to);
                break;
            case IDeconstructionAssignmentOperation { Target: var target, Value: { Type: { } type } value, SemanticModel: { } model, Syntax: AssignmentExpressionSyntax syntax }:
                LookAtParts(model.GetDeconstructionInfo(syntax), target, type, value.Syntax);
                break;
        }
    }

    /// <summary>What an own type overrides by a hash table.</summary>
    public void LookAtType(INamedTypeSymbol type)
    {
        held ??= inUse.Reached(type, one => HashTables.Is(one) && HashTables.IsRandom(one)) ?? inUse.Reached(type, HashTables.Is);
        foreach (var method in type.GetMembers().OfType<IMethodSymbol>())
        {
            if (method.OverriddenMethod is { } overridden && HashTables.Hides(method.ReturnType, overridden.ReturnType))
            {
                breaches.Add(RuleOf(method.ReturnType), method.Locations.FirstOrDefault(), $"{type.Name}.{method.Name}");
            }
        }
    }

    /// <summary>Type arguments are judged when it is known what becomes of the parameters.</summary>
    public void Finish()
    {
        for (var before = -1; before != opened.Count;)
        {
            before = opened.Count;
            foreach (var (parameter, argument, _, _) in given.Where(one => opened.Contains(one.Parameter)))
            {
                opened.UnionWith(ParametersIn(argument));
            }
        }

        foreach (var (parameter, argument, syntax, subject) in given.Where(one => opened.Contains(one.Parameter)))
        {
            if (inUse.Reached(argument, HashTables.Is) is { } table)
            {
                Tell(Fate.Leaks, table, syntax, $"{subject}<{table.Name}>");
            }
        }
    }

    private void LookAtConversion(IConversionOperation conversion, IOperation operand, ITypeSymbol from, ITypeSymbol to)
    {
        if (from is ITypeParameterSymbol parameter)
        {
            if (!SymbolEqualityComparer.Default.Equals(from, to) && !IsCompared(conversion))
            {
                opened.Add(parameter.OriginalDefinition as ITypeParameterSymbol ?? parameter);
            }
        }
        else if (HashTables.Hides(from, to))
        {
            if (HashTables.Is(from))
            {
                Judge(conversion, operand, from);
            }
            else if (!IsCompared(conversion))
            {
                Tell(Fate.Leaks, from, operand.Syntax, Places.TextOf(operand.Syntax));
            }
        }
    }

    private void LookAtLoop(IForEachLoopOperation loop, IOperation collection)
    {
        if (Values.Unwrapped(collection).Type is { } type && HashTables.Is(type))
        {
            Tell(Fate.Leaks, type, collection.Syntax, $"foreach over {type.Name}");
        }

        if (loop is not { SemanticModel: { } model, Syntax: CommonForEachStatementSyntax syntax } || model.GetForEachStatementInfo(syntax).ElementType is not { } element)
        {
            return;
        }

        if (syntax is ForEachVariableStatementSyntax variables)
        {
            LookAtParts(model.GetDeconstructionInfo(variables), loop.LoopControlVariable, element, variables.Variable);
        }
        else if (loop.LoopControlVariable is IVariableDeclaratorOperation { Symbol.Type: var to } && HashTables.Hides(element, to))
        {
            Tell(Fate.Leaks, element, collection.Syntax, $"foreach over {to.Name}");
        }
    }

    private void LookAtParts(DeconstructionInfo info, IOperation target, ITypeSymbol type, SyntaxNode syntax)
    {
        var targets = target switch
        {
            IDeclarationExpressionOperation { Expression: ITupleOperation { Elements: var all } } => all,
            ITupleOperation { Elements: var all } => all,
            _ => [],
        };
        var parts = info.Method is { } method ? method.Parameters.Where(one => one.RefKind == RefKind.Out).Select(one => one.Type).ToList() : type is INamedTypeSymbol { IsTupleType: true } tuple ? [.. tuple.TupleElements.Select(one => one.Type)] : [];
        foreach (var (one, part, nested) in targets.Zip(parts, info.Nested.Concat(Enumerable.Repeat<DeconstructionInfo>(default, targets.Length))))
        {
            if (one is ITupleOperation or IDeclarationExpressionOperation { Expression: ITupleOperation })
            {
                LookAtParts(nested, one, part, syntax);
            }
            else if (HashTables.Hides(part, one.Type))
            {
                Tell(Fate.Leaks, part, syntax, Places.TextOf(one.Syntax));
            }
        }
    }

    private void LookAtCall(IInvocationOperation call)
    {
        var method = call.TargetMethod;
        LookAtMember(call, method, call.Instance);
        LookAtGeneric(method, call.Syntax);
        LookAtComparer(call.Arguments, call.Type, call.Syntax);
        if (WritesJson(method))
        {
            foreach (var value in call.Arguments.Where(argument => argument.Parameter?.Ordinal == ValueOf(method)).Select(argument => Converted(argument.Value)))
            {
                // An object may be anything that the upload has.
                if (value.Type is { } type && inUse.Reached(type, one => HashTables.Is(one) || (held is not null && one.SpecialType == SpecialType.System_Object)) is { } table)
                {
                    Tell(Fate.Leaks, HashTables.Is(table) ? table : held!, call.Syntax, $"{method.ContainingType.Name}.{method.Name}<{type.Name}>");
                }
            }
        }
    }

    /// <summary>The parameter that is written: behind the stream or the writer, where one is given.</summary>
    private static int ValueOf(IMethodSymbol method) => method.Parameters is [{ Type.Name: "Stream" or "Utf8JsonWriter" or "PipeWriter" }, ..] ? 1 : 0;

    private static bool WritesJson(IMethodSymbol method) => FrameworkRules.NameOf(method.ContainingType) switch
    {
        "System.Text.Json.JsonSerializer" => method.Name.StartsWith("Serialize", StringComparison.Ordinal),
        var name => name.StartsWith("System.Text.Json.Nodes.", StringComparison.Ordinal) && method.IsGenericMethod && method.Name is "Create" or "Add" or "ReplaceWith",
    };

    /// <summary>Members of a table, also in patterns: what is on no list gives its elements.</summary>
    private void LookAtMember(IOperation operation, ISymbol member, IOperation? instance)
    {
        var table = instance?.Type is { } type && HashTables.Is(type) ? type : HashTables.Is(member.ContainingType) ? member.ContainingType : null;
        if (table is null || compilation.Owns(member))
        {
            return;
        }

        if (!Unordered.Contains(member.Name))
        {
            Judge(operation, operation, table);
        }
        else if (Rehashing.Contains(member.Name) && operation is IInvocationOperation call && instance is not IMemberReferenceOperation { Member: { Name: "Empty", IsStatic: true } } && !ComparesByDefault(call.Arguments))
        {
            Tell(Fate.Leaks, table, operation.Syntax, $"{table.Name}.{member.Name}");
        }
    }

    private void LookAtDelegate(IDelegateCreationOperation creation, IMethodReferenceOperation reference, IMethodSymbol method, IMethodSymbol invoked)
    {
        if (HashTables.Hides(method.ReturnType, invoked.ReturnType))
        {
            Tell(Fate.Leaks, method.ReturnType, creation.Syntax, method.Name);
        }

        // An extension method of a value has that as its first parameter.
        var parameters = method.Parameters.Skip(reference.Instance is not null && method.IsStatic ? 1 : 0);
        foreach (var (taken, passed) in parameters.Zip(invoked.Parameters))
        {
            if (HashTables.Hides(passed.Type, taken.Type))
            {
                Tell(Fate.Leaks, passed.Type, creation.Syntax, method.Name);
            }
        }
    }

    private void LookAtPattern(IOperation pattern, ITypeSymbol from, ITypeSymbol to)
    {
        if (from is ITypeParameterSymbol parameter && !SymbolEqualityComparer.Default.Equals(from, to))
        {
            opened.Add(parameter.OriginalDefinition as ITypeParameterSymbol ?? parameter);
        }
        else if (HashTables.Hides(from, to))
        {
            Tell(Fate.Leaks, from, pattern.Syntax, Places.TextOf(pattern.Syntax));
        }
    }

    /// <summary>Hash codes of a comparer's own are of any kind, also of numbers.</summary>
    private void LookAtComparer(IEnumerable<IArgumentOperation> arguments, ITypeSymbol? made, SyntaxNode syntax)
    {
        if (made is not null && HashTables.Is(made) && !HashTables.IsRandom(made) && arguments.Any(one => one.Parameter?.Type.Name == "IEqualityComparer" && !IsKnownComparer(one.Value)))
        {
            breaches.Add(Rule.HashOrder, Places.Of(syntax), $"{made.Name} with a comparer");
        }
    }

    private void LookAtGeneric(IMethodSymbol method, SyntaxNode syntax)
    {
        LookAtTypeArguments(method.ContainingType, syntax);
        foreach (var (parameter, argument) in method.OriginalDefinition.TypeParameters.Zip(method.TypeArguments))
        {
            if (WritesJson(method))
            {
                opened.UnionWith(ParametersIn(argument));
            }

            Give(parameter, argument, syntax, method.Name);
        }
    }

    private void LookAtTypeArguments(INamedTypeSymbol? type, SyntaxNode syntax)
    {
        for (; type is { IsGenericType: true } && compilation.Owns(type); type = type.ContainingType)
        {
            foreach (var (parameter, argument) in type.OriginalDefinition.TypeParameters.Zip(type.TypeArguments))
            {
                Give(parameter, argument, syntax, type.Name);
            }
        }
    }

    private void Give(ITypeParameterSymbol parameter, ITypeSymbol argument, SyntaxNode syntax, string subject)
    {
        if (!compilation.Owns(parameter) || SymbolEqualityComparer.Default.Equals(parameter, argument))
        {
            return;
        }

        // What it must be it can be used as.
        if (parameter.ConstraintTypes.Any(one => HashTables.Hides(argument, one)))
        {
            opened.Add(parameter);
        }

        given.Add((parameter, argument, syntax, subject));
    }

    private static IEnumerable<ITypeParameterSymbol> ParametersIn(ITypeSymbol type) => type switch
    {
        ITypeParameterSymbol parameter => [parameter],
        IArrayTypeSymbol { ElementType: var element } => ParametersIn(element),
        INamedTypeSymbol { TypeArguments: var arguments } => arguments.SelectMany(ParametersIn),
        _ => [],
    };

    private void Judge(IOperation value, IOperation shown, ITypeSymbol table)
    {
        var (fate, by) = FateOf(value);
        Tell(fate, table, shown.Syntax, by is null ? Places.TextOf(shown.Syntax) : $"{by} over {table.Name}");
    }

    private void Tell(Fate fate, ITypeSymbol table, SyntaxNode syntax, string subject)
    {
        var rule = fate switch
        {
            Fate.IsFine => null,
            Fate.MayTie => Rule.OrderOfTies,
            Fate.Ties when HashTables.IsRandom(table) => Rule.HashOrderOfTies,
            Fate.Ties => Rule.OrderOfTies,
            _ => RuleOf(table),
        };
        if (rule is not null)
        {
            breaches.Add(rule, Places.Of(syntax), subject);
        }
    }

    private static Rule RuleOf(ITypeSymbol type) => HashTables.Mentioned(type) is { } table && !HashTables.IsRandom(table) ? Rule.Order : Rule.HashOrder;

    /// <summary>What becomes of the order of a sequence of no order, and who makes it so.</summary>
    private (Fate Fate, string? By) FateOf(IOperation value)
    {
        for (var at = value; at.Parent is { } parent; at = parent)
        {
            switch (parent)
            {
                case IConversionOperation or IParenthesizedOperation or ICoalesceOperation:
                case IConditionalAccessOperation access when access.WhenNotNull == at:
                case IConditionalOperation branch when branch.Condition != at:
                    break;
                case IBinaryOperation { OperatorKind: BinaryOperatorKind.Equals or BinaryOperatorKind.NotEquals }:
                case IIsPatternOperation { Pattern: IConstantPatternOperation or INegatedPatternOperation { Pattern: IConstantPatternOperation } }:
                case IExpressionStatementOperation:
                    return (Fate.IsFine, null);
                case ISpreadOperation { Parent: ICollectionExpressionOperation { Type: { } made } }:
                    return (HashTables.Is(made) ? Fate.IsFine : OfSorted(made, []), "[..]");
                case IArgumentOperation { Parent: IInvocationOperation call } argument:
                    return (OfCall(call, argument), $"{call.TargetMethod.ContainingType.Name}.{call.TargetMethod.Name}");
                case IArgumentOperation { Parent: IObjectCreationOperation { Type: { } made } creation } argument:
                    return (HashTables.Is(made) && ComparesByDefault(creation.Arguments) ? Fate.IsFine : OfSorted(made, creation.Arguments.Where(one => one != argument)), $"new {made.Name}");
                case IInvocationOperation { TargetMethod: var method } when !compilation.Owns(method) && Unordered.Contains(method.Name):
                case IPropertyReferenceOperation { Property: var property } when !compilation.Owns(property) && Unordered.Contains(property.Name):
                    return (Fate.IsFine, null);
                case IReturnOperation returned when SelectManyOf(returned) is { } call:
                    return (OfPassing(call), "Enumerable.SelectMany");
                case IForEachLoopOperation:
                    return (Fate.Leaks, "foreach");
                default:
                    return (Fate.Leaks, null);
            }
        }

        return (Fate.Leaks, null);
    }

    private Fate OfCall(IInvocationOperation call, IArgumentOperation argument)
    {
        var method = call.TargetMethod;
        var type = FrameworkRules.NameOf(method.ContainingType);
        if (type == Linq)
        {
            return argument.Parameter?.Ordinal == 0 ? OfFirst(call, method)
                : argument.Parameter?.Ordinal == 1 && TakingAsSet.Contains(method.Name) ? Fate.IsFine
                : method.Name is "Concat" or "Union" ? OfPassing(call)
                : Fate.Leaks;
        }

        if (compilation.Owns(method))
        {
            return Fate.Leaks;
        }

        if (HashTables.Is(call.Type) || HashTables.Is(call.Instance?.Type))
        {
            return HasSideEffects(call) || !ComparesByDefault(call.Arguments) ? Fate.Leaks : Fate.IsFine;
        }

        if (call.Instance is null && call.Type is { } made && type.StartsWith("System.Collections.Immutable.", StringComparison.Ordinal) && IsSorted(made))
        {
            return HasSideEffects(call) ? Fate.Leaks : OfSorted(made, call.Arguments.Where(one => one != argument));
        }

        var compares = Comparing.Contains(method.Name) && type.StartsWith("System.Collections.", StringComparison.Ordinal);
        return compares || type == "System.Collections.Generic.CollectionExtensions" && method.Name == "GetValueOrDefault" || IsComparison(method) ? Fate.IsFine : Fate.Leaks;
    }

    private Fate OfFirst(IInvocationOperation call, IMethodSymbol method)
    {
        if (Passing.Contains(method.Name))
        {
            return OfPassing(call);
        }

        if (HasSideEffects(call))
        {
            return Fate.Leaks;
        }

        return method.Name switch
        {
            var name when Reducing.Contains(name) => ComparesByDefault(call.Arguments) ? Fate.IsFine : Fate.Leaks,
            // The sum of fractions depends on the order in which they are added.
            var name when Adding.Contains(name) => IsRounded(AddedBy(method)) ? Fate.Leaks : Fate.IsFine,
            var name when Extremes.Contains(name) => call.Type is { } type && HashTables.IsTotal(type) && ComparesByDefault(call.Arguments) ? (HashTables.HasVariants(type) ? Fate.MayTie : Fate.IsFine) : Fate.Leaks,
            var name when Sorting.Contains(name) => OfSorting(call),
            _ => Fate.Leaks,
        };
    }

    /// <summary>It goes on with what it is given, in the order that this has.</summary>
    private Fate OfPassing(IInvocationOperation call)
    {
        var takesIndex = call.TargetMethod.OriginalDefinition.Parameters.Any(one => one.Type is INamedTypeSymbol { DelegateInvokeMethod.Parameters: [_, { Type.SpecialType: SpecialType.System_Int32 }] });
        return takesIndex || HasSideEffects(call) || !ComparesByDefault(call.Arguments) || KeepsFirst(call) ? Fate.Leaks : FateOf(call).Fate;
    }

    /// <summary>Of elements that an own <c>Equals</c> takes for the same it keeps the one that came first.</summary>
    private bool KeepsFirst(IInvocationOperation call) => call.TargetMethod is { Name: "Distinct" or "Union" or "Except" or "Intersect", TypeArguments: [var element] }
        && compilation.Owns(element) && element.GetMembers("Equals").Any(one => !one.IsImplicitlyDeclared);

    /// <summary>Only what is ordered by all of it has one order.</summary>
    private Fate OfSorting(IInvocationOperation call)
    {
        var element = call.TargetMethod.TypeArguments[0];
        for (IInvocationOperation? at = call; at is not null; at = ThenByOf(at))
        {
            if (HasSideEffects(at))
            {
                return Fate.Leaks;
            }

            if (ComparesByDefault(at.Arguments) && KeyOf(at, element) is { } key && HashTables.IsTotal(key))
            {
                // No two keys of a table are equal.
                return HashTables.HasVariants(key) && !HashTables.Is(Converted(call.Arguments[0].Value).Type) ? Fate.MayTie : Fate.IsFine;
            }
        }

        var hasOne = HashTables.IsTotal(element) && element is not INamedTypeSymbol { IsTupleType: true }
            || (element is INamedTypeSymbol { Name: "KeyValuePair", TypeArguments: [var first, ..] } && HashTables.IsTotal(first));
        return hasOne ? Fate.Ties : Fate.MayTie;
    }

    /// <summary>What it sorts by, where no two elements of a table have the same: they themselves, or their keys.</summary>
    private static ITypeSymbol? KeyOf(IInvocationOperation call, ITypeSymbol element)
    {
        if (call.TargetMethod.Name is "Order" or "OrderDescending")
        {
            return element;
        }

        return call.Arguments.Select(one => Converted(one.Value)).OfType<IDelegateCreationOperation>().FirstOrDefault()?.Target is IAnonymousFunctionOperation { Body.Operations: [IReturnOperation { ReturnedValue: { } returned }] }
            ? Converted(returned) switch
            {
                IParameterReferenceOperation => element,
                IPropertyReferenceOperation { Property.Name: "Key", Instance: IParameterReferenceOperation { Type: INamedTypeSymbol { Name: "KeyValuePair", TypeArguments: [var key, ..] } } } => key,
                _ => null,
            }
            : null;
    }

    private static IInvocationOperation? ThenByOf(IOperation sorted)
    {
        var at = sorted.Parent;
        while (at is IConversionOperation or IParenthesizedOperation)
        {
            at = at.Parent;
        }

        return at is IArgumentOperation { Parameter.Ordinal: 0, Parent: IInvocationOperation { TargetMethod: { Name: "ThenBy" or "ThenByDescending" } method } call } && FrameworkRules.NameOf(method.ContainingType) == Linq ? call : null;
    }

    private static Fate OfSorted(ITypeSymbol made, IEnumerable<IArgumentOperation> others) =>
        !IsSorted(made) || made is not INamedTypeSymbol named || !ComparesByDefault(others) ? Fate.Leaks
        : named.TypeArguments is [var key, ..] && HashTables.IsTotal(key) ? Fate.IsFine
        : Fate.MayTie;

    private static bool IsSorted(ITypeSymbol type) => type is INamedTypeSymbol named && Sorted.Contains(FrameworkRules.NameOf(named));

    /// <summary>The call that asks a lambda for the elements of each element.</summary>
    private static IInvocationOperation? SelectManyOf(IReturnOperation returned)
    {
        IOperation? at = returned.Parent;
        while (at is IBlockOperation or IAnonymousFunctionOperation or IDelegateCreationOperation or IConversionOperation)
        {
            at = at.Parent;
        }

        return at is IArgumentOperation { Parameter.Ordinal: 1, Parent: IInvocationOperation { TargetMethod: { Name: "SelectMany" } method } call } && FrameworkRules.NameOf(method.ContainingType) == Linq ? call : null;
    }

    private bool HasSideEffects(IInvocationOperation call) => call.Arguments.Any(one => one.Parameter?.Type.TypeKind == TypeKind.Delegate && effects.Has(one.Value));

    private static bool ComparesByDefault(IEnumerable<IArgumentOperation> arguments) => arguments.All(one => one.Parameter?.Type.Name is not ("IComparer" or "IEqualityComparer") || IsKnownComparer(one.Value));

    private static bool IsKnownComparer(IOperation value) => Converted(value) is { ConstantValue: { HasValue: true, Value: null } } or IDefaultValueOperation
        || (Converted(value) is IPropertyReferenceOperation { Property: { IsStatic: true } property }
            && $"{property.ContainingType.Name}.{property.Name}" is "StringComparer.Ordinal" or "Comparer.Default" or "EqualityComparer.Default");

    private static ITypeSymbol? AddedBy(IMethodSymbol method) => method.Parameters switch
    {
        [_, { Type: INamedTypeSymbol { DelegateInvokeMethod.ReturnType: var selected } }] => selected,
        [{ Type: INamedTypeSymbol { TypeArguments: [var element] } }] => element,
        _ => null,
    };

    private static bool IsRounded(ITypeSymbol? type) => type is { SpecialType: SpecialType.System_Single or SpecialType.System_Double } or { Name: "Half" }
        || (type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T, TypeArguments: [var value] } && IsRounded(value));

    /// <summary>It is only looked at whether it is there, or the same.</summary>
    private static bool IsCompared(IConversionOperation conversion) => conversion.Parent switch
    {
        IBinaryOperation { OperatorKind: BinaryOperatorKind.Equals or BinaryOperatorKind.NotEquals } => true,
        IIsPatternOperation { Pattern: IConstantPatternOperation or INegatedPatternOperation { Pattern: IConstantPatternOperation } } => true,
        IArgumentOperation { Parent: IInvocationOperation { TargetMethod: var method } } => IsComparison(method),
        _ => false,
    };

    private static bool IsComparison(IMethodSymbol method) => method.Name is "Equals" or "ReferenceEquals" or "ThrowIfNull" && method.ContainingNamespace.ToDisplayString().StartsWith("System", StringComparison.Ordinal);

    private static IOperation Converted(IOperation value) => value is IConversionOperation { Operand: var operand } ? Converted(operand) : value;

    private enum Fate
    {
        IsFine,

        /// <summary>Elements that compare as equal stay in the order of hash codes, and there is a key to tell them apart.</summary>
        Ties,

        /// <summary>Whether any compare as equal nobody can tell.</summary>
        MayTie,
        Leaks,
    }
}
