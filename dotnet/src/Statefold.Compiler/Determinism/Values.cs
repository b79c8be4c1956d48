using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>Values that come out otherwise elsewhere: by the culture, by the hash codes of a process, by how a collection came to be.</summary>
internal sealed class Values(Breaches breaches)
{
    private static readonly HashSet<string> Formatted =
        ["System.Double", "System.Single", "System.Half", "System.Decimal", "System.DateTime", "System.DateTimeOffset", "System.DateOnly", "System.TimeOnly"];

    private static readonly HashSet<string> FixedHashes = ["System.Guid", "System.DateTimeOffset", "System.DateOnly", "System.TimeOnly", "System.TimeSpan"];

    private static readonly HashSet<string> ByHash =
    [
        "System.Collections.Hashtable", "System.Collections.Concurrent.ConcurrentDictionary`2", "System.Collections.Concurrent.ConcurrentBag`1",
        "System.Collections.Immutable.ImmutableDictionary`2", "System.Collections.Immutable.ImmutableHashSet`1",
        "System.Collections.Frozen.FrozenDictionary`2", "System.Collections.Frozen.FrozenSet`1",
    ];

    private static readonly HashSet<string> Removes = ["Remove", "RemoveWhere", "ExceptWith", "IntersectWith", "SymmetricExceptWith"];

    /// <summary>The code looked at defines what is equal: it combines hash codes, and nobody sees the number.</summary>
    public bool InGetHashCode { get; set; }

    public void Look(IOperation operation)
    {
        if (breaches.Full)
        {
            return;
        }

        switch (operation)
        {
            case IInvocationOperation call:
                LookAtCall(call, FrameworkRules.NameOf(call.TargetMethod.ContainingType));
                break;
            case IForEachLoopOperation { Collection: var collection } when Unwrapped(collection).Type is INamedTypeSymbol type && ByHash.Contains(FrameworkRules.NameOf(type)):
                breaches.Add(Rule.Order, collection.Syntax.GetLocation(), $"foreach over {type.Name}");
                break;
            case IInterpolationOperation { FormatString: null, Expression: { Type: { } type } value } interpolation when IsFormatted(type) && !IsTold(interpolation):
                breaches.Add(Rule.CultureFormat, value.Syntax.GetLocation(), $"{{{Places.TextOf(value.Syntax)}}}");
                break;
        }
    }

    private void LookAtCall(IInvocationOperation call, string type)
    {
        var method = call.TargetMethod;
        switch (method.Name)
        {
            case "GetHashCode" when method.Parameters.Length <= 1 && !InGetHashCode && !HasFixedHash(call):
                Add(Rule.HashCode, call);
                break;
            case "Parse" or "TryParse" or "ParseExact" or "TryParseExact" or "ToString" when Formatted.Contains(type) && !Takes(method, "IFormatProvider"):
                // A format was chosen: that of a name, or of places and digits.
                if (method.Name != "ToString" || method.Parameters.IsEmpty)
                {
                    Add(Rule.CultureFormat, call);
                }

                break;
            case "ToDouble" or "ToSingle" or "ToDecimal" or "ToDateTime" when type == "System.Convert" && method.Parameters is [{ Type.SpecialType: SpecialType.System_String }]:
                Add(Rule.CultureFormat, call);
                break;
            case "Compare" when type == "System.String" && method.Parameters.All(p => p.Type.Name is not ("StringComparison" or "CultureInfo")):
            case "CompareTo" when type == "System.String":
            case "ToUpper" or "ToLower" when type == "System.String" && method.Parameters.IsEmpty:
            case "StartsWith" or "EndsWith" or "IndexOf" or "LastIndexOf" when type == "System.String" && IsText(method.Parameters[0].Type) && method.Parameters.All(p => p.Type.Name is not ("StringComparison" or "CultureInfo")):
                Add(Rule.CultureText, call);
                break;
            case var name when Removes.Contains(name) && type is "System.Collections.Generic.Dictionary`2" or "System.Collections.Generic.HashSet`1":
                Add(Rule.Order, call);
                break;
        }
    }

    private void Add(Rule rule, IInvocationOperation call) =>
        breaches.Add(rule, Places.Of(call.Syntax), $"{call.TargetMethod.ContainingType.Name}.{call.TargetMethod.Name}");

    private static bool IsText(ITypeSymbol type) => type.SpecialType == SpecialType.System_String;

    private static bool Takes(IMethodSymbol method, string parameterType) => method.Parameters.Any(p => p.Type.Name == parameterType);

    private static bool IsFormatted(ITypeSymbol type) =>
        type is INamedTypeSymbol named && (Formatted.Contains(FrameworkRules.NameOf(named)) || (named.OriginalDefinition.SpecialType == SpecialType.System_Nullable_T && IsFormatted(named.TypeArguments[0])));

    /// <summary>It goes where the culture is told, or only into the message of an exception.</summary>
    private static bool IsTold(IOperation operation)
    {
        for (var at = operation.Parent; at is not null; at = at.Parent)
        {
            if (at is IThrowOperation or IInterpolatedStringHandlerCreationOperation or IConversionOperation { Type.Name: "FormattableString" or "IFormattable" })
            {
                return true;
            }
        }

        return false;
    }

    private static bool HasFixedHash(IInvocationOperation call)
    {
        if (call.Instance is null)
        {
            return false;
        }

        var type = Unwrapped(call.Instance).Type;
        return type is { TypeKind: TypeKind.Enum } or { SpecialType: >= SpecialType.System_Boolean and <= SpecialType.System_Double } or { SpecialType: SpecialType.System_DateTime }
            || (type is INamedTypeSymbol named && FixedHashes.Contains(FrameworkRules.NameOf(named)));
    }

    private static IOperation Unwrapped(IOperation operation)
    {
        while (operation is IConversionOperation { IsImplicit: true, OperatorMethod: null, Operand: var inner })
        {
            operation = inner;
        }

        return operation;
    }
}
