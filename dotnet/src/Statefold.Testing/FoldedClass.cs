using System.Reflection;
using System.Text.Json;
using Statefold.Runner;

namespace Statefold.Testing;

/// <summary>A reducer or projection of the project.</summary>
internal sealed record FoldedClass(bool IsReducer, string Name, string? AggregateType, Type Type)
{
    private static readonly RunnerLimits Limits = new(CacheEntries: long.MaxValue, CacheBytes: long.MaxValue, StateBytes: 1024 * 1024);

    public static IReadOnlyList<FoldedClass> Of(Assembly assembly) =>
        [.. assembly.GetTypes().Where(t => t is { IsClass: true, IsAbstract: false, ContainsGenericParameters: false }).SelectMany(KindsOf).OrderBy(c => c.Name, StringComparer.Ordinal)];

    public bool IsNamed(string name) => Name == name || Name.EndsWith($".{name}", StringComparison.Ordinal);

    public Unit NewUnit()
    {
        var contract = (IsReducer ? ContractOf(Type, typeof(IReducer<>)) : ContractOf(Type, typeof(IMultiKeyProjection<>)) ?? ContractOf(Type, typeof(IProjection<>)))!;
        var open = contract.GetGenericTypeDefinition();
        var unit = open == typeof(IReducer<>) ? typeof(ReducerUnit<>) : open == typeof(IProjection<>) ? typeof(ProjectionUnit<>) : typeof(MultiKeyProjectionUnit<>);
        var instance = Activator.CreateInstance(Type, nonPublic: true)!;
        return (Unit)Activator.CreateInstance(unit.MakeGenericType(contract.GenericTypeArguments), instance, Limits)!;
    }

    public override string ToString() => $"{(IsReducer ? "reducer" : "projection")} {Name}";

    private static IEnumerable<FoldedClass> KindsOf(Type type)
    {
        var name = type.FullName!.Replace('+', '.');
        if (ContractOf(type, typeof(IReducer<>)) is not null)
        {
            yield return new FoldedClass(true, name, AggregateTypeOf(type), type);
        }

        if (ContractOf(type, typeof(IProjection<>)) is not null)
        {
            yield return new FoldedClass(false, name, null, type);
        }
    }

    private static Type? ContractOf(Type type, Type open) => type.GetInterfaces().FirstOrDefault(i => i.IsGenericType && i.GetGenericTypeDefinition() == open);

    private static string AggregateTypeOf(Type type)
    {
        if (type.GetCustomAttribute<AggregateTypeAttribute>() is { } attribute)
        {
            return attribute.Name;
        }

        const string suffix = "Reducer";
        var name = type.Name.Length > suffix.Length && type.Name.EndsWith(suffix, StringComparison.Ordinal) ? type.Name[..^suffix.Length] : type.Name;
        return JsonNamingPolicy.CamelCase.ConvertName(name);
    }
}
