using System.Text.Json;

namespace Statefold.Client;

/// <summary>The answer of success.</summary>
/// <param name="Content">The body.</param>
/// <param name="Position">Of the header Statefold-Position.</param>
/// <param name="Sequence">Of the header Statefold-Sequence.</param>
internal sealed record Received(byte[] Content, long? Position, long? Sequence)
{
    public T Read<T>(JsonSerializerOptions options)
    {
        try
        {
            return JsonSerializer.Deserialize<T>(Content, options) ?? throw new JsonException("the answer is null");
        }
        catch (JsonException error)
        {
            var message = $"the service answered something else than {typeof(T).Name}: {error.Message}";
            throw new StatefoldException(StatefoldException.UnexpectedAnswer, message, isRetryable: false, cause: error);
        }
    }
}
