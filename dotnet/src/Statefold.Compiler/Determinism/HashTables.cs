using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

/// <summary>Types whose elements come in the order of hash codes.</summary>
internal static class HashTables
{
    private static readonly HashSet<string> Names =
    [
        "System.Collections.Hashtable", "System.Collections.DictionaryBase", "System.Collections.Specialized.HybridDictionary", "System.Collections.Specialized.StringDictionary",
        "System.Collections.Concurrent.ConcurrentDictionary`2", "System.Collections.Concurrent.ConcurrentBag`1",
        "System.Collections.Immutable.ImmutableDictionary`2", "System.Collections.Immutable.ImmutableHashSet`1",
        "System.Collections.Immutable.ImmutableDictionary`2.Builder", "System.Collections.Immutable.ImmutableHashSet`1.Builder",
        // What JSON reads into these is one.
        "System.Collections.Immutable.IImmutableDictionary`2", "System.Collections.Immutable.IImmutableSet`1",
        "System.Collections.Frozen.FrozenDictionary`2", "System.Collections.Frozen.FrozenSet`1",
    ];

    private static readonly HashSet<string> FixedHashes = ["System.Guid", "System.DateTimeOffset", "System.DateOnly", "System.TimeOnly", "System.TimeSpan"];

    /// <summary>A hash table, or an own type that is derived from one.</summary>
    public static bool Is(ITypeSymbol? type) => Find(type) is not null;

    /// <summary>Its keys have hash codes that are other ones in every process.</summary>
    public static bool IsRandom(ITypeSymbol type) => Find(type) is { } found && KeyOf(found) is var key && (key is null || !HasFixedHash(key)) && found.Name != "ConcurrentBag";

    /// <summary>The hash codes of its values are the same in every process.</summary>
    public static bool HasFixedHash(ITypeSymbol type) =>
        type is { TypeKind: TypeKind.Enum } or { SpecialType: >= SpecialType.System_Boolean and <= SpecialType.System_Double } or { SpecialType: SpecialType.System_DateTime }
        || (type is INamedTypeSymbol named && FixedHashes.Contains(FrameworkRules.NameOf(named)))
        || (type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T, TypeArguments: [var value] } && HasFixedHash(value));

    /// <summary>Two of its values that compare as equal by default are the same: a text, a number, a time, or several of them.</summary>
    public static bool IsTotal(ITypeSymbol type) =>
        type.SpecialType == SpecialType.System_String || HasFixedHash(type) || (type is INamedTypeSymbol { IsTupleType: true } tuple && tuple.TupleElements.All(element => IsTotal(element.Type)));

    /// <summary>Of these equal ones may be written in different ways: <c>1.0</c> and <c>1.00</c>, one moment by two clocks, the two zeros.</summary>
    public static bool HasVariants(ITypeSymbol type) =>
        type is { SpecialType: SpecialType.System_Decimal or SpecialType.System_Single or SpecialType.System_Double or SpecialType.System_DateTime } or { Name: "DateTimeOffset" }
        || (type is INamedTypeSymbol { TypeArguments: { Length: > 0 } arguments } && arguments.Any(HasVariants));

    /// <summary>The type itself, its elements or its type arguments are hash tables.</summary>
    public static bool Mentions(ITypeSymbol? type) => Mentioned(type) is not null;

    /// <summary>The first hash table in it.</summary>
    public static INamedTypeSymbol? Mentioned(ITypeSymbol? type) => type switch
    {
        _ when Find(type) is { } found => found,
        IArrayTypeSymbol { ElementType: var element } => Mentioned(element),
        INamedTypeSymbol named => named.TypeArguments.Select(Mentioned).FirstOrDefault(one => one is not null),
        _ => null,
    };

    /// <summary>Whoever has a value as <paramref name="to"/> can't tell from that type that there is a hash table in it.</summary>
    public static bool Hides(ITypeSymbol? from, ITypeSymbol? to)
    {
        (from, to) = (Value(from), Value(to));
        if (from is null || to is null || SymbolEqualityComparer.Default.Equals(from, to))
        {
            return false;
        }

        if (Is(from))
        {
            return !Is(to);
        }

        return (from, to) switch
        {
            (IArrayTypeSymbol { ElementType: var one }, IArrayTypeSymbol { ElementType: var other }) => Hides(one, other),
            (IArrayTypeSymbol { ElementType: var one }, INamedTypeSymbol { TypeArguments: [var other] }) => Hides(one, other),
            (INamedTypeSymbol one, INamedTypeSymbol { IsGenericType: true } other) when Same(one, other) is { } same =>
                other.TypeParameters.Select((parameter, i) => parameter.Variance == VarianceKind.In ? Hides(other.TypeArguments[i], same.TypeArguments[i]) : Hides(same.TypeArguments[i], other.TypeArguments[i])).Any(hides => hides),
            _ => Mentions(from),
        };
    }

    private static ITypeSymbol? Value(ITypeSymbol? type) => type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T, TypeArguments: [var value] } ? value : type;

    /// <summary>As which <paramref name="type"/> is an <paramref name="other"/>, with its own type arguments.</summary>
    private static INamedTypeSymbol? Same(INamedTypeSymbol type, INamedTypeSymbol other)
    {
        for (var at = type; at is not null; at = at.BaseType)
        {
            if (SymbolEqualityComparer.Default.Equals(at.OriginalDefinition, other.OriginalDefinition))
            {
                return at;
            }
        }

        return type.AllInterfaces.FirstOrDefault(one => SymbolEqualityComparer.Default.Equals(one.OriginalDefinition, other.OriginalDefinition));
    }

    private static INamedTypeSymbol? Find(ITypeSymbol? type)
    {
        for (var at = type as INamedTypeSymbol; at is not null; at = at.BaseType)
        {
            if (Names.Contains(FrameworkRules.NameOf(at)))
            {
                return at;
            }
        }

        return null;
    }

    /// <summary>Null: any object.</summary>
    private static ITypeSymbol? KeyOf(INamedTypeSymbol table) => table.TypeArguments.FirstOrDefault() ?? table.ContainingType?.TypeArguments.FirstOrDefault();
}
