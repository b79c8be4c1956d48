using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Statefold.Wire;

namespace Statefold.Runner;

/// <summary>The part that knows the type of the state.</summary>
internal abstract class TypedUnit<T>(RunnerLimits limits) : Unit
{
    private readonly Utf8JsonWriter json = new(Stream.Null, StateText.WriterOptions);
    private readonly JsonTypeInfo<T> info = (JsonTypeInfo<T>)StateText.NewOptions().GetTypeInfo(typeof(T));
    private long written;

    public override StateEntry NewEntry(string key) => new TypedEntry<T>(this, key);

    public override void Apply(StateEntry entry, Event e)
    {
        var typed = (TypedEntry<T>)entry;
        if (!typed.Loaded)
        {
            typed.State = Read(typed.Text);
            typed.Loaded = true;
        }

        typed.State = Next(typed.State, e, typed.Key);
    }

    public override void Write(StateEntry entry, WireWriter writer)
    {
        var typed = (TypedEntry<T>)entry;
        if (!typed.Loaded)
        {
            StateText.Copy(typed.Text, writer);
            return;
        }

        if (typed.State is null)
        {
            writer.Byte(StateText.Null);
            return;
        }

        writer.Byte(StateText.Json);
        var length = writer.Length;
        writer.UInt32(0);
        var limited = new LimitedWriter(writer, limits.StateBytes);
        json.Reset(limited);
        JsonSerializer.Serialize(json, typed.State, info);
        json.Flush();
        limited.Check();
        writer.PatchUInt32(length, (uint)(writer.Length - length - 4));

        // A state that loses something on the way through JSON would differ after a restart. Looked at now and then: 1st, 2nd, 4th, 8th...
        if (long.IsPow2(++written))
        {
            RequireRoundTrip(writer.Written[(length + 4)..]);
        }
    }

    protected abstract T? Next(T? state, Event e, string key);

    private T? Read(byte[]? text)
    {
        if (text is null)
        {
            return default;
        }

        try
        {
            return JsonSerializer.Deserialize(text, info);
        }
        catch (Exception error) when (error is JsonException or NotSupportedException or InvalidOperationException or ArgumentException)
        {
            throw new StateException($"The state can't be read back as {typeof(T).Name}: {error.Message}", error);
        }
    }

    private void RequireRoundTrip(ReadOnlySpan<byte> text)
    {
        var again = JsonSerializer.SerializeToUtf8Bytes(Read(text.ToArray())!, info);
        if (!text.SequenceEqual(again))
        {
            throw new StateException(
                $"The state doesn't survive JSON: {Excerpt(text)} is read back as {Excerpt(again)}. Every property needs a public setter or a constructor parameter of its name.");
        }
    }

    private static string Excerpt(ReadOnlySpan<byte> text) =>
        System.Text.Encoding.UTF8.GetString(text.Length <= 200 ? text : text[..200]) + (text.Length <= 200 ? "" : "…");
}
