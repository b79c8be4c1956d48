using Microsoft.CodeAnalysis;

namespace Statefold.Compiler.Determinism;

/// <summary>Which methods of the framework change what they are called on.</summary>
internal static class Mutators
{
    private static readonly HashSet<string> Names =
    [
        "Add", "AddRange", "AddFirst", "AddLast", "AddBefore", "AddAfter", "Insert", "InsertRange", "Remove", "RemoveAt", "RemoveAll", "RemoveRange", "RemoveWhere",
        "RemoveFirst", "RemoveLast", "Clear", "Sort", "Reverse", "Enqueue", "EnqueueRange", "EnqueueDequeue", "DequeueEnqueue", "Dequeue", "TryDequeue", "Push", "PushRange",
        "Pop", "TryPop", "TryAdd", "TryTake", "TryRemove", "TryUpdate", "GetOrAdd", "AddOrUpdate", "UnionWith", "ExceptWith", "IntersectWith", "SymmetricExceptWith", "Append",
        "AppendLine", "AppendFormat", "AppendJoin", "Replace", "Set", "SetAll", "SetValue", "SetByIndex", "Not", "And", "Or", "Xor", "Write", "WriteByte", "WriteLine",
    ];

    private static readonly HashSet<string> ArrayMethods = ["Sort", "Reverse", "Clear", "Fill", "SetValue"];

    public static bool Changes(IMethodSymbol method)
    {
        var type = method.ContainingType;
        return ChangesFirstArgument(method) || FrameworkRules.NameOf(type) switch
        {
            "System.Random" => method.Name.StartsWith("Next", StringComparison.Ordinal) || method.Name is "Shuffle" or "GetItems" or "GetString",
            // Its count is a number that outlives the fold.
            "System.Threading.SemaphoreSlim" => method.Name is "Wait" or "Release",
            "System.Text.StringBuilder" or "System.Array" => Names.Contains(method.Name),
            _ => type.ContainingNamespace.ToDisplayString() is var space
                && (space is "System.Collections" or "System.Collections.Generic" or "System.Collections.Concurrent" or "System.Collections.ObjectModel" or "System.Collections.Specialized"
                    or "System.Text.Json.Nodes" or "System.IO")
                && Names.Contains(method.Name),
        };
    }

    /// <summary><c>Array.Sort(all)</c>, <c>Interlocked.Increment(ref …)</c> is seen by its ref; extension methods of collections.</summary>
    public static bool ChangesFirstArgument(IMethodSymbol method) => method.IsStatic && FrameworkRules.NameOf(method.ContainingType) switch
    {
        "System.Array" => ArrayMethods.Contains(method.Name),
        "System.Collections.Generic.CollectionExtensions" => method.Name is "AddRange" or "InsertRange" or "TryAdd" or "Remove",
        "System.Runtime.InteropServices.CollectionsMarshal" => method.Name is "GetValueRefOrAddDefault" or "SetCount",
        _ => false,
    };
}
