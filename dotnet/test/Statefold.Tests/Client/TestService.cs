using System.Diagnostics;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using Statefold.Client;

namespace Statefold.Tests.Client;

/// <summary>A real service in a process of its own, with the code of samples/bank. It ends with this one, however that ends.</summary>
public sealed partial class TestService : IAsyncLifetime
{
    private const string Key = "a-key-that-the-tests-chose";

    private readonly StringBuilder said = new();
    private readonly string folder = Path.Combine(Path.GetTempPath(), $"statefold-xunit-{Guid.NewGuid():N}");
    private readonly TaskCompletionSource<string> listening = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Process? process;

    public Uri Url { get; private set; } = new("http://127.0.0.1");

    public string ProjectionId { get; private set; } = "";

    public StatefoldClientOptions Options => new() { Url = Url, ApiKey = Key, FirstDelay = TimeSpan.FromMilliseconds(5) };

    public HttpClient Http { get; } = new();

    public async Task InitializeAsync()
    {
        var root = Root();
        var program = Path.Combine(root, "dist", "program", "main.js");
        Assert.True(File.Exists(program), $"there is no {program}: run `npm run build` first");
        var start = new ProcessStartInfo("node", [program, "serve"])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        foreach (var name in start.Environment.Keys.Where(name => name.StartsWith("KAFKA_", StringComparison.Ordinal)).ToArray())
        {
            start.Environment.Remove(name);
        }

        start.Environment["PORT"] = "0";
        start.Environment["LOG_LEVEL"] = "warn";
        start.Environment["TEST_MODE"] = "true";
        start.Environment["STATEFOLD_DATA_DIR"] = folder;
        start.Environment["STATEFOLD_API_KEY"] = Key;
        start.Environment["WEBHOOK_ALLOW_PRIVATE"] = "true";
        process = new Process { StartInfo = start, EnableRaisingEvents = true };
        process.OutputDataReceived += (_, line) => Heard(line.Data);
        process.ErrorDataReceived += (_, line) => Heard(line.Data);
        process.Exited += (_, _) => listening.TrySetException(new InvalidOperationException($"the service did not start:\n{said}"));
        process.Start();
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
        Url = new Uri(await listening.Task.WaitAsync(TimeSpan.FromSeconds(60)));
        Http.BaseAddress = Url;
        Http.DefaultRequestHeaders.Add("X-API-Key", Key);
        await UploadAsync(root, "reducers", "AccountReducer.cs", "Events.cs");
        ProjectionId = (await UploadAsync(root, "projections", "Transfers.cs", "Events.cs")).GetProperty("projectionId").GetString()!;
    }

    public async Task DisposeAsync()
    {
        Http.Dispose();
        if (process is null)
        {
            return;
        }

        process.StandardInput.Close();
        try
        {
            await process.WaitForExitAsync(new CancellationTokenSource(TimeSpan.FromSeconds(20)).Token);
        }
        catch (OperationCanceledException)
        {
            process.Kill(entireProcessTree: true);
        }

        process.Dispose();
    }

    internal static string Root()
    {
        var folder = AppContext.BaseDirectory;
        while (!File.Exists(Path.Combine(folder, "package-lock.json")))
        {
            folder = Path.GetDirectoryName(folder) ?? throw new InvalidOperationException("the tests lie in no checkout");
        }

        return folder;
    }

    private void Heard(string? line)
    {
        lock (said)
        {
            said.AppendLine(line);
        }

        if (line is not null && Listens().Match(line) is { Success: true } match)
        {
            listening.TrySetResult(match.Groups[1].Value);
        }
    }

    private async Task<JsonElement> UploadAsync(string root, string kind, params string[] files)
    {
        using var form = new MultipartFormDataContent();
        foreach (var file in files)
        {
            var content = new ByteArrayContent(await File.ReadAllBytesAsync(Path.Combine(root, "samples", "bank", file)));
            content.Headers.ContentType = new MediaTypeHeaderValue("text/plain");
            form.Add(content, "file", file);
        }

        using var answer = await Http.PostAsync($"/{kind}/upload?waitSeconds=30", form);
        var record = JsonElement.Parse(await answer.Content.ReadAsStringAsync());
        Assert.Equal("compiled", record.GetProperty("status").GetString());
        return record;
    }

    [GeneratedRegex(@"listens on (http:\S+)")]
    private static partial Regex Listens();
}
