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

/**
 * Resolves when all of the writes have ended. Each is heard as it fails: others may be in a later transaction, and its cause is told before
 * they end. @throws Error the cause of the first that failed
 */
export async function allWritten(writes: readonly Promise<unknown>[]): Promise<void> {
  const causes = await Promise.all(writes.map((write) => write.then(() => undefined, lmdbFailure)));
  const first = causes.find((cause) => cause !== undefined);
  if (first !== undefined) throw first;
}

/** By the text: lmdb-js gives a read that meets it the code of another error. */
const LOST = /MDB_PANIC|MDB_CORRUPTED/;
const saysLost = (error: unknown): boolean => error instanceof Error && LOST.test(error.message);

/**
 * What failed is the environment and not the one write: no transaction succeeds from then on, and only a process that opens it anew
 * can write it. The write that did it fails with the disk's own error, and those behind it never end: so lmdb is asked.
 */
function isEnvironmentLost(environment: Environment, failure: Error): boolean {
  if (saysLost(failure)) return true;
  try {
    environment.resetReadTxn();
    environment.getStats();
    return false;
  } catch (error) {
    return saysLost(error);
  }
}

/** To be called with what each write failed of: tells `onLost`, once, where it was the environment that failed. */
export function watchLoss(
  environment: Environment,
  onLost: ((cause: Error) => void) | undefined,
): (failure: Error) => void {
  let told = false;
  return (failure) => {
    if (told || onLost === undefined || !isEnvironmentLost(environment, failure)) return;
    told = true;
    onLost(failure);
  };
}

/** Of lmdb's databases. */
interface Environment {
  resetReadTxn(): void;
  getStats(): unknown;
}
