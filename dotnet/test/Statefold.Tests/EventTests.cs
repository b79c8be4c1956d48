using System.Text;
using System.Text.Json;

namespace Statefold.Tests;

/// <summary>The one type that tenants' tests make themselves: it must behave the same however it was made.</summary>
public sealed class EventTests
{
    private const string Data = """{"amount":12345678901234567890,"note":"1.0"}""";

    private sealed record Payment(decimal Amount, string Note);

    [Fact]
    public void Data_reads_the_same_from_text_and_from_an_element()
    {
        foreach (var e in new[] { FromText(), FromElement() })
        {
            Assert.Equal(new Payment(12345678901234567890m, "1.0"), e.DataAs<Payment>());
            Assert.Equal(Data, e.Data.GetRawText());
            Assert.Equal("{}", e.Metadata?.GetRawText());
        }
    }

    [Fact]
    public void A_copy_with_other_data_has_that_data()
    {
        var copy = FromText() with { Data = JsonElement.Parse("""{"amount":1,"note":"other"}"""), Metadata = null };
        Assert.Equal(new Payment(1, "other"), copy.DataAs<Payment>());
        Assert.Null(copy.Metadata);
    }

    [Fact]
    public void Equality_is_of_aggregate_and_version()
    {
        Assert.Equal(FromText(), FromElement());
        Assert.NotEqual(FromText(), FromText() with { Version = 2 });
        var e = FromText();
        var hash = e.GetHashCode();
        _ = e.Data;
        Assert.Equal(hash, e.GetHashCode());
    }

    private static Event FromText() =>
        new("a-1", "a", "paid", 1, Encoding.UTF8.GetBytes(Data), "{}"u8.ToArray(), null, null, DateTimeOffset.UnixEpoch);

    private static Event FromElement() =>
        new("a-1", "a", "paid", 1, JsonElement.Parse(Data), JsonElement.Parse("{}"), null, null, DateTimeOffset.UnixEpoch);
}
