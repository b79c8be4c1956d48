using System.Net;
using System.Text.Json;

namespace Statefold.Client;

/// <summary>The service refused a request, or gave no answer that can be used. <see cref="Code"/> says which.</summary>
public sealed class StatefoldException : Exception
{
    /// <summary>Nobody listens, or the connection broke. Whether the request was done is not known.</summary>
    public const string Unreachable = "UNREACHABLE";

    /// <summary>No answer came in time. Whether the request was done is not known.</summary>
    public const string TimedOut = "TIMED_OUT";

    /// <summary>What answered does not speak as the service does.</summary>
    public const string UnexpectedAnswer = "UNEXPECTED_ANSWER";

    internal StatefoldException(string code, string message, bool isRetryable, HttpStatusCode? status = null, Exception? cause = null)
        : base(message, cause)
    {
        Code = code;
        IsRetryable = isRetryable;
        Status = status;
    }

    /// <summary>A code of <c>docs/reference/errors.md</c>, like <c>VERSION_CONFLICT</c>, or one of the constants of this class.</summary>
    public string Code { get; }

    /// <summary>Of the answer; null where there was none.</summary>
    public HttpStatusCode? Status { get; }

    /// <summary>The same call may succeed later, unchanged.</summary>
    public bool IsRetryable { get; }

    /// <summary>All that the service said of a refusal; undefined where it said nothing.</summary>
    public JsonElement Problem { get; internal init; }

    /// <summary>How long the service asks to wait.</summary>
    public TimeSpan? RetryAfter { get; internal init; }

    /// <summary>Of a <c>CURSOR_EXPIRED</c>: the oldest change that is kept.</summary>
    public long? OldestSequence => MemberOf("oldestSequence");

    /// <summary>Of a <c>VERSION_CONFLICT</c>: the version that the aggregate is at.</summary>
    public long? CurrentVersion => MemberOf("currentVersion");

    private long? MemberOf(string name) =>
        Problem.ValueKind == JsonValueKind.Object && Problem.TryGetProperty(name, out var value) ? value.GetInt64() : null;
}
