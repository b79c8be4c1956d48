/** A file of a checked archive: only `.cs` files, paths with `/`, sizes within the limits. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** As they are kept: JSON text of an array of `SourceFile`, UTF-8. */
export interface StoredSources {
  readonly bytes: number;
  /** Made as they are asked for. */
  readonly chunks: AsyncIterable<Buffer>;
}
