using System.Reflection;
using Statefold.Testing;
using Xunit;

namespace __Name__.Tests;

/// <summary>Each case of <c>fixtures/</c> is a test: set a breakpoint in a reducer, and debug the case.</summary>
public sealed class FixtureTests
{
    private static readonly FixtureSet Fixtures = FixtureSet.Read(Path.Combine(AppContext.BaseDirectory, "fixtures"), Assembly.Load("__Name__"));

    public static TheoryData<string> Cases => [.. Fixtures.Names];

    [Theory]
    [MemberData(nameof(Cases))]
    public void Holds(string fixture) => Fixtures.Run(fixture);
}
