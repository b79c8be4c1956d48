using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// Types that come into being without an operation that says so: type arguments, whose objects generic code makes, and what JSON is read
/// into, with the types of its members.
/// </summary>
internal sealed class TypesInUse(Compilation compilation, FrameworkRules framework, Breaches breaches)
{
    // Of types that JSON may be read into, with all that is in them.
    private readonly Dictionary<ITypeSymbol, (Rule Rule, ITypeSymbol Type)?> deep = new(SymbolEqualityComparer.Default);

    public void Look(IOperation operation)
    {
        switch (operation)
        {
            case IInvocationOperation { TargetMethod: var method }:
                LookAtArguments(method.TypeParameters, method.TypeArguments, Reads(method), operation.Syntax, method.Name);
                LookAtType(method.IsStatic ? method.ContainingType : null, operation.Syntax, method.Name);
                if (method is { Name: "EnsureInitialized", TypeArguments: [var made] } && FrameworkRules.NameOf(method.ContainingType) == "System.Threading.LazyInitializer" && !TakesDelegate(method))
                {
                    LookAtMade(made, operation.Syntax, method.Name);
                }

                break;
            case IMethodReferenceOperation { Method: var method }:
                LookAtArguments(method.TypeParameters, method.TypeArguments, Reads(method), operation.Syntax, method.Name);
                LookAtType(method.IsStatic ? method.ContainingType : null, operation.Syntax, method.Name);
                break;
            case IObjectCreationOperation { Constructor: { } constructor, Type: INamedTypeSymbol type }:
                LookAtType(type, operation.Syntax, $"new {type.Name}");
                if (FrameworkRules.NameOf(type) is "System.Lazy`1" or "System.Lazy`2" && !TakesDelegate(constructor) && !TakesValue(constructor, type))
                {
                    LookAtMade(type.TypeArguments[0], operation.Syntax, $"new {type.Name}");
                }

                break;
            case IMemberReferenceOperation { Instance: null, Member: { IsStatic: true, ContainingType: { } type } member }:
                LookAtType(type, operation.Syntax, member.Name);
                break;
            // An object of it may be made by whoever is given the type.
            case ITypeOfOperation { TypeOperand: var type }:
                Tell(Deep(type), operation.Syntax, "typeof");
                break;
        }
    }

    /// <summary>What an own type inherits, and what its states are read into.</summary>
    public void LookAtBases(INamedTypeSymbol type)
    {
        foreach (var parent in type.Interfaces.Append(type.BaseType).OfType<INamedTypeSymbol>())
        {
            var isFold = FrameworkRules.NameOf(parent) is "Statefold.IReducer`1" or "Statefold.IProjection`1" or "Statefold.IMultiKeyProjection`1";
            foreach (var (parameter, argument) in parent.TypeParameters.Zip(parent.TypeArguments))
            {
                var found = (isFold ? Deep(argument) : OfType(argument)) ?? (parameter.HasConstructorConstraint ? Made(argument) : null);
                if (found is { } breach)
                {
                    breaches.Add(breach.Rule, type.Locations.FirstOrDefault(), $"{type.Name} : {parent.Name}<{breach.Type.Name}>");
                }
            }
        }
    }

    private void LookAtType(INamedTypeSymbol? type, SyntaxNode syntax, string subject)
    {
        for (; type is not null; type = type.ContainingType)
        {
            LookAtArguments(type.TypeParameters, type.TypeArguments, compilation.Owns(type), syntax, subject);
        }
    }

    private void LookAtArguments(IReadOnlyList<ITypeParameterSymbol> parameters, IReadOnlyList<ITypeSymbol> arguments, bool reads, SyntaxNode syntax, string subject)
    {
        for (var i = 0; i < arguments.Count && !breaches.Full; i++)
        {
            if (FrameworkRules.IsDate(arguments[i]) && parameters[i].ConstraintTypes.Any(IsParsable))
            {
                breaches.Add(Rule.Today, Places.Of(syntax), $"{subject}<{arguments[i].Name}>");
            }

            Tell((reads ? Deep(arguments[i]) : OfType(arguments[i])) ?? (parameters[i].HasConstructorConstraint ? Made(arguments[i]) : null), syntax, subject);
        }
    }

    private void LookAtMade(ITypeSymbol type, SyntaxNode syntax, string subject) => Tell(Made(type), syntax, subject);

    private void Tell((Rule Rule, ITypeSymbol Type)? found, SyntaxNode syntax, string subject)
    {
        if (found is { } breach)
        {
            breaches.Add(breach.Rule, Places.Of(syntax), $"{subject}<{breach.Type.Name}>");
        }
    }

    /// <summary>It may read JSON into its type arguments: it does, or it is the upload's own.</summary>
    private bool Reads(IMethodSymbol method) =>
        compilation.Owns(method) || method.ContainingNamespace?.ToDisplayString() is { } space && (space == "Statefold" || space.StartsWith("System.Text.Json", StringComparison.Ordinal));

    private static bool TakesDelegate(IMethodSymbol method) => method.Parameters.Any(p => p.Type.TypeKind == TypeKind.Delegate);

    private static bool TakesValue(IMethodSymbol constructor, INamedTypeSymbol type) => constructor.Parameters.Any(p => SymbolEqualityComparer.Default.Equals(p.Type, type.TypeArguments[0]));

    /// <summary>The constructor that generic code calls.</summary>
    private (Rule Rule, ITypeSymbol Type)? Made(ITypeSymbol type) =>
        type is INamedTypeSymbol named && !compilation.Owns(named) && named.InstanceConstructors.FirstOrDefault(c => c.Parameters.IsEmpty) is { } constructor && framework.Of(constructor) is { IsError: true } rule
            ? (rule, type)
            : null;

    private (Rule Rule, ITypeSymbol Type)? OfType(ITypeSymbol type) => type switch
    {
        IArrayTypeSymbol { ElementType: var element } => OfType(element),
        INamedTypeSymbol { IsAnonymousType: false } named when !compilation.Owns(named) && framework.OfType(named) is { IsError: true } rule => (rule, named),
        INamedTypeSymbol named => named.TypeArguments.Select(OfType).FirstOrDefault(found => found is not null),
        _ => null,
    };

    /// <summary>The type, its arguments, and what is in it as JSON reads it: the public properties and fields of own types, what their constructors take.</summary>
    private (Rule Rule, ITypeSymbol Type)? Deep(ITypeSymbol type)
    {
        if (deep.TryGetValue(type, out var found))
        {
            return found;
        }

        foreach (var one in Reached(type).OfType<INamedTypeSymbol>())
        {
            found = OfType(one) ?? Made(one);
            if (found is not null)
            {
                break;
            }
        }

        return deep[type] = found;
    }

    /// <summary>The first of what JSON reads into the type, or writes of it, that is asked for.</summary>
    public ITypeSymbol? Reached(ITypeSymbol type, Func<ITypeSymbol, bool> wanted) => Reached(type).FirstOrDefault(wanted);

    private IEnumerable<ITypeSymbol> Reached(ITypeSymbol type)
    {
        // Each type once, also where types hold each other; on a stack of its own, however long the chain.
        var seen = new HashSet<ITypeSymbol>(SymbolEqualityComparer.Default) { type };
        var left = new Stack<ITypeSymbol>(seen);
        while (left.TryPop(out var one))
        {
            yield return one;
            foreach (var inner in Inner(one).Where(seen.Add))
            {
                left.Push(inner);
            }
        }
    }

    private IEnumerable<ITypeSymbol> Inner(ITypeSymbol type) => type switch
    {
        IArrayTypeSymbol { ElementType: var element } => [element],
        INamedTypeSymbol named when compilation.Owns(named) || named.IsAnonymousType =>
        [
            .. named.TypeArguments,
            .. NamedByAttributes(named),
            .. named.GetMembers().OfType<IPropertySymbol>().Where(IsRead).Select(p => p.Type),
            .. named.GetMembers().OfType<IFieldSymbol>().Where(IsRead).Select(f => f.Type),
            .. named.InstanceConstructors.Where(c => IsCalled(c) && !IsCopy(c)).SelectMany(c => c.Parameters).Select(p => p.Type),
            .. named.BaseType is { } parent && compilation.Owns(parent) ? [parent] : Array.Empty<ITypeSymbol>(),
        ],
        INamedTypeSymbol named => named.TypeArguments,
        _ => [],
    };

    private static bool IsRead(ISymbol member) =>
        !member.IsStatic && !member.IsImplicitlyDeclared && (member.DeclaredAccessibility == Accessibility.Public || HasAttribute(member, "JsonIncludeAttribute"));

    private static bool IsCalled(IMethodSymbol constructor) => constructor.DeclaredAccessibility == Accessibility.Public || HasAttribute(constructor, "JsonConstructorAttribute");

    /// <summary>What JSON may be read into instead of it: <c>[JsonDerivedType(typeof(Circle))]</c>.</summary>
    private static IEnumerable<ITypeSymbol> NamedByAttributes(ISymbol type) =>
        type.GetAttributes().SelectMany(a => a.ConstructorArguments).Where(a => a.Kind == TypedConstantKind.Type).Select(a => a.Value).OfType<ITypeSymbol>();

    private static bool HasAttribute(ISymbol member, string name) => member.GetAttributes().Any(a => a.AttributeClass?.Name == name);

    /// <summary>Generic code parses by it: <c>T.Parse(text, provider)</c>.</summary>
    private static bool IsParsable(ITypeSymbol constraint) => constraint.AllInterfaces.Append(constraint).Any(one => one.Name is "IParsable" or "ISpanParsable" or "IUtf8SpanParsable");

    private static bool IsCopy(IMethodSymbol constructor) => constructor.Parameters is [{ Type: var only }] && SymbolEqualityComparer.Default.Equals(only, constructor.ContainingType);
}
