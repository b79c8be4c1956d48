/**
 * Why a write to an lmdb environment failed. lmdb-js gives the cause of a failed commit as a promise beside the error, rejected
 * a moment later: it has to be awaited, or the process ends on an unhandled rejection.
 */
export async function lmdbFailure(error: unknown): Promise<Error> {
  const known = error instanceof Error ? error : new Error(String(error));
  const { commitError } = known as { commitError?: unknown };
  if (!(commitError instanceof Promise)) return known;
  try {
    await commitError;
    return known;
  } catch (cause) {
    return cause instanceof Error ? cause : known;
  }
}
