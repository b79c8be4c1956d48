using System.Reflection;
using System.Runtime.Loader;

namespace Statefold.Runner;

/// <summary>One compiled upload in a load context of its own, so that it can be unloaded.</summary>
internal sealed class Artefact
{
    private static readonly Dictionary<Type, Type> UnitTypes = new()
    {
        [typeof(IReducer<>)] = typeof(ReducerUnit<>),
        [typeof(IMultiKeyProjection<>)] = typeof(MultiKeyProjectionUnit<>),
        [typeof(IProjection<>)] = typeof(ProjectionUnit<>),
    };

    private readonly AssemblyLoadContext context = new("artefact", isCollectible: true);
    private readonly Assembly? assembly;
    private readonly Exception? broken;

    public Artefact(byte[] image)
    {
        try
        {
            assembly = context.LoadFromStream(new MemoryStream(image));
        }
        catch (BadImageFormatException error)
        {
            broken = error;
        }
    }

    /// <summary>A unit of the class; one that throws at every use when the class can't be made.</summary>
    public Unit Create(string className, RunnerLimits limits)
    {
        if (assembly is null)
        {
            return new BrokenUnit(broken!);
        }

        try
        {
            var type = Find(assembly, className) ?? throw new InvalidOperationException($"The artefact has no class {className}.");
            var contract = UnitTypes.Keys
                .SelectMany(open => type.GetInterfaces().Where(i => i.IsGenericType && i.GetGenericTypeDefinition() == open))
                .FirstOrDefault() ?? throw new InvalidOperationException($"{className} is neither a reducer nor a projection.");
            var instance = Activator.CreateInstance(type, nonPublic: true)!;
            var unitType = UnitTypes[contract.GetGenericTypeDefinition()].MakeGenericType(contract.GenericTypeArguments);
            return (Unit)Activator.CreateInstance(unitType, instance, limits)!;
        }
        catch (TargetInvocationException error) when (error.InnerException is not null and not OutOfMemoryException)
        {
            return new BrokenUnit(error.InnerException);
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
            return new BrokenUnit(error);
        }
    }

    public void Unload() => context.Unload();

    // Names are as C# writes them; reflection separates a nested class with '+'.
    private static Type? Find(Assembly assembly, string className)
    {
        for (var name = className; ;)
        {
            if (assembly.GetType(name) is { } type)
            {
                return type;
            }

            var dot = name.LastIndexOf('.');
            if (dot < 0)
            {
                return null;
            }

            name = $"{name[..dot]}+{name[(dot + 1)..]}";
        }
    }
}
