using System.Text;

namespace Statefold.Runner;

/// <summary>Strings of short UTF-8 names that come again and again. A fixed number of places: a newcomer takes its predecessor's.</summary>
internal sealed class NameTable
{
    private const int Places = 256;
    private const int MaxLength = 64;
    private readonly byte[]?[] texts = new byte[Places][];
    private readonly string[] strings = new string[Places];

    public string Get(ReadOnlySpan<byte> utf8)
    {
        if (utf8.Length is 0 or > MaxLength)
        {
            return Encoding.UTF8.GetString(utf8);
        }

        var place = (utf8[0] + (utf8[^1] * 31) + (utf8[utf8.Length / 2] * 17) + (utf8.Length * 7)) & (Places - 1);
        if (texts[place] is { } text && utf8.SequenceEqual(text))
        {
            return strings[place];
        }

        texts[place] = utf8.ToArray();
        return strings[place] = Encoding.UTF8.GetString(utf8);
    }
}
