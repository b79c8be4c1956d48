/** A file of a checked archive: only `.cs` files, paths with `/`, sizes within the limits. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}
