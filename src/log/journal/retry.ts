import { InvariantError, StatefoldError } from '../../core/errors.js';

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
    super('UNAVAILABLE', 'the log takes no writes now (is its disk full, or is it away?); send the request again', {
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
