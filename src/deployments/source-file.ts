import type { SourceText } from '../code-host/code-host.js';

/** A file of a checked archive: only `.cs` files, paths with `/`, sizes within the limits. */
export type SourceFile = SourceText;
