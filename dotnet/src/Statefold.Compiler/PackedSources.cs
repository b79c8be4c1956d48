using System.IO.Compression;
using System.Text.Json;
using Statefold.Wire;

namespace Statefold.Compiler;

/// <summary>Sources as the service keeps them: gzip of the JSON text of an array of objects with <c>path</c> and <c>text</c>.</summary>
internal static class PackedSources
{
    /// <summary>Null where they are longer than what is ever compiled.</summary>
    public static SourceFile[]? Unpack(ReadOnlySpan<byte> packed)
    {
        using var json = Inflate(packed);
        if (json is null)
        {
            return null;
        }

        var reader = new Utf8JsonReader(json.GetBuffer().AsSpan(0, (int)json.Length));
        var sources = new List<SourceFile>();
        Expect(ref reader, JsonTokenType.StartArray);
        while (reader.Read() && reader.TokenType == JsonTokenType.StartObject)
        {
            Expect(ref reader, JsonTokenType.PropertyName);
            Expect(ref reader, JsonTokenType.String);
            var path = reader.GetString()!;
            Expect(ref reader, JsonTokenType.PropertyName);
            Expect(ref reader, JsonTokenType.String);
            var text = new byte[reader.ValueSpan.Length];
            sources.Add(new SourceFile(path, text[..reader.CopyString(text)]));
            Expect(ref reader, JsonTokenType.EndObject);
        }

        return [.. sources];
    }

    private static MemoryStream? Inflate(ReadOnlySpan<byte> packed)
    {
        using var gzip = new GZipStream(new MemoryStream(packed.ToArray()), CompressionMode.Decompress);
        var json = new MemoryStream();
        var part = new byte[64 * 1024];
        for (int read; (read = gzip.Read(part)) > 0;)
        {
            if (json.Length + read > SourceLimits.MaxJsonBytes)
            {
                return null;
            }

            json.Write(part, 0, read);
        }

        return json;
    }

    private static void Expect(ref Utf8JsonReader reader, JsonTokenType type)
    {
        if (!reader.Read() || reader.TokenType != type)
        {
            throw new WireFormatException("The sources are no array of files.");
        }
    }
}
