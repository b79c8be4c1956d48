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
        ["System.Linq.Expressions.LambdaExpression.Compile"] = Rule.Loading,
        ["System.Linq.Expressions.Expression`1.Compile"] = Rule.Loading,
        ["System.Activator.CreateInstanceFrom"] = Rule.Loading,
        ["System.Type.GetTypeFromProgID"] = Rule.Loading,
        ["System.Type.GetTypeFromCLSID"] = Rule.Loading,
        ["System.Reflection.DispatchProxy"] = Rule.Loading,
        ["System.Xml.Serialization.XmlSerializer"] = Rule.Loading,
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
            ?? OfKind(member, type, name) ?? OfParameters(member, type) ?? OfNamespace(type, name) ?? (Allowed.Has(type) ? null : Rule.Unlisted);
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
                : Members.GetValueOrDefault(name) ?? Types.GetValueOrDefault(name) ?? OfNamespace(definition, name) ?? (Allowed.Has(definition) ? null : Rule.Unlisted);
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
            "System.Security.Cryptography.RSACryptoServiceProvider" or "System.Security.Cryptography.RSAOpenSsl" => Rule.Randomness,
            _ => null,
        };
    }

    private static Rule? OfKind(ISymbol member, INamedTypeSymbol type, string name)
    {
        if (member is not IMethodSymbol { IsStatic: true } method)
        {
            return null;
        }

        // Vector128.LoadUnsafe and its like read and write at any distance from what they are given.
        if (method.Name.EndsWith("Unsafe", StringComparison.Ordinal) && type.ContainingNamespace.ToDisplayString() is "System.Runtime.Intrinsics" or "System.Numerics")
        {
            return Rule.Native;
        }

        // A tree that is put together names any method; one that the compiler makes of a lambda has only calls that are looked at.
        return name == "System.Linq.Expressions.Expression" ? Rule.Loading : null;
    }

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
            || (space.StartsWith("System.IO", StringComparison.Ordinal) && method.Name.EndsWith("Async", StringComparison.Ordinal))
            || (space == "System.Runtime.CompilerServices" && method.Name is "OnCompleted" or "UnsafeOnCompleted")
                ? Rule.Threads
                : null;
    }

    private static string? NameOfType(ITypeSymbol type) => type is INamedTypeSymbol named ? NameOf(named) : null;

    private static Rule? OfNamespace(INamedTypeSymbol type, string name)
    {
        var space = type.ContainingNamespace.ToDisplayString();
        // Threads, their pools, timers, handles to wait on, thread-local values.
        if (space == "System.Threading" && type.TypeKind is TypeKind.Class or TypeKind.Struct && !name.EndsWith("Exception", StringComparison.Ordinal))
        {
            return Rule.Threads;
        }

        return name.EndsWith("Exception", StringComparison.Ordinal) ? null : Namespaces.FirstOrDefault(n => space == n.Namespace || space.StartsWith($"{n.Namespace}.", StringComparison.Ordinal)).Rule;
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
