using System.Net;
using System.Net.WebSockets;
using System.Runtime.CompilerServices;
using System.Text.Json;

namespace Statefold.Client;

/// <summary>
/// Follows something for ever: each item once and in its order, over whatever connections it takes. What was missed is read by pages, then a
/// WebSocket goes on, or long polls where none can be opened. It throws where to go on makes no sense.
/// </summary>
/// <typeparam name="T">Of the items.</typeparam>
internal sealed class Subscription<T>(Transport transport, Followed<T> followed, FollowOptions options)
{
    private const int Page = 1_000;
    private const int PollSeconds = 25;

    /// <summary>After so many openings in a row that failed the WebSocket is given up.</summary>
    private const int MostFailures = 3;

    private static readonly TimeSpan OpenTimeout = TimeSpan.FromSeconds(15);

    /// <summary>The service says something every 20 s at least.</summary>
    private static readonly TimeSpan MostSilence = TimeSpan.FromSeconds(75);

    private static readonly byte[] Pong = """{"type":"pong"}"""u8.ToArray();

    /// <summary>Up to there all was given, or was not wanted.</summary>
    private long? reached = options.After;

    /// <summary>The WebSocket of this round was opened.</summary>
    private bool opened;

    public async IAsyncEnumerable<T> ItemsAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        var given = long.MinValue;
        await foreach (var item in ToldAsync(cancellation).ConfigureAwait(false))
        {
            var place = followed.PlaceOf(item);
            reached = Math.Max(reached ?? 0, place);
            if (place <= given)
            {
                continue;
            }

            given = place;
            yield return item;
        }
    }

    private async IAsyncEnumerable<T> ToldAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        var pollOnly = options.PollOnly;
        var isNew = options.FromNow && reached is null;
        var caughtUp = false;
        var unopened = 0;
        for (var failures = 0; ;)
        {
            if (isNew && followed.Newest is not null && await NewestAsync(cancellation).ConfigureAwait(false) is { } newest)
            {
                reached = newest;
                isNew = false;
            }

            // What was missed comes first, and a refusal is told in full. From now on there is nothing that was missed.
            var passesOver = isNew && pollOnly;
            var pages = PagesAsync(wait: pollOnly && caughtUp, cancellation);
            IEnumerable<IAsyncEnumerable<T>> sources = pollOnly ? [pages] : isNew ? [LiveAsync(cancellation)] : [pages, LiveAsync(cancellation)];
            var failed = false;
            opened = false;
            foreach (var source in sources)
            {
                await using var items = source.GetAsyncEnumerator(cancellation);
                while (true)
                {
                    (var next, failed) = await NextAsync(items, cancellation).ConfigureAwait(false);
                    if (!next)
                    {
                        break;
                    }

                    failures = 0;
                    if (passesOver)
                    {
                        reached = Math.Max(reached ?? 0, followed.PlaceOf(items.Current));
                        continue;
                    }

                    isNew = false;
                    yield return items.Current;
                }

                if (failed)
                {
                    break;
                }
            }

            failures = failed ? failures + 1 : 0;
            if (pollOnly && !failed)
            {
                isNew = false;
                caughtUp = true;
                continue;
            }

            unopened = failed && !opened ? unopened + 1 : 0;
            pollOnly = pollOnly || unopened >= MostFailures;
            await Task.Delay(Backoff.Before(Math.Max(1, failures), options.FirstDelay, options.MostDelay), cancellation).ConfigureAwait(false);
        }
    }

    private async Task<long?> NewestAsync(CancellationToken cancellation)
    {
        try
        {
            return await followed.Newest!(cancellation).ConfigureAwait(false);
        }
        catch (StatefoldException error) when (!IsFinal(error))
        {
            return null;
        }
    }

    private static async Task<(bool Next, bool Failed)> NextAsync(IAsyncEnumerator<T> items, CancellationToken cancellation)
    {
        try
        {
            return (await items.MoveNextAsync().ConfigureAwait(false), false);
        }
        catch (StatefoldException error) when (!IsFinal(error))
        {
            return (false, true);
        }
        catch (Exception error) when (error is WebSocketException or IOException or HttpRequestException or OperationCanceledException)
        {
            cancellation.ThrowIfCancellationRequested();
            return (false, true);
        }
    }

    /// <summary>Pages up to the newest item; <paramref name="wait"/>: then it waits for one.</summary>
    private async IAsyncEnumerable<T> PagesAsync(bool wait, [EnumeratorCancellation] CancellationToken cancellation)
    {
        while (true)
        {
            var query = Parameters([("limit", Query.Text(Page)), ("waitSeconds", wait ? Query.Text(PollSeconds) : null)]);
            var received = await transport.GetAsync(followed.PollPath + query, TimeSpan.FromSeconds(PollSeconds + 30), cancellation).ConfigureAwait(false);
            var page = received.Read<JsonElement>(transport.Options.Json);
            var items = page.GetProperty(followed.Members.Items);
            foreach (var item in items.EnumerateArray())
            {
                yield return followed.ItemOf(item);
            }

            if (page.TryGetProperty(followed.Members.Reached, out var come))
            {
                reached = Math.Max(reached ?? 0, come.GetInt64());
            }

            if (items.GetArrayLength() == 0)
            {
                // Also where there is nothing yet: what comes before a WebSocket is open is behind this place.
                reached ??= 0;
                yield break;
            }
        }
    }

    /// <summary>Ends when its connection does. A message is read when the one before was taken, so none gathers here.</summary>
    private async IAsyncEnumerable<T> LiveAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        using var socket = new ClientWebSocket();
        socket.Options.SetRequestHeader("X-API-Key", transport.Options.ApiKey);
        var address = new UriBuilder(transport.UriOf(followed.StreamPath + Parameters([])));
        address.Scheme = address.Scheme == Uri.UriSchemeHttps ? Uri.UriSchemeWss : Uri.UriSchemeWs;
        using (var opening = CancellationTokenSource.CreateLinkedTokenSource(cancellation))
        {
            opening.CancelAfter(OpenTimeout);
            await socket.ConnectAsync(address.Uri, opening.Token).ConfigureAwait(false);
            opened = true;
        }

        using var text = new MemoryStream();
        var buffer = new byte[16 * 1024];
        while (true)
        {
            ValueWebSocketReceiveResult part;
            text.SetLength(0);
            using (var silence = CancellationTokenSource.CreateLinkedTokenSource(cancellation))
            {
                silence.CancelAfter(MostSilence);
                do
                {
                    part = await socket.ReceiveAsync(buffer.AsMemory(), silence.Token).ConfigureAwait(false);
                    text.Write(buffer, 0, part.Count);
                }
                while (!part.EndOfMessage);
            }

            if (part.MessageType == WebSocketMessageType.Close)
            {
                yield break;
            }

            var message = JsonElement.Parse(text.GetBuffer().AsSpan(0, (int)text.Length));
            var type = message.GetProperty("type").GetString();
            if (type == followed.Type)
            {
                yield return followed.ItemOf(message);
            }
            else if (type == "position")
            {
                reached = Math.Max(reached ?? 0, message.GetProperty("position").GetInt64());
            }
            else if (type == "ping")
            {
                await socket.SendAsync(Pong, WebSocketMessageType.Text, endOfMessage: true, cancellation).ConfigureAwait(false);
            }
        }
    }

    private string Parameters(IEnumerable<(string Name, string? Value)> more) =>
        Query.Of([.. more, .. followed.Filters, (followed.Cursor, Query.Text(reached))]);

    /// <summary>To go on makes no sense.</summary>
    private static bool IsFinal(StatefoldException error) =>
        error.Status is HttpStatusCode.BadRequest or HttpStatusCode.Unauthorized or HttpStatusCode.Forbidden or HttpStatusCode.NotFound or HttpStatusCode.Gone;
}
