using System.Globalization;
using System.Text;
using Microsoft.CodeAnalysis.CSharp;

namespace Statefold.Compiler;

/// <summary>
/// What an upload may be, looked at before it is parsed: what costs the compiler minutes, gigabytes or its whole stack is refused in
/// milliseconds. What passes and costs too much all the same is ended by the host.
/// </summary>
internal static class SourceLimits
{
    public const int MaxAssemblyBytes = 8 * 1024 * 1024;

    private const int MaxBytes = 4 * 1024 * 1024;

    /// <summary>Some 30,000 lines. Each token costs Roslyn about a kilobyte, with an error to it.</summary>
    private const int MaxTokens = 300_000;

    /// <summary>Lines that begin with #. Past some ten thousands the lexer is quadratic in them.</summary>
    private const int MaxDirectives = 10_000;

    /// <summary>Of brackets. Past some thousands the parser takes minutes, or all of the stack.</summary>
    private const int MaxNesting = 500;

    public static Finding TooDeep(string? file) => new(true, "SF0005", "The code is nested too deeply to be compiled.", file, 0, 0);

    public static Finding TooLarge(string what, long count, long most, string unit, string? file = null)
    {
        var message = string.Format(CultureInfo.InvariantCulture, "{0} {1:N0} {2}, more than the limit of {3:N0}.", what, count, unit, most);
        return new Finding(true, "SF0008", message, file, 0, 0);
    }

    /// <summary>What is wrong with the first source that is past a limit; null when none is.</summary>
    public static Finding? Check(IReadOnlyList<SourceFile> sources, CSharpParseOptions options)
    {
        var bytes = sources.Sum(source => (long)source.Utf8.Length);
        if (bytes > MaxBytes)
        {
            return TooLarge("The sources have", bytes, MaxBytes, "bytes");
        }

        var tokens = 0;
        foreach (var source in sources)
        {
            var directives = Directives(source.Utf8);
            if (directives > MaxDirectives)
            {
                return TooLarge("The file has", directives, MaxDirectives, "preprocessor directives", source.Path);
            }

            var depth = 0;
            foreach (var token in SyntaxFactory.ParseTokens(Encoding.UTF8.GetString(source.Utf8), options: options))
            {
                if (++tokens > MaxTokens)
                {
                    return TooLarge("The sources have at least", tokens, MaxTokens, "words and signs");
                }

                switch (token.Kind())
                {
                    case SyntaxKind.OpenParenToken or SyntaxKind.OpenBraceToken or SyntaxKind.OpenBracketToken:
                        if (++depth > MaxNesting)
                        {
                            return TooDeep(source.Path);
                        }

                        break;
                    case SyntaxKind.CloseParenToken or SyntaxKind.CloseBraceToken or SyntaxKind.CloseBracketToken:
                        depth--;
                        break;
                }
            }
        }

        return null;
    }

    private static int Directives(ReadOnlySpan<byte> utf8)
    {
        var count = 0;
        foreach (var line in utf8.Split((byte)'\n'))
        {
            var text = utf8[line].TrimStart(" \t\r"u8);
            count += text is [(byte)'#', ..] ? 1 : 0;
        }

        return count;
    }
}
