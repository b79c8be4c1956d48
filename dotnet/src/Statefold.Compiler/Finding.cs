using System.Globalization;
using Microsoft.CodeAnalysis;

namespace Statefold.Compiler;

/// <summary>An error or a warning. Line and column are 1-based; 0 where there is no place.</summary>
internal sealed record Finding(bool IsError, string Code, string Message, string? File, int Line, int Column)
{
    public static Finding Of(Diagnostic diagnostic)
    {
        var message = diagnostic.GetMessage(CultureInfo.InvariantCulture);
        return At(diagnostic.Severity == DiagnosticSeverity.Error, diagnostic.Id, message, diagnostic.Location);
    }

    public static Finding At(bool isError, string code, string message, Location? location)
    {
        if (location is null || !location.IsInSource)
        {
            return new Finding(isError, code, message, null, 0, 0);
        }

        var start = location.GetLineSpan().StartLinePosition;
        return new Finding(isError, code, message, location.SourceTree!.FilePath, start.Line + 1, start.Character + 1);
    }

    /// <summary>As a compiler prints it.</summary>
    public override string ToString()
    {
        var severity = IsError ? "error" : "warning";
        var place = File is null ? "" : Line == 0 ? $"{File}: " : $"{File}({Line},{Column}): ";
        return $"{place}{severity} {Code}: {Message}";
    }
}
