using System.Text.Json;
using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace Statefold.Compiler;

/// <summary>Finds the reducers or projections of a compilation in its symbols; nothing of it is loaded.</summary>
internal sealed partial class Discovery(CSharpCompilation compilation, ArtefactKind kind)
{
    private const string Suffix = "Reducer";

    private readonly List<DiscoveredClass> classes = [];
    private readonly List<(string ClassName, ITypeSymbol State)> states = [];
    private readonly List<Finding> findings = [];
    private readonly List<(string AggregateType, INamedTypeSymbol Type)> reducers = [];

    public IReadOnlyList<DiscoveredClass> Classes => classes;

    /// <summary>What the states of the classes are.</summary>
    public IEnumerable<(string ClassName, ITypeSymbol State)> States => states.OrderBy(one => one.ClassName, StringComparer.Ordinal);

    public IReadOnlyList<Finding> Findings => findings;

    public void Run()
    {
        Visit(compilation.Assembly.GlobalNamespace, Wanted);
        if (classes.Count == 0 && findings.Count == 0)
        {
            findings.Add(new Finding(true, "SF0001", NothingFound(), null, 0, 0));
        }

        if (SourceLimits.Check(classes) is { } refusal)
        {
            findings.Add(refusal);
            return;
        }

        RefuseSharedTypes();
        classes.Sort((a, b) => string.CompareOrdinal(a.ClassName, b.ClassName));
    }

    // What was sent to the wrong one of the two uploads is told where it belongs.
    private string NothingFound()
    {
        var (what, other, path) = kind == ArtefactKind.Reducer
            ? ("IReducer<T>", "IProjection<T>", "/projections/upload")
            : ("IProjection<T>", "IReducer<T>", "/reducers/upload");
        var elsewhere = new Discovery(compilation, kind == ArtefactKind.Reducer ? ArtefactKind.Projection : ArtefactKind.Reducer);
        elsewhere.Visit(compilation.Assembly.GlobalNamespace, elsewhere.Wanted);
        var none = $"No class in the upload implements {what}.";
        return elsewhere.classes.MinBy(c => c.ClassName, StringComparer.Ordinal) is { } found
            ? $"{none} {found.ClassName} implements {other}: send it to POST {path}."
            : none;
    }

    private INamedTypeSymbol Wanted => compilation.GetTypeByMetadataName(kind == ArtefactKind.Reducer ? "Statefold.IReducer`1" : "Statefold.IProjection`1")!;

    // Which of them is to be bound nobody could tell.
    private void RefuseSharedTypes()
    {
        foreach (var shared in reducers.GroupBy(one => one.AggregateType, StringComparer.Ordinal).Where(group => group.Count() > 1))
        {
            var names = shared.Select(one => one.Type.ToDisplayString(TypeNames.Full)).Order(StringComparer.Ordinal).ToList();
            foreach (var (_, type) in shared)
            {
                var name = type.ToDisplayString(TypeNames.Full);
                var others = string.Join(", ", names.Where(other => other != name));
                Refuse("SF0010", type, $"{name} folds aggregates of the type '{shared.Key}', and so does {others}: an upload has one reducer for a type. Give one of them another type with [AggregateType(\"…\")], or upload it apart.");
            }
        }
    }

    private void Visit(INamespaceOrTypeSymbol container, INamedTypeSymbol wanted)
    {
        foreach (var member in container.GetMembers())
        {
            if (member is not INamespaceOrTypeSymbol inner)
            {
                continue;
            }

            if (inner is INamedTypeSymbol type)
            {
                Examine(type, wanted);
            }

            Visit(inner, wanted);
        }
    }

    private void Examine(INamedTypeSymbol type, INamedTypeSymbol wanted)
    {
        var implemented = type.AllInterfaces.Where(i => SymbolEqualityComparer.Default.Equals(i.OriginalDefinition, wanted)).ToList();
        // Abstract and open generic classes are bases of others; interfaces extend.
        if (implemented.Count == 0 || type.TypeKind == TypeKind.Interface || type.IsAbstract || IsGeneric(type))
        {
            return;
        }

        if (WhyNotUsable(type, implemented.Count) is { } reason)
        {
            Refuse("SF0002", type, $"{type.ToDisplayString(TypeNames.Full)} can't be used: {reason}.");
            return;
        }

        var aggregateType = kind == ArtefactKind.Reducer ? AggregateTypeOf(type) : null;
        if (aggregateType is not null && !AggregateTypeName().IsMatch(aggregateType))
        {
            Refuse("SF0003", type, $"'{aggregateType}' is no aggregate type (1 to 128 of A-Z a-z 0-9 _ . -); name one with [AggregateType(\"…\")].");
            return;
        }

        if (aggregateType is not null)
        {
            reducers.Add((aggregateType, type));
        }

        states.Add((type.ToDisplayString(TypeNames.Full), implemented[0].TypeArguments[0]));
        classes.Add(new DiscoveredClass(type.ToDisplayString(TypeNames.Full), implemented[0].TypeArguments[0].ToDisplayString(TypeNames.Full), aggregateType));
    }

    private static string? WhyNotUsable(INamedTypeSymbol type, int implementations)
    {
        if (type.TypeKind != TypeKind.Class)
        {
            return "it must be a class";
        }

        if (implementations > 1)
        {
            return "it implements the interface for more than one state";
        }

        if (type.IsFileLocal)
        {
            return "a class that is local to its file has no name to be called by";
        }

        if (!type.InstanceConstructors.Any(c => c.Parameters.IsEmpty && c.DeclaredAccessibility is Accessibility.Public or Accessibility.Internal))
        {
            return "it has no public or internal constructor without parameters";
        }

        return HasRequiredMembers(type) ? "a required member would stay unset" : null;
    }

    private static string AggregateTypeOf(INamedTypeSymbol type)
    {
        var attribute = type.GetAttributes().FirstOrDefault(a => a.AttributeClass?.ToDisplayString(TypeNames.Full) == "Statefold.AggregateTypeAttribute");
        if (attribute is { ConstructorArguments: [{ Value: string named }] })
        {
            return named;
        }

        var name = type.Name;
        if (name.Length > Suffix.Length && name.EndsWith(Suffix, StringComparison.Ordinal))
        {
            name = name[..^Suffix.Length];
        }

        return JsonNamingPolicy.CamelCase.ConvertName(name);
    }

    private static bool IsGeneric(INamedTypeSymbol type)
    {
        for (INamedTypeSymbol? at = type; at is not null; at = at.ContainingType)
        {
            if (at.IsGenericType)
            {
                return true;
            }
        }

        return false;
    }

    private static bool HasRequiredMembers(INamedTypeSymbol type)
    {
        for (INamedTypeSymbol? at = type; at is not null; at = at.BaseType)
        {
            if (at.GetMembers().Any(m => m is IPropertySymbol { IsRequired: true } or IFieldSymbol { IsRequired: true }))
            {
                return true;
            }
        }

        return false;
    }

    private void Refuse(string code, INamedTypeSymbol type, string message) =>
        findings.Add(Finding.At(true, code, message, type.Locations.FirstOrDefault()));

    [GeneratedRegex(@"\A[A-Za-z0-9_.-]{1,128}\z", RegexOptions.CultureInvariant)]
    private static partial Regex AggregateTypeName();
}
