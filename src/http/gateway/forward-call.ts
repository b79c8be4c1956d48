import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import { endBesideUpload } from '../answer.js';
import { NOT_OWNER, returnedHeaders } from './headers.js';

/** Why an attempt failed. Before `reset` nothing was done; after it, nobody knows. */
export type Failure = 'not_owner' | 'refused' | 'unavailable' | 'reset' | 'moved';

export type Attempt =
  /** The answer is with the client, or as much of it as there was. */
  | { readonly kind: 'answered' }
  /** Nobody waits for an answer any more. */
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'failed';
      readonly why: Failure;
      /** It is certain that nothing was done. */
      readonly definite: boolean;
      /** Gives the client the owner's own refusal. */
      readonly answer?: () => void;
    };

/** A Retry-After past this is meant: what it waits for won't be over within the deadline. */
const SHORT_RETRY_SECONDS = 1;

/**
 * One attempt at one owner: its answer is passed to the client as it comes, with back-pressure; a client that goes away ends
 * the attempt. What may be tried again is held back: a 503, and the whole answer where a torn one could be asked for again.
 */
export class ForwardCall implements Dispatcher.DispatchHandler {
  readonly result: Promise<Attempt>;
  #resolve!: (attempt: Attempt) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #cancelled: 'gone' | 'moved' | 'closing' | undefined;
  #started = false;
  #passing = false;
  #status = 0;
  #headers: string[] = [];
  #notOwner = false;
  #retryAfter = 0;
  readonly #held: Buffer[] = [];

  constructor(
    private readonly response: ServerResponse,
    private readonly options: { readonly repeatable: boolean; readonly whole: boolean },
  ) {
    this.result = new Promise((resolve) => {
      this.#resolve = (attempt) => {
        response.off('close', this.#onClose);
        response.off('drain', this.#onDrain);
        resolve(attempt);
      };
    });
    response.on('close', this.#onClose);
    response.on('drain', this.#onDrain);
  }

  /** True once the client has a part of the answer. */
  get passing(): boolean {
    return this.#passing;
  }

  /** Ends the attempt; the owner sees its client go away. */
  cancel(why: 'gone' | 'moved' | 'closing'): void {
    if (this.#cancelled !== undefined) return;
    this.#cancelled = why;
    // One that waits for a connection is ended when it gets one, and is not sent.
    if (this.#controller === undefined) this.#failed();
    else this.#controller.abort(new Error(why));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#cancelled === undefined) this.#started = true;
    else controller.abort(new Error(this.#cancelled));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (status < 200) return;
    const { response } = this;
    this.#status = status;
    this.#headers = returnedHeaders(controller.rawHeaders as Buffer[]);
    this.#notOwner = status === 503 && headers[NOT_OWNER] !== undefined;
    this.#retryAfter = Number(headers['retry-after'] ?? 0);
    if (this.options.whole || status === 503) return;
    this.#passing = true;
    this.#writeHead();
    // A stream's first event may be long in coming: its client waits for the head.
    if (headers['content-length'] === undefined) response.flushHeaders();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#passing) this.#held.push(chunk);
    else if (!this.response.write(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    const again =
      this.#status === 503 && (this.#notOwner || (this.options.repeatable && this.#retryAfter <= SHORT_RETRY_SECONDS));
    if (again) {
      if (this.#notOwner) return this.#resolve({ kind: 'failed', why: 'not_owner', definite: true });
      return this.#resolve({ kind: 'failed', why: 'unavailable', definite: false, answer: () => this.#send() });
    }
    this.#send();
    this.#resolve({ kind: 'answered' });
  }

  onResponseError(): void {
    this.#failed();
  }

  #send(): void {
    const { response } = this;
    if (response.destroyed) return;
    if (!this.#passing) this.#writeHead();
    const rest = Buffer.concat(this.#held);
    if (response.req.complete) response.end(rest);
    else endBesideUpload(response, rest);
  }

  /** An owner may answer before it has the body. The client would send its next request behind the rest of it, which nobody reads. */
  #writeHead(): void {
    if (!this.response.req.complete) this.response.shouldKeepAlive = false;
    this.response.writeHead(this.#status, this.#headers);
  }

  #failed(): void {
    if (this.#cancelled === 'gone') return this.#resolve({ kind: 'gone' });
    if (this.#passing) {
      // Cut short, the client must not take what it has for the whole: only a stream may end anywhere.
      if (this.#cancelled === 'closing') this.response.end();
      else this.response.destroy();
      return this.#resolve({ kind: 'answered' });
    }
    const why = this.#cancelled === 'moved' ? 'moved' : this.#started ? 'reset' : 'refused';
    this.#resolve({ kind: 'failed', why, definite: !this.#started });
  }

  readonly #onClose = (): void => {
    if (!this.response.writableFinished) this.cancel('gone');
  };

  readonly #onDrain = (): void => this.#controller?.resume();
}
