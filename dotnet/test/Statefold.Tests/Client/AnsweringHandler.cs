using System.Net;

namespace Statefold.Tests.Client;

/// <summary>Gives these answers, one a request, in place of a service.</summary>
internal sealed class AnsweringHandler(params HttpResponseMessage[] answers) : HttpMessageHandler
{
    public int Sent { get; private set; }

    protected override Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
    {
        Assert.True(Sent < answers.Length, "there are no more answers");
        return Task.FromResult(answers[Sent++]);
    }
}
