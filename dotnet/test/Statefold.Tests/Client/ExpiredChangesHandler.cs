using System.Net;
using System.Net.Http.Headers;
using System.Text;

namespace Statefold.Tests.Client;

/// <summary>Answers polls as the service does for a projection whose changes up to sequence 4 are kept no longer, and which has the change 5 once it was asked for.</summary>
internal sealed class ExpiredChangesHandler : HttpMessageHandler
{
    private const string Expired =
        """{"type":"/problems/cursor-expired","title":"The cursor has expired","status":410,"code":"CURSOR_EXPIRED","detail":"trimmed","requestId":"r","oldestSequence":5}""";

    private const string Change =
        """{"sequence":5,"projectionId":"p","className":"C","key":"k","aggregateId":"a-1","aggregateType":"a","version":1,"state":{},"timestamp":"2026-01-01T00:00:00.000Z","eventId":"e"}""";

    protected override Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
    {
        var query = request.RequestUri!.Query;
        var after = query.Split('&', '?').FirstOrDefault(one => one.StartsWith("afterSequence=", StringComparison.Ordinal))?["afterSequence=".Length..];
        var (status, text) = after switch
        {
            null => (HttpStatusCode.OK, """{"notifications":[]}"""),
            "4" => (HttpStatusCode.OK, $$"""{"notifications":[{{Change}}]}"""),
            _ => (HttpStatusCode.Gone, Expired),
        };
        var content = new StringContent(text, Encoding.UTF8, new MediaTypeHeaderValue(status == HttpStatusCode.OK ? "application/json" : "application/problem+json"));
        return Task.FromResult(new HttpResponseMessage(status) { Content = content });
    }
}
