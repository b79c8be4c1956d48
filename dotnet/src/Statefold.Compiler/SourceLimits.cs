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

    /// <summary>Reducers or projections of an upload. Each process of the service holds their names in memory, and refuses more of them.</summary>
    private const int MaxClasses = 500;

    /// <summary>UTF-8 of a class's name with its namespace, or of its state's.</summary>
    private const int MaxNameBytes = 1024;

    private const int MaxNamesBytes = 64 * 1024;

    /// <summary>Characters of a name that is too long, by which it is found.</summary>
    private const int ShownOfName = 100;

    private const int MaxBytes = 4 * 1024 * 1024;

    /// <summary>JSON text of sources that are within the limit: a character may be six bytes there, and there are paths beside it.</summary>
    public const int MaxJsonBytes = (6 * MaxBytes) + (1024 * 1024);

    /// <summary>Some 30,000 lines. Each token costs Roslyn about a kilobyte, with an error to it.</summary>
    private const int MaxTokens = 300_000;

    /// <summary>Lines that begin with #. Past some ten thousands the lexer is quadratic in them.</summary>
    private const int MaxDirectives = 10_000;

    /// <summary>Of brackets. Past some thousands the parser takes minutes, or all of the stack.</summary>
    private const int MaxNesting = 500;

    public static Finding TooDeep(string? file) => new(true, "SF0005", "The code is nested too deeply to be compiled.", file, 0, 0);

    public static Finding TooLarge(string what, long count, long most, string unit, string? file = null, string? advice = null)
    {
        var message = string.Format(CultureInfo.InvariantCulture, "{0} {1:N0} {2}, more than the limit of {3:N0}.", what, count, unit, most);
        if (advice is not null)
        {
            message = $"{message} {advice}";
        }

        return new Finding(true, "SF0008", message, file, 0, 0);
    }

    /// <summary>Of sources whose JSON text is longer than any that are within the limit.</summary>
    public static Finding TooLong() => TooLarge("The sources have more than", MaxJsonBytes / 6, MaxBytes, "bytes");

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

    /// <summary>What is wrong with the classes that were found, where they are past a limit; null when they are not.</summary>
    public static Finding? Check(IReadOnlyCollection<DiscoveredClass> classes)
    {
        if (classes.Count > MaxClasses)
        {
            return TooLarge("The upload has", classes.Count, MaxClasses, "reducers or projections", advice: "Upload some of them apart.");
        }

        var all = 0;
        foreach (var found in classes)
        {
            var longest = Math.Max(Encoding.UTF8.GetByteCount(found.ClassName), Encoding.UTF8.GetByteCount(found.StateTypeName));
            if (longest > MaxNameBytes)
            {
                return TooLarge($"The name of {found.ClassName[..Math.Min(found.ClassName.Length, ShownOfName)]} or of its state has", longest, MaxNameBytes, "bytes", advice: "Shorten the names of its namespaces and types.");
            }

            all += found.NameBytes;
        }

        return all > MaxNamesBytes
            ? TooLarge("The names of the classes and their states have", all, MaxNamesBytes, "bytes", advice: "Shorten the names of namespaces and types, or upload some of the classes apart.")
            : null;
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
