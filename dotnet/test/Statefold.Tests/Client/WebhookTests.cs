using System.Security.Cryptography;
using System.Text;
using Statefold.Client;

namespace Statefold.Tests.Client;

public sealed class WebhookTests
{
    private const string Body = """{"type":"projection.state_changed","timestamp":"2026-03-01T12:00:00.000Z","data":{"sequence":1}}""";
    private static readonly byte[] Key = Encoding.UTF8.GetBytes("a secret of the service itself");
    private static readonly string Secret = $"whsec_{Convert.ToBase64String(Key)}";
    private static readonly string Now = DateTimeOffset.UtcNow.ToUnixTimeSeconds().ToString();

    [Fact]
    public void IsTakenFromWhoHasTheSecretAlone()
    {
        var headers = Headers("msg_1", Now, Body);
        var message = new Webhook("whsec_AAAA", Secret).Verify(Encoding.UTF8.GetBytes(Body), headers.GetValueOrDefault);
        Assert.Equal(("msg_1", "projection.state_changed"), (message.Id, message.Type));
        Assert.Equal(1, message.Payload.GetProperty("data").GetProperty("sequence").GetInt32());
        Refused(headers, $"{Body} ");
        Refused(headers, Body, "whsec_AAAA");
        Refused(new(headers) { ["webhook-id"] = "msg_2" });
        Refused(new(headers) { ["webhook-timestamp"] = (long.Parse(Now) + 1).ToString() });
        Refused(new(headers) { ["webhook-signature"] = "v1," });
        Refused(new(headers) { ["webhook-timestamp"] = "noon" });
        Refused(new(headers) { ["webhook-timestamp"] = "99999999999999" });
        foreach (var name in headers.Keys)
        {
            var less = new Dictionary<string, string>(headers);
            less.Remove(name);
            Refused(less);
        }

        Assert.Throws<ArgumentException>(() => new Webhook("no base64 at all"));
    }

    [Fact]
    public void IsTakenAtItsTimeAlone()
    {
        foreach (var (seconds, taken) in new[] { (-290, true), (290, true), (-310, false), (310, false) })
        {
            var at = (long.Parse(Now) + seconds).ToString();
            var headers = Headers("msg_1", at, Body);
            var verify = () => new Webhook(Secret).Verify(Encoding.UTF8.GetBytes(Body), headers.GetValueOrDefault);
            if (taken)
            {
                Assert.Equal("msg_1", verify().Id);
            }
            else
            {
                Assert.Contains("seconds from now", Assert.Throws<WebhookException>(verify).Message, StringComparison.Ordinal);
            }
        }
    }

    [Fact]
    public void ThatIsNoMessageIsRefusedEvenSigned() => Refused(Headers("msg_1", Now, "[]"), "[]");

    private static void Refused(Dictionary<string, string> headers, string body = Body, string? secret = null) =>
        Assert.Throws<WebhookException>(() => new Webhook(secret ?? Secret).Verify(Encoding.UTF8.GetBytes(body), headers.GetValueOrDefault));

    private static Dictionary<string, string> Headers(string id, string timestamp, string body) => new()
    {
        ["webhook-id"] = id,
        ["webhook-timestamp"] = timestamp,
        ["webhook-signature"] = $"v1,bm9uZQ== v1,{Convert.ToBase64String(HMACSHA256.HashData(Key, Encoding.UTF8.GetBytes($"{id}.{timestamp}.{body}")))}",
    };
}
