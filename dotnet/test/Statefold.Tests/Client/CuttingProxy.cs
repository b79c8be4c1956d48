using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Statefold.Tests.Client;

/// <summary>A link whose connections are cut when the test says so.</summary>
internal sealed class CuttingProxy : IAsyncDisposable
{
    private readonly TcpListener listener = new(IPAddress.Loopback, 0);
    private readonly ConcurrentDictionary<TcpClient, bool> open = [];
    private readonly Uri target;
    private readonly Task accepting;

    public CuttingProxy(Uri target)
    {
        this.target = target;
        listener.Start();
        accepting = AcceptAsync();
    }

    public Uri Url => new($"http://127.0.0.1:{((IPEndPoint)listener.LocalEndpoint).Port}");

    public int Connections { get; private set; }

    /// <summary>Connections that come are cut at once.</summary>
    public bool IsAway { get; set; }

    /// <summary>The first line of each connection that was let through.</summary>
    public ConcurrentQueue<string> Requests { get; } = [];

    public void Cut()
    {
        foreach (var client in open.Keys)
        {
            client.Dispose();
        }
    }

    public async ValueTask DisposeAsync()
    {
        listener.Stop();
        Cut();
        await accepting;
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                var client = await listener.AcceptTcpClientAsync();
                Connections++;
                _ = PassAsync(client);
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // It was stopped.
        }
    }

    private async Task PassAsync(TcpClient client)
    {
        using var server = new TcpClient();
        try
        {
            if (IsAway)
            {
                return;
            }

            open[client] = open[server] = true;
            await server.ConnectAsync(target.Host, target.Port);
            var first = new byte[4096];
            var length = await client.GetStream().ReadAsync(first);
            Requests.Enqueue(Encoding.ASCII.GetString(first, 0, length).Split("\r\n")[0]);
            await server.GetStream().WriteAsync(first.AsMemory(0, length));
            await Task.WhenAny(client.GetStream().CopyToAsync(server.GetStream()), server.GetStream().CopyToAsync(client.GetStream()));
        }
        catch (Exception error) when (error is IOException or SocketException or ObjectDisposedException or InvalidOperationException)
        {
            // It was cut.
        }
        finally
        {
            client.Dispose();
            open.TryRemove(client, out _);
            open.TryRemove(server, out _);
        }
    }
}
