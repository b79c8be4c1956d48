namespace Statefold.Runner;

/// <summary>An event that concerns a key of a unit.</summary>
internal sealed class Touch(int eventIndex, int unitIndex, StateEntry entry, Failure? failure)
{
    public int EventIndex { get; } = eventIndex;

    public int UnitIndex { get; } = unitIndex;

    public StateEntry Entry { get; } = entry;

    /// <summary>Why the event has no key, or stopped it.</summary>
    public Failure? Failure { get; set; } = failure;

    public Outcome Outcome { get; set; } = Outcome.Applied;
}
