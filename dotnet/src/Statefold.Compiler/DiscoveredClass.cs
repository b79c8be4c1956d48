using System.Text;

namespace Statefold.Compiler;

/// <summary>A class that implements what the upload is for. <paramref name="AggregateType"/>: reducers only.</summary>
internal sealed record DiscoveredClass(string ClassName, string StateTypeName, string? AggregateType)
{
    /// <summary>UTF-8 of all its names together.</summary>
    public int NameBytes => Encoding.UTF8.GetByteCount(ClassName) + Encoding.UTF8.GetByteCount(StateTypeName) + Encoding.UTF8.GetByteCount(AggregateType ?? "");
}
