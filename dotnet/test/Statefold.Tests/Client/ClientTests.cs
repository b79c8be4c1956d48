using System.Net;
using System.Text.Json;
using Statefold.Client;

namespace Statefold.Tests.Client;

public sealed class ClientTests(TestService service) : IClassFixture<TestService>
{
    private static readonly TimeSpan Soon = TimeSpan.FromSeconds(30);
    private static int number;

    private readonly CancellationToken soon = new CancellationTokenSource(Soon).Token;

    private static NewEvent Opened => new("Opened", new { Owner = "Ada" });

    [Fact]
    public async Task AppendsAreReadBackAndHaveTheState()
    {
        using var client = new StatefoldClient(service.Options);
        var id = NewId("account");
        var before = await client.ReadNewestPositionAsync(soon);
        var first = await client.AppendAsync(id, Opened, new AppendOptions { ExpectedVersion = ExpectedVersion.None }, soon);
        Assert.Equal((1, 1, "account"), (first.StartVersion, first.EndVersion, first.AggregateType));
        Assert.True(first.Position > before);
        var options = new AppendOptions { ExpectedVersion = 1, CorrelationId = "c", Metadata = new { By = "me" } };
        NewEvent[] two = [Deposited(500), Deposited(250) with { CorrelationId = "own", CausationId = "why", Metadata = new { By = "you" } }];
        var second = await client.AppendAsync(id, two, options, soon);
        Assert.Equal(new Account("Ada", 750, 2), second.StateAs<Account>());
        Assert.Equal(2, second.EventIds.Count);
        var events = await client.ReadEventsAsync(id, cancellation: soon).ToListAsync(soon);
        Assert.Equal([1, 2, 3], events.Select(one => one.Version));
        Assert.Equal([null, "c", "own"], events.Select(one => one.CorrelationId));
        Assert.Equal("you", events[2].Metadata.GetProperty("by").GetString());
        Assert.Equal(250, events[2].DataAs<JsonElement>().GetProperty("cents").GetInt64());
        Assert.Equal(2, await client.ReadEventsAsync(id, 2, soon).CountAsync(soon));
        Assert.Equal(new AggregateState<Account>(3, new Account("Ada", 750, 2)), await client.ReadStateAsync<Account>(id, cancellation: soon));
        Assert.Equal(new AggregateState<Account>(0, null), await client.ReadStateAsync<Account>("account-nobody", cancellation: soon));
        Assert.Empty(await client.ReadEventsAsync("account-nobody", cancellation: soon).ToListAsync(soon));
    }

    [Fact]
    public async Task ARefusalIsAnExceptionWithItsCode()
    {
        using var client = new StatefoldClient(service.Options);
        var id = NewId();
        await client.AppendAsync(id, Opened, cancellation: soon);
        var conflict = await Assert.ThrowsAsync<StatefoldException>(() =>
            client.AppendAsync(id, Opened, new AppendOptions { ExpectedVersion = ExpectedVersion.None }, soon));
        Assert.Equal(("VERSION_CONFLICT", HttpStatusCode.Conflict, 1L, false), (conflict.Code, conflict.Status, conflict.CurrentVersion, conflict.IsRetryable));
        var missing = await Assert.ThrowsAsync<StatefoldException>(() =>
            client.AppendAsync(NewId(), Opened, new AppendOptions { ExpectedVersion = ExpectedVersion.Exists }, soon));
        Assert.Equal("VERSION_CONFLICT", missing.Code);
        var unbound = await Assert.ThrowsAsync<StatefoldException>(async () =>
        {
            await client.AppendAsync("unbound-1", Opened, cancellation: soon);
            await client.ReadStateAsync<Account>("unbound-1", cancellation: soon);
        });
        Assert.Equal("NO_REDUCER_BOUND", unbound.Code);
        using var stranger = new StatefoldClient(service.Options with { ApiKey = "nobody" });
        var refused = await Assert.ThrowsAsync<StatefoldException>(() => stranger.AppendAsync(id, Opened, cancellation: soon));
        Assert.Equal("UNAUTHENTICATED", refused.Code);
        using var nowhere = new StatefoldClient(service.Options with { Url = new Uri("http://127.0.0.1:9"), Attempts = 2 });
        var unreachable = await Assert.ThrowsAsync<StatefoldException>(() => nowhere.AppendAsync(id, Opened, cancellation: soon));
        Assert.Equal((StatefoldException.Unreachable, true), (unreachable.Code, unreachable.IsRetryable));
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => client.AppendAsync(id, Opened, cancellation: new CancellationToken(true)));
        Assert.Throws<ArgumentException>(() => new StatefoldClient(service.Options with { Url = new Uri("ftp://a") }));
    }

    [Theory]
    [InlineData(HttpStatusCode.TooManyRequests, "3600")]
    [InlineData(HttpStatusCode.ServiceUnavailable, "Thu, 01 Jan 2026 01:00:00 GMT")]
    public async Task WhatIsInFrontOfTheServiceMaySayHowLongToWait(HttpStatusCode status, string retryAfter)
    {
        using var answer = new HttpResponseMessage(status) { Content = new StringContent("<html>") };
        answer.Headers.Add("Date", "Thu, 01 Jan 2026 00:00:00 GMT");
        answer.Headers.Add("Retry-After", retryAfter);
        using var answers = new AnsweringHandler(answer);
        using var http = new HttpClient(answers);
        using var client = new StatefoldClient(service.Options, http);
        var error = await Assert.ThrowsAsync<StatefoldException>(() => client.AppendAsync(NewId(), Opened, cancellation: soon));
        Assert.Equal((StatefoldException.UnexpectedAnswer, true, TimeSpan.FromHours(1)), (error.Code, error.IsRetryable, error.RetryAfter));
        Assert.Equal(1, answers.Sent);
    }

    [Fact]
    public async Task WhoSaysHowLongToWaitIsAnsweredWhenThatIsOver()
    {
        using var lagging = new HttpResponseMessage(HttpStatusCode.ServiceUnavailable)
        {
            Content = new StringContent("""{"status":503,"code":"NOT_CAUGHT_UP","detail":"not there yet","retryable":true}"""),
        };
        using var answers = new AnsweringHandler(lagging);
        using var http = new HttpClient(answers);
        using var client = new StatefoldClient(service.Options, http);
        var query = new FeedQuery { WaitFor = 7, WaitSeconds = 1 };
        var error = await Assert.ThrowsAsync<StatefoldException>(() => client.ReadFeedAsync(query, soon));
        Assert.Equal(("NOT_CAUGHT_UP", 1), (error.Code, answers.Sent));
    }

    [Theory]
    [InlineData("http://127.0.0.1:8080/?a=1")]
    [InlineData("http://127.0.0.1:8080/console/#/feed")]
    [InlineData("http://ada:secret@127.0.0.1:8080")]
    public void AUrlIsOneThatPathsCanBePutBehind(string url)
    {
        var error = Assert.Throws<ArgumentException>(() => new StatefoldClient(service.Options with { Url = new Uri(url) }));
        Assert.DoesNotContain("secret", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task AnAppendIsStoredOnceWhateverTheLinkLoses()
    {
        using var lossy = new LossyHandler();
        using var http = new HttpClient(lossy);
        using var client = new StatefoldClient(service.Options with { Attempts = 40, MostDelay = TimeSpan.FromMilliseconds(50) }, http);
        var id = NewId();
        var results = await Task.WhenAll(Enumerable.Range(1, 20).Select(n => client.AppendAsync(id, Deposited(n), cancellation: soon)));
        var again = await client.AppendAsync(id, Deposited(99), new AppendOptions { IdempotencyKey = $"{id}-99" }, soon);
        var repeated = await client.AppendAsync(id, Deposited(99), new AppendOptions { IdempotencyKey = $"{id}-99" }, soon);
        Assert.Equal(again.EventIds, repeated.EventIds);
        Assert.Equal(again.Position, repeated.Position);
        using var plain = new StatefoldClient(service.Options);
        var events = await plain.ReadEventsAsync(id, cancellation: soon).ToListAsync(soon);
        Assert.Equal(21, events.Count);
        Assert.Equal([.. Enumerable.Range(1, 20), 99], events.Select(one => one.Data.GetProperty("cents").GetInt32()).Order());
        Assert.All(results, one => Assert.Equal(events[(int)one.EndVersion - 1].EventId, Assert.Single(one.EventIds)));
        Assert.True(lossy.Sent > 40, $"{lossy.Sent} requests: nothing was lost");
    }

    [Fact]
    public async Task ADecisionIsMadeAnewWhenAnotherWriterWasFirst()
    {
        using var client = new StatefoldClient(service.Options);
        var id = NewId("account");
        await client.AppendAsync(id, [Opened, Deposited(1000)], cancellation: soon);
        IReadOnlyList<NewEvent> Withdraw(AggregateState<Account> loaded) => loaded.State!.Balance >= 100 ? [new NewEvent("Withdrawn", new { Cents = 100 })] : [];
        var decided = await Task.WhenAll(Enumerable.Range(0, 15).Select(_ =>
            client.DecideAsync<Account>(id, Withdraw, new DecideOptions { Attempts = 100 }, soon)));
        Assert.Equal(10, decided.Count(one => one is not null));
        Assert.Equal(0, (await client.ReadStateAsync<Account>(id, cancellation: soon)).State!.Balance);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task TheFeedIsFollowedOverConnectionsThatAreCut(bool pollOnly)
    {
        await using var proxy = new CuttingProxy(service.Url);
        using var client = new StatefoldClient(service.Options);
        using var cut = new StatefoldClient(service.Options with { Url = proxy.Url, Attempts = 20 });
        var id = NewId();
        var filter = new FeedFilter { AggregateIds = [id] };
        var position = await client.ReadNewestPositionAsync(soon);
        var options = new FollowOptions { After = position, Filter = filter, PollOnly = pollOnly, FirstDelay = TimeSpan.FromMilliseconds(5) };
        var told = new List<FeedEvent>();
        using var ended = CancellationTokenSource.CreateLinkedTokenSource(soon);
        var reading = Task.Run(async () =>
        {
            await foreach (var one in cut.FollowFeedAsync(options, ended.Token))
            {
                lock (told)
                {
                    told.Add(one);
                }
            }
        });
        for (var round = 1; round <= 5; round++)
        {
            for (var n = 0; n < 10; n++)
            {
                await client.AppendAsync(id, Deposited(n), cancellation: soon);
            }

            await UntilAsync(() => Count(told) >= round * 10);
            proxy.Cut();
        }

        await ended.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => reading);
        var page = await client.ReadFeedAsync(new FeedQuery { After = position, Filter = filter, Limit = 1000 }, soon);
        Assert.Equal(page.Events.Select(one => one.Position), told.Select(one => one.Position));
        Assert.Equal(page.Events.Select(one => one.EventId), told.Select(one => one.EventId));
        Assert.Equal(50, told.Count);
        Assert.True(proxy.Connections >= 5);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task FromNowOnNothingOfBeforeIsTold(bool pollOnly)
    {
        using var client = new StatefoldClient(service.Options);
        var id = NewId();
        await client.AppendAsync(id, Opened, cancellation: soon);
        var options = new FollowOptions { FromNow = true, PollOnly = pollOnly, Filter = new FeedFilter { AggregateIds = [id], EventTypes = ["Deposited", "Opened"] } };
        await using var events = client.FollowFeedAsync(options, soon).GetAsyncEnumerator(soon);
        var next = events.MoveNextAsync().AsTask();
        // Where now is may not be asked yet: one of these comes after it.
        var last = 0L;
        while (!next.IsCompleted)
        {
            last = (await client.AppendAsync(id, Deposited(1), cancellation: soon)).Position ?? 0;
        }

        Assert.True(await next);
        Assert.Equal("Deposited", events.Current.EventType);
        Assert.True(events.Current.Position <= last);
    }

    [Fact]
    public async Task FromNowOnAChangeThatComesWhileNoConnectionIsOpenIsTold()
    {
        using var client = new StatefoldClient(service.Options);
        await using var proxy = new CuttingProxy(service.Url);
        using var cut = new StatefoldClient(service.Options with { Url = proxy.Url, Attempts = 1 });
        var options = new FollowOptions { FromNow = true, FirstDelay = TimeSpan.FromMilliseconds(1), MostDelay = TimeSpan.FromMilliseconds(10) };
        var next = cut.FollowProjectionAsync<JsonElement>(service.ProjectionId, options, soon).FirstAsync(soon);

        // Where now is was answered by then.
        await UntilAsync(() => proxy.Requests.Any(line => line.Contains("/stream", StringComparison.Ordinal)));
        proxy.IsAway = true;
        proxy.Cut();
        var transferId = $"t-{Guid.NewGuid():N}";
        var sent = new NewEvent("TransferSent", new { TransferId = transferId, From = "account-a", To = "account-b", Cents = 5 });
        var position = (await client.AppendAsync(NewId(), sent, cancellation: soon)).Position;
        Assert.NotNull(await client.ReadProjectionStateAsync<JsonElement>(service.ProjectionId, transferId, position, soon));
        proxy.IsAway = false;
        Assert.Equal(transferId, (await next).Key);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task AnErasureIsToldAtItsPlaceAndStopsNobody(bool pollOnly)
    {
        using var client = new StatefoldClient(service.Options);
        var (id, kept) = (NewId(), NewId());
        var position = await client.ReadNewestPositionAsync(soon);
        var told = new List<string>();
        var options = new FollowOptions { After = position, PollOnly = pollOnly, Filter = new FeedFilter { EventTypes = ["Deposited"], AggregateIds = [id, kept] } };
        var hearing = options with
        {
            OnErased = (erasure, _) =>
            {
                told.Add($"{erasure.AggregateType} {erasure.AggregateId}: {erasure.Reason}");
                return Task.CompletedTask;
            },
        };
        var live = client.FollowFeedAsync(hearing, soon).FirstAsync(soon);
        await client.AppendAsync(id, Opened, cancellation: soon);
        using var erased = await service.Http.DeleteAsync($"/aggregates/{id}?reason=asked", soon);
        Assert.Equal(HttpStatusCode.Accepted, erased.StatusCode);
        var last = await client.AppendAsync(kept, Deposited(1), cancellation: soon);
        Assert.Equal(last.Position, (await live).Position);
        Assert.Equal([$"note {id}: asked"], told);
        Assert.Equal(last.Position, (await client.FollowFeedAsync(options, soon).FirstAsync(soon)).Position);
        var failing = options with { OnErased = (_, _) => throw new InvalidOperationException("the copies are not erased") };
        await Assert.ThrowsAsync<InvalidOperationException>(async () => await client.FollowFeedAsync(failing, soon).FirstAsync(soon));
        var page = await client.ReadFeedAsync(new FeedQuery { After = position, Filter = options.Filter }, soon);
        Assert.Equal([last.Position!.Value], page.Events.Select(one => one.Position));
        var erasure = Assert.Single(page.Erasures);
        Assert.Equal((id, "note", "asked"), (erasure.AggregateId, erasure.AggregateType, erasure.Reason));
        Assert.InRange(erasure.Position, position + 1, last.Position!.Value - 1);
    }

    [Fact]
    public async Task AServiceThatIsAwayCostsASubscriptionNotItsWebSocket()
    {
        using var client = new StatefoldClient(service.Options);
        await using var proxy = new CuttingProxy(service.Url);
        using var through = new StatefoldClient(service.Options with { Url = proxy.Url, Attempts = 1 });
        var id = NewId();
        var options = new FollowOptions
        {
            After = await client.ReadNewestPositionAsync(soon),
            Filter = new FeedFilter { AggregateIds = [id] },
            FirstDelay = TimeSpan.FromMilliseconds(1),
            MostDelay = TimeSpan.FromMilliseconds(10),
        };
        int Streams() => proxy.Requests.Count(line => line.Contains("/feed/stream", StringComparison.Ordinal));
        var next = through.FollowFeedAsync(options, soon).FirstAsync(soon);
        await UntilAsync(() => Streams() > 0);
        proxy.IsAway = true;
        proxy.Cut();
        var before = proxy.Connections;
        await UntilAsync(() => proxy.Connections > before + 10);
        var streams = Streams();
        proxy.IsAway = false;
        await UntilAsync(() => Streams() > streams);
        var last = await client.AppendAsync(id, Opened, cancellation: soon);
        Assert.Equal(last.Position, (await next).Position);
    }

    [Fact]
    public async Task EachLoopOverASubscriptionBeginsWhereTheOptionsSay()
    {
        using var client = new StatefoldClient(service.Options);
        var id = NewId();
        var options = new FollowOptions { After = await client.ReadNewestPositionAsync(soon), Filter = new FeedFilter { AggregateIds = [id] } };
        await client.AppendAsync(id, [Opened, Deposited(1)], cancellation: soon);
        var events = client.FollowFeedAsync(options, soon);
        Assert.Equal(1, (await events.FirstAsync(soon)).Version);
        Assert.Equal(1, (await events.FirstAsync(soon)).Version);
    }

    [Fact]
    public async Task FromTheStartIsTheOldestThatIsKeptAlsoWhereNothingIs()
    {
        using var expired = new ExpiredChangesHandler();
        using var http = new HttpClient(expired);
        using var client = new StatefoldClient(service.Options, http);
        var options = new FollowOptions { PollOnly = true, FirstDelay = TimeSpan.FromMilliseconds(1) };
        Assert.Equal(5, (await client.FollowProjectionAsync<JsonElement>("p", options, soon).FirstAsync(soon)).Sequence);
        var behind = await Assert.ThrowsAsync<StatefoldException>(async () =>
            await client.FollowProjectionAsync<JsonElement>("p", options with { After = 0 }, soon).FirstAsync(soon));
        Assert.Equal(("CURSOR_EXPIRED", 5L), (behind.Code, behind.OldestSequence));
    }

    [Fact]
    public async Task TheChangesOfAProjectionAreFollowedAndItsStatesRead()
    {
        using var client = new StatefoldClient(service.Options);
        var ids = Enumerable.Range(0, 5).Select(_ => $"t-{Guid.NewGuid():N}").ToArray();
        await using var changes = client.FollowProjectionAsync<JsonElement>(service.ProjectionId, cancellation: soon).GetAsyncEnumerator(soon);
        long? position = null;
        foreach (var transferId in ids)
        {
            var sent = new NewEvent("TransferSent", new { TransferId = transferId, From = "account-a", To = "account-b", Cents = 5 });
            position = (await client.AppendAsync(NewId(), sent, cancellation: soon)).Position;
        }

        var told = new List<StateChange<JsonElement>>();
        while (told.Count < ids.Length && await changes.MoveNextAsync())
        {
            // Other tests make some of theirs.
            if (ids.Contains(changes.Current.Key))
            {
                told.Add(changes.Current);
            }
        }

        Assert.Equal(ids, told.Select(one => one.Key));
        Assert.All(told, one => Assert.Equal(5, one.State.GetProperty("cents").GetInt32()));
        var state = await client.ReadProjectionStateAsync<JsonElement>(service.ProjectionId, ids[4], position, soon);
        Assert.Equal(told[4].Sequence, state!.Sequence);
        Assert.Null(await client.ReadProjectionStateAsync<JsonElement>(service.ProjectionId, "nothing", cancellation: soon));
        var states = await client.ReadProjectionAsync<JsonElement>(service.ProjectionId, prefix: ids[0], waitFor: position, cancellation: soon).ToListAsync(soon);
        Assert.Equal(ids[0], Assert.Single(states).Key);
        var one = client.FollowProjectionAsync<JsonElement>(service.ProjectionId, new FollowOptions { After = told[0].Sequence, Key = ids[3] }, soon);
        await foreach (var change in one)
        {
            Assert.Equal(told[3].Sequence, change.Sequence);
            break;
        }

        // What is around a state has the names of the service.
        var snakeCase = new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.SnakeCaseLower };
        using var snake = new StatefoldClient(service.Options with { Json = snakeCase });
        var of = new FollowOptions { Key = ids[4] };
        var change4 = await snake.FollowProjectionAsync<JsonElement>(service.ProjectionId, of, soon).FirstAsync(soon);
        Assert.Equal(told[4].Sequence, change4.Sequence);
        var again = await snake.ReadProjectionStateAsync<JsonElement>(service.ProjectionId, ids[4], position, soon);
        Assert.Equal(state.State.GetRawText(), again!.State.GetRawText());
        Assert.Equal(state, again with { State = state.State });
        var first = await snake.ReadProjectionAsync<JsonElement>(service.ProjectionId, ids[0], cancellation: soon).ToListAsync(soon);
        Assert.Equal(ids[0], Assert.Single(first).Key);

        var gone = await Assert.ThrowsAsync<StatefoldException>(async () =>
            await client.FollowProjectionAsync<JsonElement>("nothing", cancellation: soon).FirstAsync(soon));
        Assert.Equal("NOT_FOUND", gone.Code);
    }

    [Fact]
    public async Task AWebhookOfTheServiceIsVerified()
    {
        using var listener = new HttpListener();
        var port = FreePort();
        listener.Prefixes.Add($"http://127.0.0.1:{port}/");
        listener.Start();
        using var body = new StringContent(
            JsonSerializer.Serialize(new { url = $"http://127.0.0.1:{port}/", source = new { feed = new { aggregateTypes = new[] { "hooked" } } } }),
            null,
            "application/json");
        using var made = await service.Http.PostAsync("/webhooks/endpoints", body, soon);
        var endpoint = JsonElement.Parse(await made.Content.ReadAsStringAsync(soon));
        var webhook = new Webhook(endpoint.GetProperty("secret").GetString()!);
        using var client = new StatefoldClient(service.Options);
        var appended = await client.AppendAsync("hooked-1", Opened, cancellation: soon);
        var delivery = await listener.GetContextAsync().WaitAsync(Soon);
        using var received = new MemoryStream();
        await delivery.Request.InputStream.CopyToAsync(received, soon);
        var message = webhook.Verify(received.ToArray(), name => delivery.Request.Headers[name]);
        delivery.Response.Close();
        Assert.Equal("event.appended", message.Type);
        Assert.Equal(appended.Position, message.DataAs<FeedEvent>().Position);
        Assert.Throws<WebhookException>(() => webhook.Verify([.. received.ToArray(), (byte)' '], name => delivery.Request.Headers[name]));
        using var deleted = await service.Http.DeleteAsync($"/webhooks/endpoints/{endpoint.GetProperty("endpointId").GetString()}", soon);
        Assert.Equal(HttpStatusCode.NoContent, deleted.StatusCode);
    }

    private static NewEvent Deposited(int cents) => new("Deposited", new { Cents = cents });

    private static string NewId(string type = "note") => $"{type}-xunit{Interlocked.Increment(ref number)}";

    private static int Count(List<FeedEvent> told)
    {
        lock (told)
        {
            return told.Count;
        }
    }

    private static int FreePort()
    {
        using var socket = new System.Net.Sockets.TcpListener(IPAddress.Loopback, 0);
        socket.Start();
        return ((IPEndPoint)socket.LocalEndpoint).Port;
    }

    private async Task UntilAsync(Func<bool> holds)
    {
        while (!holds())
        {
            await Task.Delay(5, soon);
        }
    }
}
