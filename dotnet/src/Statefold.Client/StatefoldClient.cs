using System.Runtime.CompilerServices;
using System.Text.Json;

namespace Statefold.Client;

/// <summary>
/// One tenant of a Statefold service. It may be used from any number of threads. Every method throws <see cref="StatefoldException"/> where the
/// service refuses or gives no answer, and <see cref="OperationCanceledException"/> when its token is cancelled.
/// </summary>
public sealed class StatefoldClient : IDisposable
{
    private const int EventsPage = 1_000;

    /// <summary>A sequence behind which there is nothing: the most that JSON has as a number, but one.</summary>
    private const long PastAll = (1L << 53) - 2;

    private readonly Transport transport;
    private readonly HttpClient? owned;

    /// <summary>A client with connections of its own.</summary>
    /// <param name="options">Where the service is, and how it is asked.</param>
    public StatefoldClient(StatefoldClientOptions options)
        : this(options, new HttpClient(new SocketsHttpHandler { AllowAutoRedirect = false, PooledConnectionLifetime = TimeSpan.FromMinutes(5) }))
    {
        owned = Http;
    }

    /// <summary>A client over connections that are looked after elsewhere, by <c>IHttpClientFactory</c> for instance.</summary>
    /// <param name="options">Where the service is, and how it is asked; its time-out counts, where that of <paramref name="http"/> is longer.</param>
    /// <param name="http">Is not disposed with the client. WebSockets of subscriptions have connections of their own.</param>
    public StatefoldClient(StatefoldClientOptions options, HttpClient http)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(http);
        if (options.Url.Scheme != Uri.UriSchemeHttp && options.Url.Scheme != Uri.UriSchemeHttps)
        {
            throw new ArgumentException($"Url must be an http or https URL, for instance http://127.0.0.1:8080, and is {options.Url}", nameof(options));
        }

        if (options.Url.Query.Length > 0 || options.Url.Fragment.Length > 0 || options.Url.UserInfo.Length > 0)
        {
            throw new ArgumentException("Url must end before ? and #, and have no name or password: paths are put behind it, and ApiKey says who asks", nameof(options));
        }

        Http = http;
        transport = new Transport(options, http);
    }

    private HttpClient Http { get; }

    private JsonSerializerOptions Json => transport.Options.Json;

    /// <summary>Appends one event.</summary>
    /// <inheritdoc cref="AppendAsync(string, IReadOnlyList{NewEvent}, AppendOptions?, CancellationToken)"/>
    public Task<AppendResult> AppendAsync(
        string aggregateId, NewEvent newEvent, AppendOptions? options = null, CancellationToken cancellation = default) =>
        AppendAsync(aggregateId, [newEvent], options, cancellation);

    /// <summary>Appends several events to one aggregate, all or none. They are stored once, however often they had to be sent.</summary>
    /// <exception cref="StatefoldException">For instance <c>VERSION_CONFLICT</c>. Where no answer came the events may be stored: send them again with the same idempotency key.</exception>
    public async Task<AppendResult> AppendAsync(
        string aggregateId, IReadOnlyList<NewEvent> events, AppendOptions? options = null, CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(aggregateId);
        ArgumentNullException.ThrowIfNull(events);
        options ??= new AppendOptions();
        var key = options.IdempotencyKey ?? Guid.CreateVersion7().ToString();
        var received = await transport.PostAsync("/events/batch", BodyOf(aggregateId, events, options), key, cancellation).ConfigureAwait(false);
        var result = received.Read<AppendResult>(JsonSerializerOptions.Web);
        result.Position = received.Position;
        result.Json = Json;
        return result;
    }

    /// <summary>
    /// Loads the state of an aggregate, has it decided what happens, and appends that at exactly the version that was loaded. When another
    /// writer was first it is loaded and decided anew: so <paramref name="decide"/> is called once or more, and should do nothing else.
    /// </summary>
    /// <typeparam name="T">The shape of the state that the bound reducer makes.</typeparam>
    /// <param name="aggregateId">The aggregate.</param>
    /// <param name="decide">Gives the events; none: nothing is appended.</param>
    /// <param name="options">How.</param>
    /// <param name="cancellation">Ends it.</param>
    /// <returns>What was stored; null where nothing was decided.</returns>
    /// <exception cref="StatefoldException"><c>VERSION_CONFLICT</c> when others were first each time; <c>NO_REDUCER_BOUND</c>.</exception>
    public async Task<AppendResult?> DecideAsync<T>(
        string aggregateId,
        Func<AggregateState<T>, IReadOnlyList<NewEvent>> decide,
        DecideOptions? options = null,
        CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(decide);
        options ??= new DecideOptions();
        for (var attempt = 1; ; attempt++)
        {
            var loaded = await ReadStateAsync<T>(aggregateId, options.AggregateType, cancellation).ConfigureAwait(false);
            var events = decide(loaded);
            if (events.Count == 0)
            {
                return null;
            }

            var append = new AppendOptions
            {
                ExpectedVersion = loaded.Version,
                AggregateType = options.AggregateType,
                CorrelationId = options.CorrelationId,
                CausationId = options.CausationId,
                Metadata = options.Metadata,
            };
            try
            {
                return await AppendAsync(aggregateId, events, append, cancellation).ConfigureAwait(false);
            }
            catch (StatefoldException error) when (error.Code == "VERSION_CONFLICT" && attempt < options.Attempts)
            {
                // Another writer was first.
            }
        }
    }

    /// <summary>Events of an aggregate, page by page as they are asked for; none where it is not there.</summary>
    /// <param name="aggregateId">The aggregate.</param>
    /// <param name="fromVersion">The first version that is wanted.</param>
    /// <param name="cancellation">Ends it.</param>
    public async IAsyncEnumerable<StoredEvent> ReadEventsAsync(
        string aggregateId, long fromVersion = 1, [EnumeratorCancellation] CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(aggregateId);
        for (long? from = fromVersion; from is not null;)
        {
            var query = Query.Of([("fromVersion", Query.Text(from)), ("limit", Query.Text(EventsPage)), ("include", "metadata")]);
            var page = await FindAsync($"/events/{Uri.EscapeDataString(aggregateId)}{query}", cancellation).ConfigureAwait(false);
            if (page is not { } found)
            {
                yield break;
            }

            foreach (var item in found.GetProperty("events").EnumerateArray())
            {
                yield return EventOf<StoredEvent>(item);
            }

            from = found.TryGetProperty("nextVersion", out var next) ? next.GetInt64() : null;
        }
    }

    /// <summary>What the bound reducer made of an aggregate; version 0 where it is not there.</summary>
    /// <typeparam name="T">The shape of the state.</typeparam>
    /// <param name="aggregateId">The aggregate.</param>
    /// <param name="aggregateType">The text before the first <c>-</c>, <c>_</c>, <c>:</c> or <c>/</c> of the id unless given, where that is a name; else <c>default</c>.</param>
    /// <param name="cancellation">Ends it.</param>
    /// <exception cref="StatefoldException"><c>NO_REDUCER_BOUND</c>, for instance.</exception>
    public async Task<AggregateState<T>> ReadStateAsync<T>(
        string aggregateId, string? aggregateType = null, CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(aggregateId);
        var type = Uri.EscapeDataString(aggregateType ?? TypeOf(aggregateId));
        var found = await FindAsync($"/aggregate-types/{type}/{Uri.EscapeDataString(aggregateId)}/state", cancellation).ConfigureAwait(false);
        return found is { } state
            ? new AggregateState<T>(state.GetProperty("version").GetInt64(), JsonText.As<T>(state.GetProperty("state"), Json))
            : new AggregateState<T>(0, default);
    }

    /// <summary>The type that the service gives an aggregate whose appends name none.</summary>
    private static string TypeOf(string aggregateId)
    {
        var end = aggregateId.IndexOfAny(['-', '_', ':', '/']);
        var prefix = end > 0 ? aggregateId[..end] : "";
        var isName = prefix.Length is > 0 and <= 128 && prefix is not ("." or "..")
            && prefix.All(one => char.IsAsciiLetterOrDigit(one) || one == '.');
        return isName ? prefix : "default";
    }

    /// <summary>All states of a projection, page by page as they are asked for, ascending by key.</summary>
    /// <typeparam name="T">Their shape.</typeparam>
    /// <param name="projectionId">The projection.</param>
    /// <param name="prefix">Of the keys that are wanted.</param>
    /// <param name="waitFor">A position of an append: the states have all events up to there, or it is refused with <c>NOT_CAUGHT_UP</c>.</param>
    /// <param name="cancellation">Ends it.</param>
    public async IAsyncEnumerable<ProjectionState<T>> ReadProjectionAsync<T>(
        string projectionId, string? prefix = null, long? waitFor = null, [EnumeratorCancellation] CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(projectionId);
        string? cursor = null;
        do
        {
            var query = Query.Of([("prefix", prefix), ("cursor", cursor), ("waitFor", Query.Text(waitFor))]);
            var page = await GetAsync($"/projections/{Uri.EscapeDataString(projectionId)}/states{query}", cancellation).ConfigureAwait(false);
            foreach (var item in page.GetProperty("states").EnumerateArray())
            {
                yield return ProjectionState<T>.Read(item, Json);
            }

            cursor = page.TryGetProperty("nextCursor", out var next) ? next.GetString() : null;
        }
        while (cursor is not null);
    }

    /// <summary>The state of a key; null where there is none. Of a projection with several classes the first one's.</summary>
    /// <typeparam name="T">Its shape.</typeparam>
    /// <param name="projectionId">The projection.</param>
    /// <param name="key">The state key.</param>
    /// <param name="waitFor">A position of an append: the state has all events up to there, or it is refused with <c>NOT_CAUGHT_UP</c>.</param>
    /// <param name="cancellation">Ends it.</param>
    public async Task<ProjectionState<T>?> ReadProjectionStateAsync<T>(
        string projectionId, string key, long? waitFor = null, CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(projectionId);
        ArgumentException.ThrowIfNullOrEmpty(key);
        var path = $"/projections/{Uri.EscapeDataString(projectionId)}/states/{Uri.EscapeDataString(key)}";
        var found = await FindAsync(path + Query.Of([("waitFor", Query.Text(waitFor))]), cancellation).ConfigureAwait(false);
        return found is { } page && page.GetProperty("states").EnumerateArray().FirstOrDefault() is { ValueKind: JsonValueKind.Object } state
            ? ProjectionState<T>.Read(state, Json)
            : null;
    }

    /// <summary>A page of the feed: all events of the tenant in its one order.</summary>
    /// <param name="query">What is asked for; null: the oldest.</param>
    /// <param name="cancellation">Ends it.</param>
    public async Task<FeedPage> ReadFeedAsync(FeedQuery? query = null, CancellationToken cancellation = default)
    {
        query ??= new FeedQuery();
        var text = Query.Of(
        [
            ("after", Query.Text(query.After)),
            ("limit", Query.Text(query.Limit)),
            ("waitSeconds", Query.Text(query.WaitSeconds)),
            ("waitFor", Query.Text(query.WaitFor)),
            .. query.Filter.Query(),
        ]);
        var received = query.WaitSeconds is { } seconds
            ? await transport.WaitAsync($"/feed{text}", TimeSpan.FromSeconds(seconds), cancellation).ConfigureAwait(false)
            : await transport.GetAsync($"/feed{text}", null, cancellation).ConfigureAwait(false);
        var page = received.Read<JsonElement>(Json);
        var told = page.GetProperty("events").EnumerateArray().Select(one => Told<FeedEvent>.Of(one, EventOf<FeedEvent>, item => item.Position)).ToArray();
        return new FeedPage
        {
            Events = [.. told.Select(one => one.Item).OfType<FeedEvent>()],
            Erasures = [.. told.Select(one => one.Erasure).OfType<FeedErasure>()],
            Position = page.GetProperty("position").GetInt64(),
        };
    }

    /// <summary>The position of the newest event; 0: there is none.</summary>
    /// <param name="cancellation">Ends it.</param>
    public async Task<long> ReadNewestPositionAsync(CancellationToken cancellation = default) =>
        (await transport.GetAsync("/feed?limit=1", null, cancellation).ConfigureAwait(false)).Position ?? 0;

    /// <summary>
    /// All events of the tenant that pass the filter, for ever: each once and in its order, over whatever connections it takes. Store the position
    /// of what you have handled, and give it as <see cref="FollowOptions.After"/> after a restart.
    /// </summary>
    /// <param name="options">Where to begin, and what is wanted; null: all from the oldest on.</param>
    /// <param name="cancellation">Ends it.</param>
    /// <exception cref="StatefoldException">To go on makes no sense: the key is revoked, for instance.</exception>
    public IAsyncEnumerable<FeedEvent> FollowFeedAsync(FollowOptions? options = null, CancellationToken cancellation = default)
    {
        options ??= new FollowOptions();
        var followed = new Followed<FeedEvent>
        {
            StreamPath = "/feed/stream",
            PollPath = "/feed",
            Filters = [.. options.Filter.Query()],
            Cursor = "after",
            Type = "event",
            Members = ("events", "position"),
            ItemOf = EventOf<FeedEvent>,
            PlaceOf = item => item.Position,
            Newest = async token => (await transport.GetAsync("/feed?limit=1", null, token).ConfigureAwait(false)).Position,
        };
        return Subscription<FeedEvent>.FollowAsync(transport, followed, options, cancellation);
    }

    /// <summary>The changes of a projection, for ever, as of the feed. Their cursor is <see cref="StateChange{T}.Sequence"/>.</summary>
    /// <typeparam name="T">The shape of its states.</typeparam>
    /// <param name="projectionId">The projection.</param>
    /// <param name="options">Where to begin, and of which key; null: all from the oldest that is kept on.</param>
    /// <param name="cancellation">Ends it.</param>
    /// <exception cref="StatefoldException">To go on makes no sense: <c>CURSOR_EXPIRED</c> when what lies behind the cursor is kept no longer, for instance.</exception>
    public IAsyncEnumerable<StateChange<T>> FollowProjectionAsync<T>(
        string projectionId, FollowOptions? options = null, CancellationToken cancellation = default)
    {
        ArgumentException.ThrowIfNullOrEmpty(projectionId);
        options ??= new FollowOptions();
        var path = $"/projections/{Uri.EscapeDataString(projectionId)}";
        var followed = new Followed<StateChange<T>>
        {
            StreamPath = $"{path}/stream",
            PollPath = $"{path}/notifications",
            Filters = [("key", options.Key)],
            Cursor = "afterSequence",
            Type = "state_changed",
            Members = ("notifications", "cursor"),
            ItemOf = item => StateChange<T>.Read(item, Json),
            PlaceOf = item => item.Sequence,

            // Past all that there are, so that none is read.
            Newest = async token =>
                (await transport.GetAsync($"{path}/notifications?limit=1&afterSequence={PastAll}", null, token).ConfigureAwait(false)).Sequence,
        };
        return Subscription<StateChange<T>>.FollowAsync(transport, followed, options, cancellation);
    }

    /// <inheritdoc />
    public void Dispose() => owned?.Dispose();

    private async Task<JsonElement> GetAsync(string path, CancellationToken cancellation) =>
        (await transport.GetAsync(path, null, cancellation).ConfigureAwait(false)).Read<JsonElement>(Json);

    /// <summary>Null where it is not there.</summary>
    private async Task<JsonElement?> FindAsync(string path, CancellationToken cancellation)
    {
        try
        {
            return await GetAsync(path, cancellation).ConfigureAwait(false);
        }
        catch (StatefoldException error) when (error.Code == "NOT_FOUND")
        {
            return null;
        }
    }

    private TEvent EventOf<TEvent>(JsonElement item)
        where TEvent : StoredEvent
    {
        var read = item.Deserialize<TEvent>(JsonSerializerOptions.Web)!;
        read.Json = Json;
        return read;
    }

    private byte[] BodyOf(string aggregateId, IReadOnlyList<NewEvent> events, AppendOptions options)
    {
        using var stream = new MemoryStream();
        using (var writer = new Utf8JsonWriter(stream))
        {
            writer.WriteStartObject();
            writer.WriteString("aggregateId", aggregateId);
            WriteText(writer, "aggregateType", options.AggregateType);
            options.ExpectedVersion?.Write(writer);
            WriteContext(writer, options.CorrelationId, options.CausationId, options.Metadata);
            writer.WriteStartArray("events");
            foreach (var one in events)
            {
                writer.WriteStartObject();
                writer.WriteString("eventType", one.EventType);
                writer.WritePropertyName("data");
                JsonSerializer.Serialize(writer, one.Data, one.Data.GetType(), Json);
                WriteContext(writer, one.CorrelationId, one.CausationId, one.Metadata);
                writer.WriteEndObject();
            }

            writer.WriteEndArray();
            writer.WriteEndObject();
        }

        return stream.ToArray();
    }

    private void WriteContext(Utf8JsonWriter writer, string? correlationId, string? causationId, object? metadata)
    {
        WriteText(writer, "correlationId", correlationId);
        WriteText(writer, "causationId", causationId);
        if (metadata is not null)
        {
            writer.WritePropertyName("metadata");
            JsonSerializer.Serialize(writer, metadata, metadata.GetType(), Json);
        }
    }

    private static void WriteText(Utf8JsonWriter writer, string name, string? text)
    {
        if (text is not null)
        {
            writer.WriteString(name, text);
        }
    }
}
