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

    /// <summary>The place of the last item, or erasure, that was given; null: none yet.</summary>
    private long? given;

    /// <summary>It begins with what comes, and where that is is not known yet.</summary>
    private bool isNew = options.FromNow && options.After is null;

    private bool pollOnly = options.PollOnly;

    /// <summary>Only then a poll waits for what comes.</summary>
    private bool caughtUp;

    /// <summary>In a row, since something was told last.</summary>
    private int failures;

    /// <summary>Of the WebSocket itself: a service that is away says nothing of it.</summary>
    private int unopened;

    private bool opening;

    /// <summary>No place was given to go on from, and all that there was before may be kept no longer.</summary>
    private bool AtStart => options.After is null && !options.FromNow && (reached ?? 0) == 0;

    /// <summary>Each loop over the result begins where the options say.</summary>
    public static async IAsyncEnumerable<T> FollowAsync(
        Transport transport, Followed<T> followed, FollowOptions options, [EnumeratorCancellation] CancellationToken cancellation)
    {
        await foreach (var item in new Subscription<T>(transport, followed, options).ItemsAsync(cancellation).ConfigureAwait(false))
        {
            yield return item;
        }
    }

    private async IAsyncEnumerable<T> ItemsAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        await foreach (var (place, item, erasure) in ToldAsync(cancellation).ConfigureAwait(false))
        {
            if (place <= given)
            {
                continue;
            }

            if (erasure is not null && options.OnErased is not null)
            {
                await options.OnErased(erasure, cancellation).ConfigureAwait(false);
            }

            given = place;
            Reach(place);
            if (erasure is null)
            {
                yield return item!;
            }
        }
    }

    private async IAsyncEnumerable<Told<T>> ToldAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        while (true)
        {
            bool failed;
            opening = false;
            await using (var round = RoundAsync(cancellation).GetAsyncEnumerator(cancellation))
            {
                while (true)
                {
                    (var next, failed) = await NextAsync(round, cancellation).ConfigureAwait(false);
                    if (!next)
                    {
                        break;
                    }

                    yield return round.Current;
                }
            }

            if (!failed && pollOnly)
            {
                continue;
            }

            if (failed)
            {
                failures++;
                unopened += opening ? 1 : 0;
                pollOnly = pollOnly || unopened >= MostFailures;
            }

            var pause = Backoff.Before(failed ? failures : 1, options.FirstDelay, options.MostDelay);
            await Task.Delay(pause, cancellation).ConfigureAwait(false);
        }
    }

    /// <summary>What was missed comes first, and a refusal is told in full; then what comes, over one WebSocket.</summary>
    private async IAsyncEnumerable<Told<T>> RoundAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        if (isNew && followed.Newest is not null && await followed.Newest(cancellation).ConfigureAwait(false) is { } newest)
        {
            reached = newest;
            isNew = false;
        }

        if (!isNew || pollOnly)
        {
            await foreach (var told in PagesAsync(wait: pollOnly && caughtUp, cancellation).ConfigureAwait(false))
            {
                if (isNew)
                {
                    // The service does not tell where now is: what is there already is passed over.
                    Reach(told.Place);
                    continue;
                }

                yield return told;
            }
        }

        if (pollOnly)
        {
            failures = 0;
            isNew = false;
            caughtUp = true;
            yield break;
        }

        await foreach (var told in LiveAsync(cancellation).ConfigureAwait(false))
        {
            isNew = false;
            yield return told;
        }
    }

    private async Task<(bool Next, bool Failed)> NextAsync(IAsyncEnumerator<Told<T>> round, CancellationToken cancellation)
    {
        try
        {
            return (await round.MoveNextAsync().ConfigureAwait(false), false);
        }
        catch (StatefoldException error) when (AtStart && error.OldestSequence is { } oldest)
        {
            reached = oldest - 1;
            return (false, true);
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

    private void Reach(long place) => reached = Math.Max(reached ?? 0, place);

    /// <summary>Pages up to the newest item; <paramref name="wait"/>: then it waits for one.</summary>
    private async IAsyncEnumerable<Told<T>> PagesAsync(bool wait, [EnumeratorCancellation] CancellationToken cancellation)
    {
        while (true)
        {
            var query = Parameters([("limit", Query.Text(Page)), ("waitSeconds", wait ? Query.Text(PollSeconds) : null)]);
            var received = await transport.GetAsync(followed.PollPath + query, TimeSpan.FromSeconds(PollSeconds + 30), cancellation).ConfigureAwait(false);
            var page = received.Read<JsonElement>(transport.Options.Json);
            var items = page.GetProperty(followed.Members.Items);
            foreach (var item in items.EnumerateArray())
            {
                yield return Told<T>.Of(item, followed.ItemOf, followed.PlaceOf);
            }

            if (page.TryGetProperty(followed.Members.Reached, out var come))
            {
                Reach(come.GetInt64());
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
    private async IAsyncEnumerable<Told<T>> LiveAsync([EnumeratorCancellation] CancellationToken cancellation)
    {
        using var socket = new ClientWebSocket();
        socket.Options.SetRequestHeader("X-API-Key", transport.Options.ApiKey);
        var address = new UriBuilder(transport.UriOf(followed.StreamPath + Parameters([])));
        address.Scheme = address.Scheme == Uri.UriSchemeHttps ? Uri.UriSchemeWss : Uri.UriSchemeWs;
        using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation))
        {
            limit.CancelAfter(OpenTimeout);
            opening = true;
            await socket.ConnectAsync(address.Uri, limit.Token).ConfigureAwait(false);
            opening = false;
            unopened = 0;
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

            failures = 0;
            var message = JsonElement.Parse(text.GetBuffer().AsSpan(0, (int)text.Length));
            var type = message.GetProperty("type").GetString();
            if (type == followed.Type || type == FeedErasure.Type)
            {
                yield return Told<T>.Of(message, followed.ItemOf, followed.PlaceOf);
            }
            else if (type == "position")
            {
                Reach(message.GetProperty("position").GetInt64());
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
