using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;
using Statefold.Compiler.Determinism;

namespace Statefold.Tests.Determinism;

/// <summary>No kind of operation is let through for being unheard of.</summary>
public sealed class OperationKindTests
{
    [Fact]
    public void Every_kind_is_looked_at_or_listed_as_harmless() =>
        Assert.Equal([], Enum.GetValues<OperationKind>().Distinct().Where(Operations.IsUnheardOf).Select(kind => $"{kind}"));

    [Fact]
    public void No_kind_is_in_both_tables() => Assert.Equal([], Operations.LookedAt.Intersect(Operations.Harmless));

    /// <summary>Of the compiler's interfaces, those that name a member that may run.</summary>
    [Fact]
    public void What_names_a_member_is_looked_at()
    {
        // What declares code, which is looked at by itself; what says which field or local a value is for; what the compiler makes no more.
        string[] declares = ["AnonymousFunction", "FlowAnonymousFunction", "FieldInitializer", "PropertyInitializer", "RaiseEvent", "DeclarationPattern", "CollectionElementInitializer"];
        var named = typeof(IInvocationOperation).Assembly.GetExportedTypes()
            .Where(type => type.IsInterface && type.Namespace == "Microsoft.CodeAnalysis.Operations")
            .Where(type => type.GetProperties().Any(IsMember))
            .Select(type => type.Name[1..^"Operation".Length])
            .Where(name => Enum.TryParse<OperationKind>(name, out _))
            .Except(declares);
        Assert.NotEmpty(named);
        Assert.Equal([], named.Where(name => !Operations.LookedAt.Contains(Enum.Parse<OperationKind>(name))));
    }

    private static bool IsMember(System.Reflection.PropertyInfo property) =>
        property.PropertyType == typeof(IMethodSymbol) || property.PropertyType == typeof(IPropertySymbol) || property.PropertyType == typeof(IEventSymbol)
        || property.PropertyType == typeof(IFieldSymbol) || property.PropertyType == typeof(ISymbol);
}
