namespace Statefold.Tests.Client;

internal sealed record Account(string Owner, long Balance, int Entries);
