using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

/// <summary>Which members of the framework can't be used in a fold.</summary>
internal sealed class FrameworkRules
{
    // Members that are as they are everywhere, of types or namespaces that are refused otherwise.
    private static readonly HashSet<string> Fine =
    [
        "System.Environment.NewLine", "System.Net.IPAddress", "System.Net.IPNetwork", "System.Net.IPEndPoint", "System.Net.EndPoint", "System.Net.WebUtility",
        "System.Net.HttpStatusCode", "System.Net.Http.HttpMethod", "System.Net.Http.HttpRequestException", "System.Net.WebException", "System.Net.CookieException",
        "System.Threading.Interlocked", "System.Threading.Volatile", "System.Threading.CancellationToken", "System.Threading.Timeout", "System.Threading.LazyInitializer",
        "System.Reflection.Emit.OpCodes", "System.Dynamic.ExpandoObject",
        "System.Runtime.InteropServices.OSPlatform", "System.Runtime.InteropServices.CollectionsMarshal", "System.Runtime.InteropServices.ImmutableCollectionsMarshal",
        // Of spans, within their bounds; the others take a length from who calls, and read what lies behind.
        "System.Runtime.InteropServices.MemoryMarshal.AsBytes", "System.Runtime.InteropServices.MemoryMarshal.Cast", "System.Runtime.InteropServices.MemoryMarshal.Read",
        "System.Runtime.InteropServices.MemoryMarshal.TryRead", "System.Runtime.InteropServices.MemoryMarshal.Write", "System.Runtime.InteropServices.MemoryMarshal.TryWrite",
        "System.Runtime.CompilerServices.RuntimeHelpers.EnsureSufficientExecutionStack", "System.Runtime.CompilerServices.RuntimeHelpers.TryEnsureSufficientExecutionStack",
        "System.Runtime.CompilerServices.RuntimeHelpers.IsReferenceOrContainsReferences", "System.Runtime.CompilerServices.RuntimeHelpers.GetSubArray",
    ];

    private static readonly Dictionary<string, Rule> Members = new()
    {
        ["System.DateTime.Now"] = Rule.Clock,
        ["System.DateTime.UtcNow"] = Rule.Clock,
        ["System.DateTime.Today"] = Rule.Clock,
        ["System.DateTimeOffset.Now"] = Rule.Clock,
        ["System.DateTimeOffset.UtcNow"] = Rule.Clock,
        ["System.Environment.TickCount"] = Rule.Clock,
        ["System.Environment.TickCount64"] = Rule.Clock,
        ["System.Threading.CancellationTokenSource.CancelAfter"] = Rule.Clock,

        ["System.Convert.ToDateTime"] = Rule.Today,
        ["System.IConvertible.ToDateTime"] = Rule.Today,
        ["System.Xml.XmlConvert.ToDateTime"] = Rule.Today,
        ["System.Xml.XmlConvert.ToDateTimeOffset"] = Rule.Today,
        ["System.Xml.XmlReader.ReadContentAsDateTime"] = Rule.Today,
        ["System.Xml.XmlReader.ReadContentAsDateTimeOffset"] = Rule.Today,
        ["System.Xml.XmlReader.ReadElementContentAsDateTime"] = Rule.Today,
        ["System.Xml.XmlReader.ReadContentAs"] = Rule.Today,
        ["System.Xml.XmlReader.ReadElementContentAs"] = Rule.Today,
        ["System.Xml.XPath.XPathItem.ValueAs"] = Rule.Today,
        ["System.Xml.XPath.XPathItem.ValueAsDateTime"] = Rule.Today,
        ["System.Xml.XPath.XPathNavigator.ValueAs"] = Rule.Today,
        ["System.Xml.XPath.XPathNavigator.ValueAsDateTime"] = Rule.Today,

        ["System.Linq.Enumerable.Shuffle"] = Rule.Randomness,
        ["System.Random.Shared"] = Rule.Randomness,
        ["System.Security.Cryptography.RandomNumberGenerator"] = Rule.Randomness,
        ["System.Security.Cryptography.SymmetricAlgorithm.GenerateKey"] = Rule.Randomness,
        ["System.Security.Cryptography.SymmetricAlgorithm.GenerateIV"] = Rule.Randomness,
        ["System.Security.Cryptography.SymmetricAlgorithm.Key"] = Rule.Randomness,
        ["System.Security.Cryptography.SymmetricAlgorithm.IV"] = Rule.Randomness,
        ["System.Security.Cryptography.SymmetricAlgorithm.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.HashAlgorithm.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.KeyedHashAlgorithm.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.HMAC.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.Aes.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.TripleDES.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.DES.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.RC2.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.Rijndael.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.DSA.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.RSA.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.ECDsa.Create"] = Rule.Randomness,
        ["System.Security.Cryptography.ECDiffieHellman.Create"] = Rule.Randomness,
        ["System.Guid.NewGuid"] = Rule.NewId,
        ["System.Guid.CreateVersion7"] = Rule.NewId,
        ["System.IO.Path.GetRandomFileName"] = Rule.Randomness,

        ["System.IO.Path.GetTempPath"] = Rule.Files,
        ["System.IO.Path.GetTempFileName"] = Rule.Files,
        ["System.IO.Path.GetFullPath"] = Rule.Files,
        ["System.IO.Path.GetRelativePath"] = Rule.Files,
        ["System.IO.Path.Exists"] = Rule.Files,
        ["System.IO.Compression.ZipArchive.CreateEntry"] = Rule.Clock,
        ["System.IO.Compression.ZipFileExtensions"] = Rule.Files,
        ["System.Xml.XmlUrlResolver"] = Rule.Files,
        ["System.Xml.XmlResolver"] = Rule.Files,
        ["System.Xml.XmlSecureResolver"] = Rule.Files,
        ["System.Security.Cryptography.X509Certificates.X509CertificateLoader"] = Rule.Files,
        ["System.IO.Compression.ZipFile"] = Rule.Files,
        ["System.Security.Cryptography.X509Certificates.X509Store"] = Rule.Files,
        ["System.Diagnostics.FileVersionInfo"] = Rule.Files,

        ["System.DateTime.ToLocalTime"] = Rule.Environment,
        ["System.DateTimeOffset.ToLocalTime"] = Rule.Environment,
        ["System.DateTimeOffset.LocalDateTime"] = Rule.Environment,
        ["System.TimeZoneInfo.Local"] = Rule.Environment,
        ["System.TimeZoneInfo.FindSystemTimeZoneById"] = Rule.Environment,
        ["System.TimeZoneInfo.TryFindSystemTimeZoneById"] = Rule.Environment,
        ["System.TimeZoneInfo.GetSystemTimeZones"] = Rule.Environment,
        ["System.TimeZoneInfo.ConvertTimeBySystemTimeZoneId"] = Rule.Environment,

        // What one aggregate's fold leaves in them another one's finds.
        ["System.String.Intern"] = Rule.FrameworkState,
        ["System.String.IsInterned"] = Rule.FrameworkState,
        ["System.Text.Encoding.RegisterProvider"] = Rule.FrameworkState,
        ["System.Threading.Monitor.IsEntered"] = Rule.FrameworkState,
        ["System.Threading.Monitor.LockContentionCount"] = Rule.Environment,
        ["System.Threading.Lock.IsHeldByCurrentThread"] = Rule.FrameworkState,
        ["System.Threading.SpinLock.IsHeld"] = Rule.FrameworkState,
        ["System.Threading.SpinLock.IsHeldByCurrentThread"] = Rule.FrameworkState,
        ["System.Threading.SemaphoreSlim.CurrentCount"] = Rule.FrameworkState,
        ["System.Runtime.CompilerServices.DefaultInterpolatedStringHandler.Text"] = Rule.Environment,
        ["System.Runtime.CompilerServices.DefaultInterpolatedStringHandler.Clear"] = Rule.Environment,
        ["System.Globalization.CultureInfo.InstalledUICulture"] = Rule.Environment,
        ["System.Text.Encoding.Default"] = Rule.Environment,
        ["System.Numerics.Vector`1.Count"] = Rule.Hardware,

        ["System.Threading.Monitor.Wait"] = Rule.Async,
        ["System.Threading.Tasks.Task.Run"] = Rule.Threads,
        ["System.Threading.Tasks.Task.Start"] = Rule.Threads,
        ["System.Threading.Tasks.Task.Delay"] = Rule.Threads,
        ["System.Threading.Tasks.Task.Yield"] = Rule.Threads,
        ["System.Threading.Tasks.Task.WhenAny"] = Rule.Threads,
        ["System.Threading.Tasks.Task.WaitAny"] = Rule.Threads,
        ["System.Threading.Tasks.Task.ContinueWith"] = Rule.Threads,
        ["System.Threading.Tasks.TaskFactory"] = Rule.Threads,
        ["System.Threading.Tasks.TaskFactory`1"] = Rule.Threads,
        ["System.Threading.Tasks.Task`1.ContinueWith"] = Rule.Threads,
        ["System.Progress`1"] = Rule.Threads,
        ["System.ComponentModel.BackgroundWorker"] = Rule.Threads,
        ["System.ComponentModel.AsyncOperation"] = Rule.Threads,
        ["System.Threading.Tasks.Parallel"] = Rule.Threads,
        ["System.Linq.ParallelEnumerable"] = Rule.Threads,
        ["System.Collections.Concurrent.BlockingCollection`1"] = Rule.Threads,

        ["System.Type.GetType"] = Rule.Loading,
        ["System.Reflection.Assembly"] = Rule.Loading,
        ["System.Reflection.Module"] = Rule.Loading,
        ["System.Activator.CreateInstanceFrom"] = Rule.Loading,
        ["System.Type.GetTypeFromProgID"] = Rule.Loading,
        ["System.Type.GetTypeFromCLSID"] = Rule.Loading,
        ["System.Reflection.DispatchProxy"] = Rule.Loading,
        ["System.Xml.Serialization.XmlSerializer"] = Rule.Loading,
        ["System.Linq.EnumerableExecutor"] = Rule.Trees,
        ["System.Linq.EnumerableExecutor`1"] = Rule.Trees,
        ["System.Linq.EnumerableQuery"] = Rule.Trees,
        ["System.Linq.EnumerableQuery`1"] = Rule.Trees,
        ["System.Linq.IOrderedQueryable"] = Rule.Trees,
        ["System.Linq.IOrderedQueryable`1"] = Rule.Trees,
        ["System.Linq.IQueryProvider"] = Rule.Trees,
        ["System.Linq.IQueryable"] = Rule.Trees,
        ["System.Linq.IQueryable`1"] = Rule.Trees,
        ["System.Linq.Queryable"] = Rule.Trees,
        ["System.Linq.AsyncEnumerable"] = Rule.Threads,
        ["System.Text.Json.JsonSerializerOptions.GetTypeInfo"] = Rule.RunTimeType,
        ["System.Text.Json.JsonSerializerOptions.TryGetTypeInfo"] = Rule.RunTimeType,
        ["System.Text.Json.JsonSerializerOptions.TypeInfoResolver"] = Rule.RunTimeType,
        ["System.Text.Json.JsonSerializerOptions.TypeInfoResolverChain"] = Rule.RunTimeType,
        ["System.Text.Json.Serialization.JsonSerializerContext"] = Rule.RunTimeType,
        ["System.Activator"] = Rule.Reflection,
        ["System.Reflection.IReflect"] = Rule.Reflection,
        ["System.Reflection.EventInfo.AddEventHandler"] = Rule.Reflection,
        ["System.Reflection.EventInfo.RemoveEventHandler"] = Rule.Reflection,
        ["System.Reflection.FieldInfo.GetValueDirect"] = Rule.Reflection,
        ["System.Reflection.FieldInfo.SetValueDirect"] = Rule.Reflection,
        ["System.ComponentModel.TypeDescriptor"] = Rule.Reflection,
        ["System.ComponentModel.TypeDescriptionProvider"] = Rule.Reflection,
        ["System.ComponentModel.PropertyDescriptor"] = Rule.Reflection,
        ["System.ComponentModel.EventDescriptor"] = Rule.Reflection,
        ["System.ComponentModel.LicenseManager"] = Rule.Reflection,
        ["System.Runtime.CompilerServices.RuntimeHelpers"] = Rule.Reflection,
        ["System.Runtime.CompilerServices.CallSite"] = Rule.Reflection,
        ["System.Runtime.CompilerServices.CallSite`1"] = Rule.Reflection,
        ["System.Runtime.CompilerServices.CallSiteBinder"] = Rule.Reflection,
        ["System.Type.InvokeMember"] = Rule.Reflection,
        ["System.Delegate.DynamicInvoke"] = Rule.Reflection,
        ["System.Delegate.CreateDelegate"] = Rule.Reflection,
        ["System.Reflection.MethodBase.Invoke"] = Rule.Reflection,
        ["System.Reflection.MethodInfo.CreateDelegate"] = Rule.Reflection,
        ["System.Reflection.ConstructorInfo.Invoke"] = Rule.Reflection,
        ["System.Reflection.MethodInvoker"] = Rule.Reflection,
        ["System.Reflection.ConstructorInvoker"] = Rule.Reflection,
        ["System.Reflection.PropertyInfo.GetValue"] = Rule.Reflection,
        ["System.Reflection.PropertyInfo.SetValue"] = Rule.Reflection,
        ["System.Reflection.FieldInfo.GetValue"] = Rule.Reflection,
        ["System.Reflection.FieldInfo.SetValue"] = Rule.Reflection,

        ["System.HashCode"] = Rule.HashCode,
        ["System.Runtime.CompilerServices.RuntimeHelpers.GetHashCode"] = Rule.HashCode,

        ["System.Globalization.CultureInfo.CurrentCulture"] = Rule.CultureFormat,
        ["System.Globalization.CultureInfo.CurrentUICulture"] = Rule.CultureFormat,
        ["System.Globalization.CultureInfo.DefaultThreadCurrentCulture"] = Rule.CultureFormat,
        ["System.Globalization.NumberFormatInfo.CurrentInfo"] = Rule.CultureFormat,
        ["System.Globalization.DateTimeFormatInfo.CurrentInfo"] = Rule.CultureFormat,
        ["System.Globalization.RegionInfo.CurrentRegion"] = Rule.CultureFormat,
    };

    private static readonly Dictionary<string, Rule> Types = new()
    {
        ["System.TimeProvider"] = Rule.Clock,
        ["System.Diagnostics.Stopwatch"] = Rule.Clock,
        ["System.Diagnostics.Activity"] = Rule.Clock,
        ["System.Diagnostics.ActivitySource"] = Rule.Clock,
        ["System.IO.File"] = Rule.Files,
        ["System.IO.FileInfo"] = Rule.Files,
        ["System.IO.FileStream"] = Rule.Files,
        ["System.IO.FileSystemInfo"] = Rule.Files,
        ["System.IO.FileSystemWatcher"] = Rule.Files,
        ["System.IO.Directory"] = Rule.Files,
        ["System.IO.DirectoryInfo"] = Rule.Files,
        ["System.IO.DriveInfo"] = Rule.Files,
        ["System.IO.RandomAccess"] = Rule.Files,
        ["Microsoft.Win32.SafeHandles.SafeFileHandle"] = Rule.Files,
        ["System.Console"] = Rule.Console,
        ["System.Diagnostics.Trace"] = Rule.Console,
        ["System.Diagnostics.Debugger"] = Rule.Environment,
        ["System.Diagnostics.StackTrace"] = Rule.Environment,
        ["System.Diagnostics.StackFrame"] = Rule.Environment,
        ["System.Diagnostics.Process"] = Rule.Processes,
        ["System.Diagnostics.ProcessStartInfo"] = Rule.Processes,
        ["System.Environment"] = Rule.Environment,
        ["System.AppContext"] = Rule.Environment,
        ["System.AppDomain"] = Rule.Environment,
        ["System.OperatingSystem"] = Rule.Environment,
        ["System.GC"] = Rule.Environment,
        // What they lend has what others left in it.
        ["System.Buffers.ArrayPool`1"] = Rule.Environment,
        ["System.Buffers.MemoryPool`1"] = Rule.Environment,
        ["System.Buffers.MemoryHandle"] = Rule.Native,
        ["System.Buffers.MemoryManager`1"] = Rule.Native,
        ["System.WeakReference"] = Rule.Environment,
        ["System.WeakReference`1"] = Rule.Environment,
        ["System.Runtime.GCSettings"] = Rule.Environment,
        ["System.Runtime.MemoryFailPoint"] = Rule.Environment,
        ["System.Runtime.InteropServices.RuntimeInformation"] = Rule.Environment,
        ["System.Runtime.InteropServices.RuntimeEnvironment"] = Rule.Environment,
        ["System.Runtime.CompilerServices.ConditionalWeakTable`2"] = Rule.Environment,
        ["System.Threading.Monitor"] = Rule.Locks,
        ["System.Threading.Lock"] = Rule.Locks,
        ["System.Threading.SpinLock"] = Rule.Locks,
        ["System.Threading.SemaphoreSlim"] = Rule.Locks,
        ["System.Threading.ReaderWriterLock"] = Rule.Locks,
        ["System.Threading.ReaderWriterLockSlim"] = Rule.Locks,
        ["System.Threading.CancellationTokenSource"] = Rule.Threads,
        ["System.Runtime.CompilerServices.Unsafe"] = Rule.Native,
        ["System.IO.UnmanagedMemoryStream"] = Rule.Native,
        ["System.IO.UnmanagedMemoryAccessor"] = Rule.Native,
        ["System.Reflection.Pointer"] = Rule.Native,
        ["System.RuntimeMethodHandle"] = Rule.Native,
        ["System.TypedReference"] = Rule.Native,
    };

    // With all below them.
    private static readonly (string Namespace, Rule Rule)[] Namespaces =
    [
        ("System.IO.Pipes", Rule.Files),
        ("System.IO.MemoryMappedFiles", Rule.Files),
        ("System.IO.IsolatedStorage", Rule.Files),
        ("System.Net", Rule.Network),
        ("System.Diagnostics.Tracing", Rule.Environment),
        ("System.Diagnostics.Metrics", Rule.Environment),
        ("System.Timers", Rule.Threads),
        ("System.Threading.Channels", Rule.Threads),
        ("System.Threading.Tasks.Dataflow", Rule.Threads),
        ("System.Linq.Expressions", Rule.Trees),
        ("System.Text.Json.Serialization.Metadata", Rule.RunTimeType),
        ("System.Text.Json.Schema", Rule.RunTimeType),
        ("System.Reflection.Emit", Rule.Loading),
        ("System.Runtime.Loader", Rule.Loading),
        ("System.Reflection.Metadata", Rule.Loading),
        ("System.Resources", Rule.Loading),
        ("System.Xml.Xsl", Rule.Loading),
        ("System.Runtime.Serialization", Rule.Reflection),
        ("System.ComponentModel.Design", Rule.Reflection),
        ("System.Dynamic", Rule.Reflection),
        ("Microsoft.CSharp.RuntimeBinder", Rule.Reflection),
        ("Microsoft.VisualBasic", Rule.Reflection),
        ("System.Runtime.InteropServices", Rule.Native),
        ("Microsoft.Win32", Rule.Native),
    ];

    // Of a parameter that is given as text.
    private static readonly HashSet<string> PlaceNames = ["fileName", "filename", "inputUri", "outputFileName", "path", "uri", "url"];

    private readonly Dictionary<ISymbol, Rule?> known = new(SymbolEqualityComparer.Default);
    private readonly Dictionary<ISymbol, Rule?> knownTypes = new(SymbolEqualityComparer.Default);

    /// <summary>The rule that the use of <paramref name="member"/> breaks.</summary>
    public Rule? Of(ISymbol member)
    {
        var definition = member.OriginalDefinition;
        if (!known.TryGetValue(definition, out var rule))
        {
            known[definition] = rule = Find(definition);
        }

        return rule;
    }

    private static Rule? Find(ISymbol member)
    {
        if (member.ContainingType is not { TypeKind: not TypeKind.Enum } type || member is IFieldSymbol { HasConstantValue: true })
        {
            return null;
        }

        var name = NameOf(type);
        var accessed = member is IMethodSymbol { AssociatedSymbol: { } owner } ? owner.Name : member.Name;
        var full = $"{name}.{accessed}";
        if (Fine.Contains(full) || Fine.Contains(name))
        {
            return null;
        }

        return Members.GetValueOrDefault(full) ?? Members.GetValueOrDefault(name) ?? Types.GetValueOrDefault(name) ?? OfConstructor(member, name)
            ?? OfKind(member, type, name, accessed) ?? OfNamespace(type) ?? OfTask(member, name, accessed) ?? OfParameters(member, type) ?? (Allowed.Has(type) ? null : Rule.Unlisted);
    }

    /// <summary>The rule that <paramref name="type"/> breaks as a type argument, or where JSON is read into it.</summary>
    public Rule? OfType(INamedTypeSymbol type)
    {
        if (type.TypeKind is TypeKind.Enum or TypeKind.Delegate)
        {
            return null;
        }

        var definition = type.OriginalDefinition;
        if (!knownTypes.TryGetValue(definition, out var rule))
        {
            var name = NameOf(definition);
            knownTypes[definition] = rule = Fine.Contains(name) ? null
                : Members.GetValueOrDefault(name) ?? Types.GetValueOrDefault(name) ?? OfNamespace(definition) ?? (Allowed.Has(definition) ? null : Rule.Unlisted);
        }

        return rule;
    }

    private static Rule? OfConstructor(ISymbol member, string type)
    {
        if (member is not IMethodSymbol { MethodKind: MethodKind.Constructor } constructor)
        {
            return null;
        }

        return type switch
        {
            // Seeded it gives the same numbers for ever.
            "System.Random" when constructor.Parameters.IsEmpty => Rule.Randomness,
            "System.IO.StreamReader" or "System.IO.StreamWriter" when constructor.Parameters is [{ Type.SpecialType: SpecialType.System_String }, ..] => Rule.Files,
            // A key or a salt that it is not given it draws.
            _ when constructor.Parameters.IsEmpty && type.StartsWith("System.Security.Cryptography.HMAC", StringComparison.Ordinal) => Rule.Randomness,
            "System.Security.Cryptography.Rfc2898DeriveBytes" when constructor.Parameters.Any(p => p.Name == "saltSize") => Rule.Randomness,
            // They take the last error of the system that any code of the process met.
            "System.ComponentModel.Win32Exception" or "System.Net.Sockets.SocketException" or "System.Net.NetworkInformation.NetworkInformationException"
                when constructor.Parameters is not [{ Type.SpecialType: SpecialType.System_Int32 }, ..] => Rule.Stack,
            "System.Security.Cryptography.RSACryptoServiceProvider" or "System.Security.Cryptography.RSAOpenSsl" => Rule.Randomness,
            _ => null,
        };
    }

    // Of a task or what is one soon: what looks at it, or makes one that is done. All else starts or waits for something.
    private static readonly HashSet<string> TaskTypes =
    [
        "System.Threading.Tasks.Task", "System.Threading.Tasks.Task`1", "System.Threading.Tasks.ValueTask", "System.Threading.Tasks.ValueTask`1",
        "System.Threading.Tasks.TaskCompletionSource", "System.Threading.Tasks.TaskCompletionSource`1",
    ];

    private static readonly HashSet<string> FineOfTasks =
    [
        "FromResult", "FromException", "FromCanceled", "CompletedTask", "Result", "IsCompleted", "IsCompletedSuccessfully", "IsFaulted", "IsCanceled", "Exception", "Status", "GetAwaiter", "AsTask",
        "Preserve", "ConfigureAwait", "Factory", "SetResult", "TrySetResult", "SetException", "TrySetException", "SetCanceled", "TrySetCanceled", "SetFromTask", "TrySetFromTask", "Task",
        "Dispose", "Equals", "GetHashCode", "ToString", "op_Equality", "op_Inequality",
    ];

    private static readonly HashSet<string> Awaited =
    [
        .. TaskTypes, "System.Collections.Generic.IAsyncEnumerable`1", "System.Collections.Generic.IAsyncEnumerator`1", "System.Runtime.CompilerServices.ConfiguredCancelableAsyncEnumerable`1",
    ];

    /// <summary>What the framework does asynchronously it does on threads of its pool, with the streams and callbacks that it is given.</summary>
    private static Rule? OfTask(ISymbol member, string type, string accessed)
    {
        if (TaskTypes.Contains(type))
        {
            var makes = member is IMethodSymbol { MethodKind: MethodKind.Constructor } && type is not ("System.Threading.Tasks.Task" or "System.Threading.Tasks.Task`1");
            return makes || FineOfTasks.Contains(accessed) ? null : accessed is "Wait" or "WaitAll" ? Rule.Async : Rule.Threads;
        }

        var given = member switch
        {
            IMethodSymbol method => method.ReturnType,
            IPropertySymbol property => property.Type,
            _ => null,
        };
        return (member is IMethodSymbol && accessed.EndsWith("Async", StringComparison.Ordinal)) || (given is INamedTypeSymbol named && Awaited.Contains(NameOf(named))) ? Rule.Threads : null;
    }

    private static readonly HashSet<string> FineOfDebug = ["Assert", "Print", "Write", "WriteIf", "WriteLine", "WriteLineIf"];

    private static Rule? OfKind(ISymbol member, INamedTypeSymbol type, string name, string accessed)
    {
        var space = type.ContainingNamespace.ToDisplayString();
        if (space is "System" or "System.Numerics" or "System.Runtime.Intrinsics" && (accessed.EndsWith("Estimate", StringComparison.Ordinal) || accessed is "IsHardwareAccelerated" or "IsSupported"))
        {
            return Rule.Hardware;
        }

        if (accessed is "StackTrace" or "TargetSite" or "ToString" && Allowed.IsException(type))
        {
            return Rule.Stack;
        }

        if (name == "System.Diagnostics.Debug" && !FineOfDebug.Contains(accessed))
        {
            return accessed is "Fail" ? Rule.Console : Rule.FrameworkState;
        }

        if (member is not IMethodSymbol method)
        {
            return null;
        }

        if (name == "System.Text.RegularExpressions.Regex" && method.Parameters.Any(p => NameOfType(p.Type) == "System.TimeSpan"))
        {
            return Rule.Patience;
        }

        // `(DateTime)element` parses its text.
        if (method.MethodKind == MethodKind.Conversion && space == "System.Xml.Linq" && IsDate(method.ReturnType))
        {
            return Rule.Today;
        }

        // Vector128.LoadUnsafe and its like read and write at any distance from what they are given.
        return method.IsStatic && accessed.EndsWith("Unsafe", StringComparison.Ordinal) && space is "System.Runtime.Intrinsics" or "System.Numerics" ? Rule.Native : null;
    }

    /// <summary>A type whose values are read from text with today's date where that has none.</summary>
    public static bool IsDate(ITypeSymbol? type) => type is INamedTypeSymbol named
        && (NameOf(named) is "System.DateTime" or "System.DateTimeOffset" or "System.DateOnly" || (named.OriginalDefinition.SpecialType == SpecialType.System_Nullable_T && IsDate(named.TypeArguments[0])));

    private static Rule? OfParameters(ISymbol member, INamedTypeSymbol type)
    {
        if (member is not IMethodSymbol method)
        {
            return null;
        }

        var space = type.ContainingNamespace.ToDisplayString();
        // XML that is named by where it lies, as against text that is given.
        if (space.StartsWith("System.Xml", StringComparison.Ordinal) && method is { MethodKind: MethodKind.Constructor } or { Name: "Load" or "LoadAsync" or "Create" or "Save" or "SaveAsync" }
            && method.Parameters is [{ Type.SpecialType: SpecialType.System_String, Name: var named }, ..] && PlaceNames.Contains(named))
        {
            return Rule.Files;
        }

        // Begun here, and done on a thread of the pool.
        return method.Parameters.Any(p => NameOfType(p.Type) == "System.AsyncCallback")
            || (space == "System.Runtime.CompilerServices" && method.Name is "OnCompleted" or "UnsafeOnCompleted")
                ? Rule.Threads
                : null;
    }

    private static string? NameOfType(ITypeSymbol type) => type is INamedTypeSymbol named ? NameOf(named) : null;

    private static Rule? OfNamespace(INamedTypeSymbol type)
    {
        var space = type.ContainingNamespace.ToDisplayString();
        // Threads, their pools, timers, handles to wait on, thread-local values.
        if (space == "System.Threading" && type.TypeKind is TypeKind.Class or TypeKind.Struct && !Allowed.IsException(type))
        {
            return Rule.Threads;
        }

        return Allowed.IsException(type) ? null : Namespaces.FirstOrDefault(n => space == n.Namespace || space.StartsWith($"{n.Namespace}.", StringComparison.Ordinal)).Rule;
    }

    /// <summary>As in metadata: <c>System.Collections.Generic.List`1</c>.</summary>
    public static string NameOf(INamedTypeSymbol type)
    {
        var definition = type.OriginalDefinition;
        return definition.ContainingType is { } outer ? $"{NameOf(outer)}.{definition.MetadataName}"
            : definition.ContainingNamespace.IsGlobalNamespace ? definition.MetadataName
            : $"{definition.ContainingNamespace.ToDisplayString()}.{definition.MetadataName}";
    }
}
