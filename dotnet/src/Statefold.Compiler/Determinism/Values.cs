using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>Values that come out otherwise elsewhere: by the culture, by the hash codes of a process, by how a collection came to be.</summary>
internal sealed class Values(Breaches breaches)
{
    private static readonly HashSet<string> Formatted =
        ["System.Double", "System.Single", "System.Half", "System.Decimal", "System.DateTime", "System.DateTimeOffset", "System.DateOnly", "System.TimeOnly"];

    private static readonly HashSet<string> Removes = ["Remove", "RemoveWhere", "ExceptWith", "IntersectWith", "SymmetricExceptWith"];

    private static readonly HashSet<string> DateParsers = ["Parse", "TryParse", "ParseExact", "TryParseExact"];

    /// <summary>The code looked at defines what is equal: it combines hash codes, and nobody sees the number.</summary>
    public bool InGetHashCode { get; private set; }

    /// <summary>What is told of a hash code in the member that is looked at.</summary>
    public Rule Hash { get; private set; } = Rule.HashCode;

    /// <summary>From here on operations of that member are looked at.</summary>
    public void Enter(ISymbol? member, IOperation code)
    {
        var defines = member is IMethodSymbol method && HashFlow.Defines(method);
        InGetHashCode = defines && !HashFlow.Leaks((IMethodSymbol)member!, code);
        Hash = defines ? Rule.LeakedHash : Rule.HashCode;
    }

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
                LookAtArguments(call, FrameworkRules.NameOf(call.TargetMethod.ContainingType));
                break;
            case IMethodReferenceOperation { Method: var method } reference:
                LookAtReference(reference, method, FrameworkRules.NameOf(method.ContainingType));
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
            // A helper of the upload's own with more parameters is looked at where it is written.
            case "GetHashCode" when (method.Parameters.Length <= 1 || method.DeclaringSyntaxReferences.IsEmpty) && !InGetHashCode && !HasFixedHash(call):
                Add(Hash, call);
                break;
            // Of the two sentences about the same call, the one that matters here: what it takes of today.
            case var name when DateParsers.Contains(name) && FrameworkRules.IsDate(method.ContainingType) && OfToday(call) is not null:
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

    private void LookAtArguments(IInvocationOperation call, string type)
    {
        var method = call.TargetMethod;
        if (DateParsers.Contains(method.Name) && FrameworkRules.IsDate(method.ContainingType))
        {
            if (OfToday(call) is { } rule)
            {
                Add(rule, call);
            }

            // By the time zone of the process.
            if (call.Arguments.Any(a => a.Parameter?.Type.Name == "DateTimeStyles" && Constant(a.Value) is int styles && (styles & AssumeLocal) != 0))
            {
                Add(Rule.Environment, call);
            }
        }
        else if (TakesType(method, type) && call.Arguments.Any(a => IsType(a.Parameter?.Type) && Unwrapped(a.Value) is not ITypeOfOperation))
        {
            Add(Rule.RunTimeType, call);
        }
        else if (type == "System.Convert" && method.Name == "ChangeType" && !ChangesToKnown(call))
        {
            Add(Rule.Today, call);
        }
    }

    /// <summary>A method that is not called here: with which arguments it will be nobody knows.</summary>
    private void LookAtReference(IMethodReferenceOperation reference, IMethodSymbol method, string type)
    {
        Rule? rule = method.Name switch
        {
            "GetHashCode" when !InGetHashCode => Hash,
            var name when DateParsers.Contains(name) && FrameworkRules.IsDate(method.ContainingType) => Rule.TodayPerhaps,
            "ChangeType" when type == "System.Convert" => Rule.Today,
            _ when TakesType(method, type) => Rule.RunTimeType,
            _ => null,
        };
        if (rule is not null)
        {
            breaches.Add(rule, Places.Of(reference.Syntax), $"{method.ContainingType.Name}.{method.Name}");
        }
    }

    // DateTimeStyles.AssumeLocal.
    private const int AssumeLocal = 32;

    /// <summary>What a converter is asked of the type that it is for is its own.</summary>
    private static bool TakesType(IMethodSymbol method, string type) => type.StartsWith("System.Text.Json.", StringComparison.Ordinal)
        && !type.StartsWith("System.Text.Json.Serialization.JsonConverter", StringComparison.Ordinal) && method.Parameters.Any(p => IsType(p.Type));

    private static bool IsType(ITypeSymbol? type) => type is INamedTypeSymbol named && FrameworkRules.NameOf(named) == "System.Type";

    private static bool ChangesToKnown(IInvocationOperation call) => call.Arguments.Any(a => Unwrapped(a.Value) is ITypeOfOperation { TypeOperand: { TypeKind: not TypeKind.TypeParameter } type } && !FrameworkRules.IsDate(type))
        || call.Arguments.Any(a => a.Parameter?.Type.Name == "TypeCode" && Constant(a.Value) is int and not (int)TypeCode.DateTime);

    /// <summary>With a year in the format nothing is taken from today: the month and the day that are missing are the first.</summary>
    private static Rule? OfToday(IInvocationOperation call)
    {
        var isExact = call.TargetMethod.Name.EndsWith("Exact", StringComparison.Ordinal);
        var told = isExact ? call.Arguments.FirstOrDefault(a => a.Parameter?.Name is "format" or "formats")?.Value : call.Arguments.FirstOrDefault(a => a.Parameter?.Ordinal == 0)?.Value;
        if (told is null || TextsOf(told) is not { Count: > 0 } texts)
        {
            return Rule.TodayPerhaps;
        }

        return texts.Any(text => text is not null && !(isExact ? HasYear(text) : BeginsWithDate(text))) ? Rule.Today
            : texts.Contains(null) ? Rule.TodayPerhaps
            : null;
    }

    private static IReadOnlyList<string?> TextsOf(IOperation value) => value switch
    {
        _ when Constant(value) is string text => [text],
        IConversionOperation { Operand: var operand } => TextsOf(operand),
        IArrayCreationOperation { Initializer.ElementValues: var values } => [.. values.Select(one => Constant(one) as string)],
        ICollectionExpressionOperation { Elements: var elements } => [.. elements.Select(one => Constant(one) as string)],
        _ => [],
    };

    private static object? Constant(IOperation value) => value is { ConstantValue: { HasValue: true, Value: { } constant } } ? constant : value is IConversionOperation { Operand: var operand } ? Constant(operand) : null;

    private static bool BeginsWithDate(string text) => text.Length >= 10 && text[4] == '-' && text[7] == '-' && text.Take(4).All(char.IsAsciiDigit);

    private static bool HasYear(string format)
    {
        if (format.Length == 1)
        {
            return "dDfFgGoOrRsuUyY".Contains(format[0], StringComparison.Ordinal);
        }

        char? quote = null;
        for (var i = 0; i < format.Length; i++)
        {
            switch (format[i])
            {
                case '\\':
                    i++;
                    break;
                case '\'' or '"' when quote is null:
                    quote = format[i];
                    break;
                case var end when end == quote:
                    quote = null;
                    break;
                case 'y' when quote is null:
                    return true;
            }
        }

        return false;
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

    private static bool HasFixedHash(IInvocationOperation call) => call.Instance is { } instance && Unwrapped(instance).Type is { } type && HashTables.HasFixedHash(type);

    /// <summary>Without the conversions that the compiler adds.</summary>
    public static IOperation Unwrapped(IOperation operation)
    {
        while (operation is IConversionOperation { IsImplicit: true, OperatorMethod: null, Operand: var inner })
        {
            operation = inner;
        }

        return operation;
    }
}
