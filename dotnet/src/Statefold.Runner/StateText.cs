using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>A state on the wire: a byte for its kind, then JSON as a blob unless there is none.</summary>
internal static class StateText
{
    public const byte Null = 0;
    public const byte Json = 1;

    private const int MaxDepth = 64;

    // Relaxed: states are never put into HTML, and text should stay readable.
    public static JsonWriterOptions WriterOptions { get; } = new()
    {
        Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
        MaxDepth = MaxDepth,
        SkipValidation = false,
    };

    /// <summary>Options of a unit's own: what they cache of a type must not outlive its artefact.</summary>
    public static JsonSerializerOptions NewOptions() => new(JsonSerializerDefaults.Web)
    {
        Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
        MaxDepth = MaxDepth,
        Converters = { new HashOrderedConverters() },
        TypeInfoResolver = new DefaultJsonTypeInfoResolver { Modifiers = { HashOrderedMembers.Sort } },
    };

    public static byte[]? Read(ref WireReader reader) => reader.Byte() switch
    {
        Null => null,
        Json => reader.Blob().ToArray(),
        _ => throw new WireFormatException("A state is of no known kind."),
    };

    public static void Copy(byte[]? text, WireWriter writer)
    {
        writer.Byte(text is null ? Null : Json);
        if (text is not null)
        {
            writer.Blob(text);
        }
    }
}
