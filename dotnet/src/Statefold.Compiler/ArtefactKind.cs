namespace Statefold.Compiler;

internal enum ArtefactKind
{
    Reducer,
    Projection,
}
