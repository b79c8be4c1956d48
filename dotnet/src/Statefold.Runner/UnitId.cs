namespace Statefold.Runner;

/// <summary>A class of an artefact; <paramref name="Generation"/> keeps the states of a projection's generations apart, and is empty for reducers.</summary>
internal readonly record struct UnitId(string Generation, string ArtefactId, string ClassName);
