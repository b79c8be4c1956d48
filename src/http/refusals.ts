import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { answerProblem } from './answer.js';
import { RequestAbortedError } from './body.js';
import type { Dues } from './dues.js';
import { knownError, problemOf, refuseUpgrade, statusOf, type Problem } from './problem.js';
import { ForeignError, type Dialect } from './route.js';
import { withoutTicket } from './tickets.js';

/** The one place where whatever was thrown becomes an answer: what isn't known is logged, and tells the client nothing of itself. */
export class Refusals {
  readonly #logger: Logger;
  readonly #dues: Dues | undefined;

  /** `dues`: what a request owes before it is refused; nothing without them. */
  constructor(logger: Logger, dues?: Dues) {
    this.#logger = logger;
    this.#dues = dues;
  }

  /** A promise: the answer waits for its turn, and is written when that resolves. Never rejects. */
  answer(
    request: IncomingMessage,
    response: ServerResponse,
    thrown: unknown,
    requestId: string,
    dialect?: Dialect,
  ): Promise<void> | void {
    // There is nobody to answer.
    if (thrown instanceof RequestAbortedError) return void response.destroy();
    this.#log(request, thrown, requestId, 'a request failed');
    const problemFor = (error: unknown): Problem =>
      dialect?.(error, requestId) ?? problemOf(knownError(error), requestId);
    const problem = problemFor(thrown);
    // What the service can't do is told at once: another process may be waiting to ask elsewhere.
    if (this.#dues === undefined || problem.status >= 500) return answerProblem(response, problem);
    const past = this.#count(this.#dues, request, thrown);
    const told = past === undefined ? problem : problemFor(past);
    const turn = this.#dues.turn(request);
    if (turn === undefined) answerProblem(response, told);
    else return turn.then(() => answerProblem(response, told));
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
    const dues = statusOf(knownError(thrown).code) < 500 ? this.#dues : undefined;
    const told = (dues && this.#count(dues, request, thrown)) ?? thrown;
    const turn = dues?.turn(request);
    if (turn === undefined) return refuseUpgrade(socket, told, requestId, headers);
    // It may fail while it waits, and nobody else listens.
    socket.on('error', () => socket.destroy());
    void turn.then(() => {
      if (!socket.destroyed) refuseUpgrade(socket, told, requestId, headers);
    });
  }

  /** What is answered instead, where the request is past its tenant's pace. */
  #count(dues: Dues, request: IncomingMessage, thrown: unknown): unknown {
    try {
      dues.count(request, thrown);
      return undefined;
    } catch (past) {
      return past;
    }
  }

  #log({ method, url }: IncomingMessage, thrown: unknown, requestId: string, what: string): void {
    if (!(thrown instanceof ForeignError) && knownError(thrown).code === 'INTERNAL')
      this.#logger.error({ err: thrown, requestId, method, url: withoutTicket(url) }, what);
  }
}

/** What a percent-encoding that can't be decoded is told. */
export const malformedPath = (): StatefoldError =>
  new StatefoldError('INVALID_REQUEST', 'The path has a malformed percent-encoding.');
