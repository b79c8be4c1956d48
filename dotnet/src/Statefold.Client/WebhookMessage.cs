using System.Text.Json;

namespace Statefold.Client;

/// <summary>A webhook that was signed with the secret.</summary>
/// <param name="Id">The same on every attempt of the same message: what was handled once can be passed over.</param>
/// <param name="At">When it was sent (UTC, seconds).</param>
/// <param name="Type"><c>projection.state_changed</c>, <c>event.appended</c>, <c>aggregate.erased</c> or <c>endpoint.test</c>.</param>
/// <param name="Payload">All of the body.</param>
public sealed record WebhookMessage(string Id, DateTimeOffset At, string Type, JsonElement Payload)
{
    /// <summary>
    /// Its member <c>data</c> as a type of yours: a <see cref="StateChange{T}"/>, a <see cref="FeedEvent"/>, or of an aggregate that was erased a
    /// <see cref="FeedErasure"/>: whoever has copies of its events is to erase them, too.
    /// </summary>
    /// <typeparam name="T">The shape.</typeparam>
    /// <param name="json">By default as for the web: names in camel case.</param>
    /// <exception cref="JsonException">It has another shape.</exception>
    public T DataAs<T>(JsonSerializerOptions? json = null) =>
        JsonText.As<T>(Payload.GetProperty("data"), json) ?? throw new JsonException($"the data of the webhook is no {typeof(T).Name}");
}
