namespace Statefold.Client;

/// <summary>A webhook was not signed with the secret, or is not of now: answer it with 400 and do nothing.</summary>
/// <param name="message">Why.</param>
public sealed class WebhookException(string message) : Exception(message);
