using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// What of the framework a fold may use: that computes from what it is given, and from nothing else. What is not named here is
/// refused, so that nothing is let through for being new or unheard of. The list is in <c>docs/reference/determinism.md</c> too.
/// </summary>
internal static class Allowed
{
    /// <summary>All of their types, less <see cref="Excepted"/>; of the namespaces below them nothing.</summary>
    private static readonly HashSet<string> Namespaces =
    [
        "System.Buffers.Binary", "System.Buffers.Text", "System.Collections", "System.Collections.Concurrent", "System.Collections.Frozen", "System.Collections.Generic",
        "System.Collections.Immutable", "System.Collections.ObjectModel", "System.Collections.Specialized", "System.Diagnostics.CodeAnalysis", "System.Globalization",
        "System.IO.Compression", "System.Linq", "System.Numerics", "System.Runtime.Intrinsics", "System.Text", "System.Text.Encodings.Web",
        "System.Text.Json", "System.Text.Json.Nodes", "System.Text.Json.Serialization",
        "System.Text.RegularExpressions", "System.Text.Unicode", "System.Xml", "System.Xml.Linq", "System.Xml.XPath",
    ];

    /// <summary>Of those namespaces: what reaches for files or the network, changes what all code of the process shares, or makes code at run time.</summary>
    private static readonly HashSet<string> Excepted =
    [
        "System.Collections.Generic.IAsyncEnumerable", "System.Collections.Generic.IAsyncEnumerator", "System.IO.Compression.ZipFile", "System.IO.Compression.ZipFileExtensions",
        "System.Linq.AsyncEnumerable", "System.Linq.EnumerableExecutor", "System.Linq.EnumerableQuery", "System.Linq.IOrderedQueryable", "System.Linq.IQueryProvider", "System.Linq.IQueryable",
        "System.Linq.OrderedParallelQuery", "System.Linq.ParallelEnumerable", "System.Linq.ParallelQuery", "System.Linq.Queryable", "System.Text.CodePagesEncodingProvider", "System.Text.EncodingProvider",
        "System.Text.Json.Serialization.JsonSerializerContext",
        "System.Text.RegularExpressions.RegexRunner", "System.Text.RegularExpressions.RegexRunnerFactory", "System.Xml.XmlDataDocument", "System.Xml.XmlResolver",
        "System.Xml.XmlSecureResolver", "System.Xml.XmlTextReader", "System.Xml.XmlUrlResolver", "System.Xml.XmlValidatingReader",
    ];

    /// <summary>Of namespaces that have other types as well; without the number of their type parameters.</summary>
    private static readonly Dictionary<string, HashSet<string>> Types = new()
    {
        ["System"] =
        [
            "Array", "ArraySegment", "Attribute", "BitConverter", "Boolean", "Buffer", "Byte", "Char", "CharEnumerator", "Convert", "DBNull", "DateOnly", "DateTime", "DateTimeOffset",
            "Decimal", "Delegate", "Double", "Enum", "EventArgs", "FormattableString", "Guid", "Half", "IAsyncDisposable", "ICloneable", "IComparable", "IConvertible",
            "ICustomFormatter", "IDisposable", "IEquatable", "IFormatProvider", "IFormattable", "IObservable", "IObserver", "IParsable", "IProgress", "IServiceProvider",
            "ISpanFormattable", "ISpanParsable", "IUtf8SpanFormattable", "IUtf8SpanParsable", "Index", "Int128", "Int16", "Int32", "Int64", "IntPtr", "Lazy", "Math", "MathF", "Memory",
            "MemoryExtensions", "MulticastDelegate", "Nullable", "Object", "Random", "Range", "ReadOnlyMemory", "ReadOnlySpan", "SByte", "Single", "Span", "String",
            "StringComparer", "StringNormalizationExtensions", "TimeOnly", "TimeSpan", "TimeZoneInfo", "Tuple", "TupleExtensions", "Type", "UInt128", "UInt16", "UInt32", "UInt64", "UIntPtr",
            "Uri", "UriBuilder", "UriCreationOptions", "ValueTuple", "ValueType", "Version", "Void",
        ],
        ["System.Buffers"] =
        [
            "ArrayBufferWriter", "IBufferWriter", "SearchValues", "StandardFormat",
        ],
        ["System.ComponentModel"] =
        [
            "CategoryAttribute", "DefaultValueAttribute", "DescriptionAttribute", "DisplayNameAttribute", "INotifyPropertyChanged", "INotifyPropertyChanging", "PropertyChangedEventArgs",
            "PropertyChangingEventArgs",
        ],
        ["System.Diagnostics"] = ["Debug"],
        ["System.Drawing"] = ["Color", "Point", "PointF", "Rectangle", "RectangleF", "Size", "SizeF"],
        ["System.IO"] =
        [
            "BinaryReader", "BinaryWriter", "BufferedStream", "MemoryStream", "Path", "Stream", "StreamReader", "StreamWriter", "StringReader", "StringWriter", "TextReader", "TextWriter",
        ],
        ["System.Reflection"] =
        [
            "ConstructorInfo", "CustomAttributeData", "CustomAttributeExtensions", "CustomAttributeNamedArgument", "CustomAttributeTypedArgument", "EventInfo", "FieldInfo",
            "IntrospectionExtensions", "MemberInfo", "MethodBase", "MethodInfo", "NullabilityInfo", "NullabilityInfoContext", "ParameterInfo", "PropertyInfo", "TypeExtensions", "TypeInfo",
        ],
        ["System.Runtime.CompilerServices"] =
        [
            "ConfiguredTaskAwaitable", "ConfiguredValueTaskAwaitable", "DefaultInterpolatedStringHandler", "FormattableStringFactory", "ITuple", "RuntimeHelpers", "StrongBox", "TaskAwaiter",
            "ValueTaskAwaiter",
        ],
        ["System.Runtime.ExceptionServices"] = ["ExceptionDispatchInfo"],
        ["System.Security.Cryptography"] =
        [
            "Aes", "AesCcm", "AesGcm", "ChaCha20Poly1305", "CryptoStream", "CryptographicOperations", "DeriveBytes", "FromBase64Transform", "HKDF", "HMAC", "HMACMD5", "HMACSHA1", "HMACSHA256",
            "HMACSHA384", "HMACSHA3_256", "HMACSHA3_384", "HMACSHA3_512", "HMACSHA512", "HashAlgorithm", "HashAlgorithmName", "ICryptoTransform", "IncrementalHash", "KeyedHashAlgorithm",
            "Kmac128", "Kmac256", "KmacXof128", "KmacXof256", "MD5", "Rfc2898DeriveBytes", "SHA1", "SHA256", "SHA384", "SHA3_256", "SHA3_384", "SHA3_512", "SHA512", "Shake128", "Shake256",
            "SymmetricAlgorithm", "ToBase64Transform",
        ],
        ["System.Threading"] =
        [
            "CancellationToken", "CancellationTokenRegistration", "Interlocked", "LazyInitializer", "Lock", "Monitor", "ReaderWriterLock", "ReaderWriterLockSlim", "SemaphoreSlim", "SpinLock", "Timeout",
            "Volatile",
        ],
        ["System.Threading.Tasks"] = ["Task", "TaskCompletionSource", "ValueTask"],
        ["System.Web"] = ["HttpUtility"],
    };

    /// <summary>Enumerations, delegates and exceptions are fine wherever they are; of a nested type the outermost one tells.</summary>
    public static bool Has(INamedTypeSymbol type)
    {
        var outermost = type;
        while (outermost.ContainingType is { } outer)
        {
            outermost = outer;
        }

        var space = outermost.ContainingNamespace.ToDisplayString();
        return type.TypeKind is TypeKind.Enum or TypeKind.Delegate
            || !IsOfFramework(space)
            || IsException(type)
            || (Namespaces.Contains(space) && !Excepted.Contains($"{space}.{outermost.Name}"))
            || (Types.TryGetValue(space, out var types) && types.Contains(outermost.Name));
    }

    /// <summary>
    /// What an own type may derive from or implement; without the number of their type parameters. A framework trusts what derives from
    /// its classes more than it trusts arguments: a type that lies about itself passes for another one.
    /// </summary>
    private static readonly Dictionary<string, HashSet<string>> Bases = new()
    {
        ["System"] =
        [
            "Attribute", "Enum", "EventArgs", "IAsyncDisposable", "ICloneable", "IComparable", "IConvertible", "ICustomFormatter", "IDisposable", "IEquatable", "IFormatProvider", "IFormattable",
            "IObservable", "IObserver", "IParsable", "IProgress", "IServiceProvider", "ISpanFormattable", "ISpanParsable", "IUtf8SpanFormattable", "IUtf8SpanParsable", "MulticastDelegate",
            "Object", "Random", "ValueType",
        ],
        ["System.Collections"] =
        [
            "CollectionBase", "DictionaryBase", "ICollection", "IComparer", "IDictionary", "IDictionaryEnumerator", "IEnumerable", "IEnumerator", "IEqualityComparer", "IList",
            "IStructuralComparable", "IStructuralEquatable",
        ],
        ["System.Collections.Generic"] =
        [
            "Comparer", "Dictionary", "EqualityComparer", "HashSet", "IAlternateEqualityComparer", "ICollection", "IComparer", "IDictionary", "IEnumerable", "IEnumerator",
            "IEqualityComparer", "IList", "IReadOnlyCollection", "IReadOnlyDictionary", "IReadOnlyList", "IReadOnlySet", "ISet", "LinkedList", "List", "OrderedDictionary", "PriorityQueue",
            "Queue", "SortedDictionary", "SortedList", "SortedSet", "Stack",
        ],
        ["System.Collections.ObjectModel"] = ["Collection", "KeyedCollection", "ObservableCollection", "ReadOnlyCollection", "ReadOnlyDictionary"],
        ["System.Collections.Specialized"] = ["INotifyCollectionChanged"],
        ["System.ComponentModel"] = ["INotifyPropertyChanged", "INotifyPropertyChanging"],
        ["System.Linq"] = ["IGrouping", "ILookup", "IOrderedEnumerable"],
        ["System.Numerics"] =
        [
            "IAdditionOperators", "IAdditiveIdentity", "IBinaryFloatingPointIeee754", "IBinaryInteger", "IBinaryNumber", "IBitwiseOperators", "IComparisonOperators", "IDecrementOperators",
            "IDivisionOperators", "IEqualityOperators", "IExponentialFunctions", "IFloatingPoint", "IFloatingPointConstants", "IFloatingPointIeee754", "IHyperbolicFunctions",
            "IIncrementOperators", "ILogarithmicFunctions", "IMinMaxValue", "IModulusOperators", "IMultiplicativeIdentity", "IMultiplyOperators", "INumber", "INumberBase", "IPowerFunctions",
            "IRootFunctions", "IShiftOperators", "ISignedNumber", "ISubtractionOperators", "ITrigonometricFunctions", "IUnaryNegationOperators", "IUnaryPlusOperators", "IUnsignedNumber",
        ],
        ["System.Runtime.CompilerServices"] = ["ITuple"],
        ["System.Text.Json"] = ["JsonNamingPolicy"],
        ["System.Text.Json.Serialization"] =
        [
            "IJsonOnDeserialized", "IJsonOnDeserializing", "IJsonOnSerialized", "IJsonOnSerializing", "JsonConverter", "JsonConverterAttribute", "JsonConverterFactory",
            "JsonStringEnumConverter",
        ],
    };

    /// <summary>Whether an own type may derive from it or implement it; exceptions may be derived from wherever they are.</summary>
    public static bool MayBeBase(INamedTypeSymbol type)
    {
        var space = type.ContainingNamespace.ToDisplayString();
        return !IsOfFramework(space)
            || (type.ContainingType is null && Bases.TryGetValue(space, out var types) && types.Contains(type.Name))
            || (type.TypeKind == TypeKind.Class && IsException(type));
    }

    /// <summary>It is an exception, or derives from one.</summary>
    public static bool IsException(ITypeSymbol? type)
    {
        for (; type is not null; type = type.BaseType)
        {
            if (type is { Name: "Exception", ContainingNamespace: { Name: "System", ContainingNamespace.IsGlobalNamespace: true } })
            {
                return true;
            }
        }

        return false;
    }

    // What else an upload could name there is not: the service compiles against the framework and its own abstractions alone.
    private static bool IsOfFramework(string space) =>
        space is "System" or "Microsoft" || space.StartsWith("System.", StringComparison.Ordinal) || space.StartsWith("Microsoft.", StringComparison.Ordinal);
}
