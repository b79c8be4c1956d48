using System.Net;

namespace Statefold.Tests.Client;

/// <summary>A link that loses requests, and answers of requests that were done.</summary>
internal sealed class LossyHandler : DelegatingHandler
{
    private int sent;

    public LossyHandler()
        : base(new SocketsHttpHandler())
    {
    }

    public int Sent => sent;

    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
    {
        var number = Interlocked.Increment(ref sent);
        if (number % 4 == 1)
        {
            throw new HttpRequestException("the request was lost");
        }

        var answer = await base.SendAsync(request, cancellationToken);
        if (number % 4 == 3)
        {
            return answer;
        }

        answer.Dispose();
        return number % 4 == 2 ? throw new HttpRequestException("the answer was lost") : new HttpResponseMessage(HttpStatusCode.BadGateway);
    }
}
