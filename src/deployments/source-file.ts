/** A file of a checked archive: only `.cs` files, paths with `/`, sizes within the limits. */
export interface SourceFile {
  readonly path: string;
  /** A long one is in pieces: as one text it would be looked at in one go again and again. */
  readonly text: string | readonly string[];
}
