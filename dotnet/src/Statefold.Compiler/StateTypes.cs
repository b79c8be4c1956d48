using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Nodes;
using Microsoft.CodeAnalysis;

namespace Statefold.Compiler;

/// <summary>
/// Describes what the states of an upload are as JSON, in JSON Schema (2020-12): as System.Text.Json writes them with the runner's options. What its
/// serializer decides otherwise (converters of the tenant's own) is described as anything.
/// </summary>
internal sealed class StateTypes
{
    // An upload can nest generic types without end, and make many types of few words.
    private const int MaxTypes = 500;
    private const int MaxMembers = 5_000;
    private const int MaxDepth = 64;
    private const int MaxBytes = 512 * 1024;
    private const string Serialization = "System.Text.Json.Serialization.";

    private static readonly JsonSerializerOptions Relaxed = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    private readonly JsonObject definitions = [];
    private readonly JsonObject states = [];
    private readonly HashSet<string> names = new(StringComparer.Ordinal);
    private readonly Queue<(string Name, INamedTypeSymbol Type)> waiting = new();
    private int members;

    /// <summary>UTF-8 of <c>{ "states": { class: schema }, "$defs": { type: schema } }</c>, which refer to each other within it.</summary>
    public static byte[] Of(IEnumerable<(string ClassName, ITypeSymbol State)> classes)
    {
        var types = new StateTypes();
        foreach (var (className, state) in classes)
        {
            types.states[className] = types.Schema(state, 0);
        }

        while (types.waiting.TryDequeue(out var next))
        {
            types.definitions[next.Name] = types.Definition(next.Type);
        }

        var all = new JsonObject { ["states"] = types.states, ["$defs"] = types.definitions };
        var bytes = JsonSerializer.SerializeToUtf8Bytes(all, Relaxed);
        return bytes.Length <= MaxBytes ? bytes : JsonSerializer.SerializeToUtf8Bytes(Unknown(types.states.Select(one => one.Key)), Relaxed);
    }

    private static JsonObject Unknown(IEnumerable<string> classNames)
    {
        var states = new JsonObject();
        foreach (var name in classNames.ToList())
        {
            states[name] = Anything("its description is too large");
        }

        return new JsonObject { ["states"] = states, ["$defs"] = new JsonObject() };
    }

    private static JsonObject Anything(string? why = null) => why is null ? [] : new JsonObject { ["description"] = why };

    private static JsonObject OfType(string type, string dotnet, string? format = null)
    {
        var schema = new JsonObject { ["type"] = type, ["x-dotnet"] = dotnet };
        if (format is not null)
        {
            schema["format"] = format;
        }

        return schema;
    }

    private static JsonObject OrNull(JsonObject schema) => schema.Count == 0 ? schema : new JsonObject { ["anyOf"] = new JsonArray(schema, new JsonObject { ["type"] = "null" }) };

    /// <summary>With null where the type lets it be: without annotations of nullability it may be.</summary>
    private JsonObject Schema(ITypeSymbol type, int depth)
    {
        if (type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T } nullable)
        {
            return OrNull(Schema(nullable.TypeArguments[0], depth));
        }

        var schema = NotNull(type, depth);
        return type.IsReferenceType && type.NullableAnnotation != NullableAnnotation.NotAnnotated ? OrNull(schema) : schema;
    }

    private JsonObject NotNull(ITypeSymbol type, int depth)
    {
        if (depth > MaxDepth)
        {
            return Anything("it lies too deep to be described");
        }

        if (Simple(type) is { } simple)
        {
            return simple;
        }

        if (type.TypeKind == TypeKind.Enum)
        {
            return Enumeration((INamedTypeSymbol)type, ConverterOf(type));
        }

        if (ConverterOf(type) is not null)
        {
            return Anything("it has a converter of its own");
        }

        switch (type)
        {
            case IArrayTypeSymbol { Rank: 1 } array:
                return ListOf(array.ElementType, depth, unique: false);
            // Its values are fields, which are not written.
            case INamedTypeSymbol { IsTupleType: true }:
                return new JsonObject { ["type"] = "object", ["additionalProperties"] = false };
            case INamedTypeSymbol named:
                return Collection(named, depth) ?? Reference(named);
            default:
                return Anything();
        }
    }

    private JsonObject ListOf(ITypeSymbol item, int depth, bool unique)
    {
        var list = new JsonObject { ["type"] = "array", ["items"] = Schema(item, depth + 1) };
        if (unique)
        {
            list["uniqueItems"] = true;
        }

        return list;
    }

    private static JsonObject? Simple(ITypeSymbol type)
    {
        switch (type.SpecialType)
        {
            case SpecialType.System_Boolean: return OfType("boolean", "bool");
            case SpecialType.System_String: return OfType("string", "string");
            case SpecialType.System_Char: return OfType("string", "char");
            case SpecialType.System_SByte: return OfType("integer", "sbyte");
            case SpecialType.System_Byte: return OfType("integer", "byte");
            case SpecialType.System_Int16: return OfType("integer", "short");
            case SpecialType.System_UInt16: return OfType("integer", "ushort");
            case SpecialType.System_Int32: return OfType("integer", "int");
            case SpecialType.System_UInt32: return OfType("integer", "uint");
            case SpecialType.System_Int64: return OfType("integer", "long");
            case SpecialType.System_UInt64: return OfType("integer", "ulong");
            case SpecialType.System_Single: return OfType("number", "float");
            case SpecialType.System_Double: return OfType("number", "double");
            case SpecialType.System_Decimal: return OfType("number", "decimal");
            case SpecialType.System_DateTime: return OfType("string", "DateTime", "date-time");
            case SpecialType.System_Object: return Anything();
        }

        if (type is IArrayTypeSymbol { Rank: 1, ElementType.SpecialType: SpecialType.System_Byte })
        {
            return new JsonObject { ["type"] = "string", ["contentEncoding"] = "base64", ["x-dotnet"] = "byte[]" };
        }

        return type.ToDisplayString(TypeNames.Full) switch
        {
            "System.DateTimeOffset" => OfType("string", "DateTimeOffset", "date-time"),
            "System.DateOnly" => OfType("string", "DateOnly", "date"),
            "System.TimeOnly" => OfType("string", "TimeOnly"),
            "System.TimeSpan" => OfType("string", "TimeSpan"),
            "System.Guid" => OfType("string", "Guid", "uuid"),
            "System.Uri" => OfType("string", "Uri", "uri-reference"),
            "System.Version" => OfType("string", "Version"),
            "System.Half" => OfType("number", "Half"),
            "System.Int128" => OfType("integer", "Int128"),
            "System.UInt128" => OfType("integer", "UInt128"),
            "System.Memory<byte>" or "System.ReadOnlyMemory<byte>" => new JsonObject { ["type"] = "string", ["contentEncoding"] = "base64", ["x-dotnet"] = "byte[]" },
            "System.Text.Json.JsonElement" or "System.Text.Json.JsonDocument" or "System.Text.Json.Nodes.JsonNode" or "System.Text.Json.Nodes.JsonValue" => Anything(),
            "System.Text.Json.Nodes.JsonObject" => new JsonObject { ["type"] = "object" },
            "System.Text.Json.Nodes.JsonArray" => new JsonObject { ["type"] = "array" },
            _ => null,
        };
    }

    private static INamedTypeSymbol? ConverterOf(ISymbol symbol) =>
        Attribute(symbol, "JsonConverterAttribute") is { } attribute
            ? attribute.ConstructorArguments is [{ Value: INamedTypeSymbol converter }] ? converter : attribute.AttributeClass
            : null;

    private static AttributeData? Attribute(ISymbol symbol, string name) =>
        symbol.GetAttributes().FirstOrDefault(one => IsOrDerives(one.AttributeClass, Serialization + name));

    private static bool IsOrDerives(INamedTypeSymbol? type, string name)
    {
        for (; type is not null; type = type.BaseType)
        {
            if (type.ToDisplayString(TypeNames.Full) == name)
            {
                return true;
            }
        }

        return false;
    }

    private JsonObject Enumeration(INamedTypeSymbol type, INamedTypeSymbol? converter)
    {
        var values = type.GetMembers().OfType<IFieldSymbol>().Where(field => field.HasConstantValue).ToList();
        var isFlags = type.GetAttributes().Any(one => one.AttributeClass?.ToDisplayString(TypeNames.Full) == "System.FlagsAttribute");
        if (converter is null)
        {
            var numbers = new SortedSet<decimal>(values.Select(field => Convert.ToDecimal(field.ConstantValue, null)));
            // Of a member that was never set.
            numbers.Add(0);
            members += numbers.Count;
            if (isFlags || members > MaxMembers)
            {
                return OfType("integer", type.ToDisplayString(TypeNames.Full));
            }

            return new JsonObject { ["enum"] = new JsonArray([.. numbers.Select(number => JsonNode.Parse(number.ToString(System.Globalization.CultureInfo.InvariantCulture)))]), ["x-dotnet"] = type.ToDisplayString(TypeNames.Full), ["x-names"] = new JsonArray([.. values.Select(field => (JsonNode)field.Name)]) };
        }

        // A naming policy, or a class of the tenant's own, may write other names.
        if (converter.ToDisplayString(TypeNames.Full) is var name && name != Serialization + "JsonStringEnumConverter" && !name.StartsWith(Serialization + "JsonStringEnumConverter<", StringComparison.Ordinal))
        {
            return Anything("it has a converter of its own");
        }

        members += values.Count;
        var texts = values.Select(field => Attribute(field, "JsonStringEnumMemberNameAttribute") is { ConstructorArguments: [{ Value: string text }] } ? text : field.Name).Distinct(StringComparer.Ordinal);
        return isFlags || members > MaxMembers || values.Count == 0
            ? OfType("string", type.ToDisplayString(TypeNames.Full))
            : new JsonObject { ["enum"] = new JsonArray([.. texts.Select(text => (JsonNode)text)]), ["x-dotnet"] = type.ToDisplayString(TypeNames.Full) };
    }

    /// <summary>Dictionaries are objects, everything else that can be enumerated is an array.</summary>
    private JsonObject? Collection(INamedTypeSymbol type, int depth)
    {
        INamedTypeSymbol? list = null;
        foreach (var one in type.AllInterfaces.Prepend(type))
        {
            switch (one.OriginalDefinition.ToDisplayString(TypeNames.Full))
            {
                case "System.Collections.Generic.IDictionary<TKey, TValue>" or "System.Collections.Generic.IReadOnlyDictionary<TKey, TValue>":
                    return new JsonObject { ["type"] = "object", ["additionalProperties"] = Schema(one.TypeArguments[1], depth + 1) };
                case "System.Collections.IDictionary":
                    return new JsonObject { ["type"] = "object" };
                case "System.Collections.Generic.IEnumerable<T>":
                    list ??= one;
                    break;
                case "System.Collections.Generic.IAsyncEnumerable<T>":
                    return Anything();
            }
        }

        if (list is null)
        {
            return type.AllInterfaces.Prepend(type).Any(one => one.SpecialType == SpecialType.System_Collections_IEnumerable) ? new JsonObject { ["type"] = "array" } : null;
        }

        var unique = type.AllInterfaces.Prepend(type).Any(one => one.OriginalDefinition.ToDisplayString(TypeNames.Full) is "System.Collections.Generic.ISet<T>" or "System.Collections.Generic.IReadOnlySet<T>");
        return ListOf(list.TypeArguments[0], depth, unique);
    }

    private JsonObject Reference(INamedTypeSymbol type)
    {
        var name = type.ToDisplayString(TypeNames.Full);
        if (names.Add(name))
        {
            if (names.Count > MaxTypes)
            {
                names.Remove(name);
                return Anything("there are too many types to describe them all");
            }

            waiting.Enqueue((name, type));
        }

        return new JsonObject { ["$ref"] = $"#/$defs/{name.Replace("~", "~0", StringComparison.Ordinal).Replace("/", "~1", StringComparison.Ordinal)}" };
    }

    /// <summary>Of a class, record, struct or interface, with what it may be by <c>[JsonDerivedType]</c>.</summary>
    private JsonObject Definition(INamedTypeSymbol type)
    {
        var derived = type.GetAttributes().Where(one => one.AttributeClass?.ToDisplayString(TypeNames.Full) == Serialization + "JsonDerivedTypeAttribute").ToList();
        if (derived.Count == 0)
        {
            return Members(type, null);
        }

        var discriminator = Attribute(type, "JsonPolymorphicAttribute")?.NamedArguments.FirstOrDefault(one => one.Key == "TypeDiscriminatorPropertyName").Value.Value as string ?? "$type";
        var kinds = new JsonArray();
        foreach (var arguments in derived.Select(one => one.ConstructorArguments))
        {
            if (arguments is [{ Value: INamedTypeSymbol one }, ..])
            {
                kinds.Add(Members(one, arguments.Length > 1 && arguments[1].Value is { } value ? (discriminator, JsonValue.Create(value) as JsonNode) : null));
            }
        }

        if (!type.IsAbstract && derived.All(one => !SymbolEqualityComparer.Default.Equals(one.ConstructorArguments[0].Value as ISymbol, type)))
        {
            kinds.Add(Members(type, null));
        }

        return new JsonObject { ["anyOf"] = kinds };
    }

    private JsonObject Members(INamedTypeSymbol type, (string Name, JsonNode? Value)? discriminator)
    {
        var properties = new JsonObject();
        var required = new JsonArray();
        var open = false;
        if (discriminator is { } told)
        {
            properties[told.Name] = new JsonObject { ["const"] = told.Value };
            required.Add(told.Name);
        }

        var seen = new HashSet<string>(StringComparer.Ordinal);
        foreach (var (member, memberType) in Serialized(type, seen))
        {
            if (++members > MaxMembers)
            {
                return Anything("there are too many members to describe them all");
            }

            if (Attribute(member, "JsonExtensionDataAttribute") is not null)
            {
                open = true;
                continue;
            }

            var ignored = Attribute(member, "JsonIgnoreAttribute")?.NamedArguments.FirstOrDefault(one => one.Key == "Condition").Value.Value as int?;
            var name = Attribute(member, "JsonPropertyNameAttribute") is { ConstructorArguments: [{ Value: string given }] } ? given : JsonNamingPolicy.CamelCase.ConvertName(member.Name);
            // Of a struct that was never set they are null, whatever they are declared.
            var schema = Member(member, memberType);
            properties[name] = type.IsValueType && memberType is { IsReferenceType: true, NullableAnnotation: NullableAnnotation.NotAnnotated } ? OrNull(schema) : schema;
            // 2 and 3: left out where it is the default, or null.
            if (ignored is not (2 or 3))
            {
                required.Add(name);
            }
        }

        var all = new JsonObject { ["type"] = "object", ["properties"] = properties };
        if (required.Count > 0)
        {
            all["required"] = required;
        }

        if (!open)
        {
            all["additionalProperties"] = false;
        }

        all["x-dotnet"] = type.ToDisplayString(TypeNames.Full);
        return all;
    }

    private JsonObject Member(ISymbol member, ITypeSymbol type)
    {
        if (ConverterOf(member) is { } converter)
        {
            var bare = type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T } nullable ? nullable.TypeArguments[0] : type;
            if (bare.TypeKind != TypeKind.Enum)
            {
                return Anything("it has a converter of its own");
            }

            var schema = Enumeration((INamedTypeSymbol)bare, converter);
            return SymbolEqualityComparer.Default.Equals(bare, type) ? schema : OrNull(schema);
        }

        // Numbers as strings, or some of them.
        return Attribute(member, "JsonNumberHandlingAttribute") is not null ? Anything("it has a number handling of its own") : Schema(type, 0);
    }

    /// <summary>What the serializer writes: public properties that can be read, and what is included; the most derived one of a name.</summary>
    private static IEnumerable<(ISymbol Member, ITypeSymbol Type)> Serialized(INamedTypeSymbol type, HashSet<string> seen)
    {
        var levels = type.TypeKind == TypeKind.Interface ? type.AllInterfaces.Prepend(type) : Bases(type);
        foreach (var level in levels)
        {
            foreach (var member in level.GetMembers())
            {
                var included = Attribute(member, "JsonIncludeAttribute") is not null;
                var memberType = member switch
                {
                    IPropertySymbol { IsStatic: false, IsIndexer: false, GetMethod: { } getter } property
                        when included || (property.DeclaredAccessibility == Accessibility.Public && getter.DeclaredAccessibility == Accessibility.Public) => property.Type,
                    IFieldSymbol { IsStatic: false, IsImplicitlyDeclared: false } field when included => field.Type,
                    _ => null,
                };
                if (memberType is null || !seen.Add(member.Name) || IsIgnored(member))
                {
                    continue;
                }

                yield return (member, memberType);
            }
        }
    }

    private static bool IsIgnored(ISymbol member) =>
        Attribute(member, "JsonIgnoreAttribute") is { } ignore &&
        // 1: always, which it is unless a condition is named.
        ignore.NamedArguments.FirstOrDefault(one => one.Key == "Condition").Value.Value is null or 1;

    private static IEnumerable<INamedTypeSymbol> Bases(INamedTypeSymbol type)
    {
        for (INamedTypeSymbol? at = type; at is not null && at.SpecialType is not (SpecialType.System_Object or SpecialType.System_ValueType); at = at.BaseType)
        {
            yield return at;
        }
    }
}
