import type { Dispatcher } from 'undici';
import { CHUNK_COST_BYTES } from '../core/reads.js';

/** What came of a request: an answer, as far as its status and how its body begins, or an error before there was one. */
export type Posted =
  | { readonly status: number; readonly headers: AnswerHeaders; readonly excerpt: Buffer }
  | { readonly status: undefined; readonly error: Error };

type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

const MAX_ANSWER_BYTES = 64 * 1024;
/** Interim answers (1xx) that a request may have: a receiver could send them without end. */
const MAX_INTERIM = 8;
/** Of a refusal so much is kept: enough to see what the endpoint has against the message. */
const EXCERPT_BYTES = 256;
const NOTHING = Buffer.alloc(0);

/**
 * One request whose answer is worth its status alone: read on, so that the connection serves again, and no further than that is worth.
 * Once there is a status it counts, whatever becomes of the rest.
 */
export class PostCall implements Dispatcher.DispatchHandler {
  readonly result: Promise<Posted>;
  #resolve!: (posted: Posted) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #calledOff: Error | undefined;
  #status: number | undefined;
  #headers: AnswerHeaders = {};
  #cost = 0;
  #interim = 0;
  #excerpt = NOTHING;

  constructor() {
    this.result = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** Ends the request. One that waits for a connection is ended when it gets one, and is not sent. */
  callOff(reason: Error): void {
    this.#calledOff ??= reason;
    if (this.#controller === undefined) this.#ended(reason);
    else this.#controller.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#calledOff !== undefined) controller.abort(this.#calledOff);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200) {
      if (++this.#interim > MAX_INTERIM) controller.abort(new Error('too many interim answers (1xx)'));
      return;
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = EXCERPT_BYTES - this.#excerpt.length;
    // A copy: what the connection reads into is used again.
    if (room > 0 && !isSuccess(this.#status)) this.#excerpt = Buffer.concat([this.#excerpt, chunk.subarray(0, room)]);
    this.#cost += chunk.length + CHUNK_COST_BYTES;
    if (this.#cost > MAX_ANSWER_BYTES) controller.abort(new Error('the answer is too long'));
  }

  onResponseEnd(): void {
    this.#ended();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#ended(error);
  }

  #ended(error?: Error): void {
    const status = this.#status;
    this.#resolve(
      status === undefined
        ? { status, error: error ?? new Error('the answer has no status') }
        : { status, headers: this.#headers, excerpt: this.#excerpt },
    );
  }
}

export const isSuccess = (status: number | undefined): boolean => status !== undefined && status >= 200 && status < 300;
