using System.Text.Json;

namespace Statefold.Client;

/// <summary>What the aggregate must be at for an append to be taken. A number converts to it.</summary>
public readonly record struct ExpectedVersion
{
    private readonly object? value;

    private ExpectedVersion(object value) => this.value = value;

    /// <summary>Whatever there is.</summary>
    public static ExpectedVersion Any { get; } = new("any");

    /// <summary>The aggregate must not be there yet.</summary>
    public static ExpectedVersion None { get; } = new("none");

    /// <summary>The aggregate must be there.</summary>
    public static ExpectedVersion Exists { get; } = new("exists");

    /// <summary>Exactly this version; 0: the aggregate must not be there yet.</summary>
    public static implicit operator ExpectedVersion(long version) => Exactly(version);

    /// <summary>Exactly this version; 0: the aggregate must not be there yet.</summary>
    /// <param name="version">From 0 on.</param>
    /// <exception cref="ArgumentOutOfRangeException">It is negative.</exception>
    public static ExpectedVersion Exactly(long version)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(version);
        return new(version);
    }

    /// <inheritdoc />
    public override string ToString() => value?.ToString() ?? "any";

    internal void Write(Utf8JsonWriter writer)
    {
        if (value is long version)
        {
            writer.WriteNumber("expectedVersion", version);
        }
        else
        {
            writer.WriteString("expectedVersion", ToString());
        }
    }
}
