using System.Text;

namespace Statefold.Runner;

/// <summary>What may be a state key: 1 to 256 characters (UTF-16), no control characters, no lone surrogates.</summary>
internal static class StateKey
{
    private const int MaxLength = 256;

    public static string Require(string key)
    {
        if (key.Length is 0 or > MaxLength)
        {
            throw new StateException($"ResolveKey gave a key of {key.Length} characters; it must have 1 to {MaxLength}.");
        }

        foreach (var c in key)
        {
            // The common case is plain ASCII, and needs no more than this.
            if (c is < ' ' or > '~')
            {
                return RequireText(key);
            }
        }

        return key;
    }

    private static string RequireText(string key)
    {
        if (key.Any(char.IsControl))
        {
            throw new StateException("ResolveKey gave a key with a control character.");
        }

        var rest = key.AsSpan();
        while (!rest.IsEmpty)
        {
            if (Rune.DecodeFromUtf16(rest, out _, out var read) != System.Buffers.OperationStatus.Done)
            {
                throw new StateException("ResolveKey gave a key with half a surrogate pair.");
            }

            rest = rest[read..];
        }

        return key;
    }
}
