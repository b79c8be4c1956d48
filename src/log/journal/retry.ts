import { InvariantError, StatefoldError } from '../../core/errors.js';

const RETRY_MS = { first: 10, most: 1000 };

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref());

/** Milliseconds before the next try: doubles with each, and is random, so that two who contend do not go on in step. */
export const backOff = (attempt: number): number =>
  Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** attempt) * (0.5 + Math.random() / 2);

/** Not a fault of the connection: trying again changes nothing. */
export const isFinal = (error: unknown): boolean => error instanceof InvariantError || error instanceof StatefoldError;

/** A question to the log had no answer: nothing was written, and what was read is folded. */
export class Unreachable extends StatefoldError {
  constructor(cause: unknown) {
    super('UNAVAILABLE', 'the log can not be reached now; send the request again', { cause });
  }
}

/** No claim was acknowledged in the attempts that it is worth. */
export class Unclaimed extends StatefoldError {
  constructor() {
    super('UNAVAILABLE', 'the log takes no writes now (is the disk full?); send the request again', {
      retryAfterSeconds: 5,
    });
  }
}

/** @throws Unreachable for a fault of the connection */
export async function reached<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isFinal(error) ? error : new Unreachable(error);
  }
}
