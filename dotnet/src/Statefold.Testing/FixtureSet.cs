using System.Reflection;
using System.Text.Json;

namespace Statefold.Testing;

/// <summary>
/// The fixtures of a project, to be run in its own tests: the format is that of <c>statefold test</c>, the code runs in the process of the
/// test, so that a debugger stops in it.
/// </summary>
public sealed class FixtureSet
{
    private static readonly JsonSerializerOptions Json = new(JsonSerializerDefaults.Web);

    private readonly Dictionary<string, FixtureCase> cases = [];
    private readonly IReadOnlyList<FoldedClass> classes;

    private FixtureSet(IReadOnlyList<FoldedClass> classes) => this.classes = classes;

    /// <summary>Of each case its file and name, in the order of both.</summary>
    public IReadOnlyCollection<string> Names => cases.Keys;

    /// <param name="folder">Of <c>*.json</c> files, below it too.</param>
    /// <param name="assembly">That has the reducers and projections.</param>
    /// <exception cref="FixtureFailedException">There is none, or one is malformed.</exception>
    public static FixtureSet Read(string folder, Assembly assembly)
    {
        var set = new FixtureSet(FoldedClass.Of(assembly));
        IEnumerable<string> files = Directory.Exists(folder) ? Directory.EnumerateFiles(folder, "*.json", SearchOption.AllDirectories).Order(StringComparer.Ordinal) : [];
        foreach (var file in files)
        {
            var path = Path.GetRelativePath(folder, file).Replace('\\', '/');
            foreach (var (index, one) in ReadFile(file, path).Index())
            {
                var name = $"{path}: {one.Name ?? $"{Path.GetFileNameWithoutExtension(path)} {index + 1}"}";
                if (!set.cases.TryAdd(name, one))
                {
                    throw new FixtureFailedException($"{name} is there twice: give each case a name of its own.");
                }
            }
        }

        return set.cases.Count > 0 ? set : throw new FixtureFailedException($"{folder} has no fixtures: JSON files with given, when and then.");
    }

    /// <summary>Runs one case by its name.</summary>
    /// <exception cref="FixtureFailedException">It does not hold.</exception>
    public void Run(string name) => FixtureRun.Run(cases[name], classes);

    private static IEnumerable<FixtureCase> ReadFile(string file, string path)
    {
        try
        {
            var root = JsonElement.Parse(File.ReadAllBytes(file).AsSpan().TrimStart("\uFEFF"u8));
            return root.ValueKind == JsonValueKind.Array ? root.Deserialize<List<FixtureCase>>(Json)! : [root.Deserialize<FixtureCase>(Json)!];
        }
        catch (JsonException error)
        {
            throw new FixtureFailedException($"{path}: {error.Message}", error);
        }
    }
}
