import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { answerProblem } from './answer.js';
import { RequestAbortedError } from './body.js';
import { knownError, problemOf, refuseUpgrade } from './problem.js';
import { ForeignError, type Dialect } from './route.js';

/** The one place where whatever was thrown becomes an answer: what isn't known is logged, and tells the client nothing of itself. */
export class Refusals {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  answer(
    request: IncomingMessage,
    response: ServerResponse,
    thrown: unknown,
    requestId: string,
    dialect?: Dialect,
  ): void {
    // There is nobody to answer.
    if (thrown instanceof RequestAbortedError) return void response.destroy();
    this.#log(request, thrown, requestId, 'a request failed');
    answerProblem(response, dialect?.(thrown, requestId) ?? problemOf(knownError(thrown), requestId));
  }

  /** As HTTP, on the socket of an upgrade, which ends with it. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    thrown: unknown,
    requestId: string,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    if (thrown instanceof RequestAbortedError || socket.destroyed) return void socket.destroy();
    this.#log(request, thrown, requestId, 'an upgrade failed');
    refuseUpgrade(socket, thrown, requestId, headers);
  }

  #log({ method, url }: IncomingMessage, thrown: unknown, requestId: string, what: string): void {
    if (!(thrown instanceof ForeignError) && knownError(thrown).code === 'INTERNAL')
      this.#logger.error({ err: thrown, requestId, method, url }, what);
  }
}

/** What a percent-encoding that can't be decoded is told. */
export const malformedPath = (): StatefoldError =>
  new StatefoldError('INVALID_REQUEST', 'The path has a malformed percent-encoding.');
