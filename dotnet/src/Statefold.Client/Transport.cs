using System.Net;
using System.Net.Http.Headers;
using System.Text.Json;

namespace Statefold.Client;

/// <summary>Sends requests: keys, time-outs, retries, and refusals as exceptions.</summary>
internal sealed class Transport(StatefoldClientOptions options, HttpClient http)
{
    /// <summary>A pause that is asked for past this is the caller's to make.</summary>
    private static readonly TimeSpan MostRetryAfter = TimeSpan.FromMinutes(1);

    public StatefoldClientOptions Options => options;

    public Task<Received> GetAsync(string path, TimeSpan? timeout, CancellationToken cancellation) =>
        SendAsync(HttpMethod.Get, path, null, null, timeout, cancellation);

    /// <summary>A read that waits as long as its caller says: that something was not there by then is the answer.</summary>
    public Task<Received> WaitAsync(string path, TimeSpan wait, CancellationToken cancellation) =>
        SendAsync(HttpMethod.Get, path, null, null, options.Timeout + wait, cancellation, waits: true);

    /// <summary>A change, which has a name: the service does it once however often it is sent.</summary>
    public Task<Received> PostAsync(string path, byte[] body, string idempotencyKey, CancellationToken cancellation) =>
        SendAsync(HttpMethod.Post, path, body, idempotencyKey, null, cancellation);

    public Uri UriOf(string path)
    {
        // However they are encoded, a URL takes them out, and something else would be asked for.
        foreach (var segment in path.Split('?', 2)[0].Split('/'))
        {
            if (segment is "." or "..")
            {
                throw new ArgumentException($"{path} has the id {segment} in it, which no path of a URL can hold", nameof(path));
            }
        }

        return new(options.Url.AbsoluteUri.TrimEnd('/') + path);
    }

    private async Task<Received> SendAsync(
        HttpMethod method, string path, byte[]? body, string? idempotencyKey, TimeSpan? timeout, CancellationToken cancellation, bool waits = false)
    {
        for (var attempt = 1; ; attempt++)
        {
            TimeSpan pause;
            try
            {
                return await OnceAsync(method, path, body, idempotencyKey, timeout ?? options.Timeout, cancellation).ConfigureAwait(false);
            }
            catch (StatefoldException error) when (attempt < options.Attempts && MayRepeat(error, waits) && !(error.RetryAfter > MostRetryAfter))
            {
                pause = Backoff.Before(attempt, options.FirstDelay, options.MostDelay);
                if (error.RetryAfter > pause)
                {
                    pause = error.RetryAfter.Value;
                }
            }

            await Task.Delay(pause, cancellation).ConfigureAwait(false);
        }
    }

    private async Task<Received> OnceAsync(
        HttpMethod method, string path, byte[]? body, string? idempotencyKey, TimeSpan timeout, CancellationToken cancellation)
    {
        using var request = new HttpRequestMessage(method, UriOf(path));
        request.Headers.Add("X-API-Key", options.ApiKey);
        if (idempotencyKey is not null)
        {
            request.Headers.Add("Idempotency-Key", idempotencyKey);
        }

        if (body is not null)
        {
            request.Content = new ByteArrayContent(body);
            request.Content.Headers.ContentType = new MediaTypeHeaderValue("application/json");
        }

        using var limited = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limited.CancelAfter(timeout);
        try
        {
            using var response = await http.SendAsync(request, limited.Token).ConfigureAwait(false);
            var content = await response.Content.ReadAsByteArrayAsync(limited.Token).ConfigureAwait(false);
            return response.IsSuccessStatusCode
                ? new Received(content, PlaceOf(response, "Statefold-Position"), PlaceOf(response, "Statefold-Sequence"))
                : throw RefusalOf(response.StatusCode, content, RetryAfterOf(response));
        }
        catch (OperationCanceledException error) when (!cancellation.IsCancellationRequested)
        {
            var message = $"{options.Url} did not answer within {timeout.TotalSeconds:0.#} s";
            throw new StatefoldException(StatefoldException.TimedOut, message, isRetryable: true, cause: error);
        }
        catch (Exception error) when (error is HttpRequestException or IOException)
        {
            var message = $"{options.Url} cannot be reached: {error.Message}";
            throw new StatefoldException(StatefoldException.Unreachable, message, isRetryable: true, cause: error);
        }
    }

    private static long? PlaceOf(HttpResponseMessage response, string header) =>
        response.Headers.TryGetValues(header, out var values) && long.TryParse(values.First(), out var place) ? place : null;

    /// <summary>What is between the service and its clients may say a date, which is of the clock of whoever says it.</summary>
    private static TimeSpan? RetryAfterOf(HttpResponseMessage response)
    {
        var asked = response.Headers.RetryAfter;
        var wait = asked?.Delta ?? (asked?.Date - (response.Headers.Date ?? DateTimeOffset.UtcNow));
        return wait < TimeSpan.Zero ? TimeSpan.Zero : wait;
    }

    private static bool MayRepeat(StatefoldException error, bool waits) =>
        !(waits && error.Code == "NOT_CAUGHT_UP")
        && error.Status is null or HttpStatusCode.TooManyRequests or HttpStatusCode.BadGateway or HttpStatusCode.ServiceUnavailable or HttpStatusCode.GatewayTimeout;

    private StatefoldException RefusalOf(HttpStatusCode status, byte[] content, TimeSpan? retryAfter)
    {
        try
        {
            var problem = JsonElement.Parse(content);
            return new StatefoldException(
                problem.GetProperty("code").GetString() ?? "",
                problem.GetProperty("detail").GetString() ?? "",
                problem.TryGetProperty("retryable", out var retryable) && retryable.ValueKind == JsonValueKind.True,
                status)
            {
                Problem = problem,
                RetryAfter = retryAfter,
            };
        }
        catch (Exception error) when (error is JsonException or KeyNotFoundException or InvalidOperationException)
        {
            var message = $"{options.Url} answered {(int)status} with no problem document: is it a Statefold service?";
            return new StatefoldException(StatefoldException.UnexpectedAnswer, message, status is HttpStatusCode.TooManyRequests || (int)status >= 500, status, error)
            {
                RetryAfter = retryAfter,
            };
        }
    }
}
