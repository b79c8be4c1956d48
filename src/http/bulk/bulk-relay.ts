import { PassThrough } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { BulkAnswers } from './bulk-answers.js';
import type { BulkItem } from './bulk-item.js';
import { LineSplitter } from './line-source.js';

/** In an answer of a process to another one: the line was not begun there, since the process does not own its aggregate. */
export const PASSED_BACK = '"passedBack":true';

export interface RelayOptions {
  readonly answers: BulkAnswers;
  /** Sends a request to the process; false where nothing can be sent any more. */
  readonly open: (body: PassThrough, handler: Dispatcher.DispatchHandler) => Promise<boolean>;
  /** Answers in place of the process what it refused as a whole. */
  readonly refused: (item: BulkItem, problem: Readonly<Record<string, unknown>>) => void;
}

/** Whose the lines are: it hears what became of each. */
export interface RelayedLane {
  answered(): void;
  /** Nobody knows whether it was stored. */
  unanswered(item: BulkItem): void;
}

interface Pending {
  readonly item: BulkItem;
  readonly lane: RelayedLane;
}

/** Longer answers end the stream: no state is. */
const MOST_ANSWER_BYTES = 64 * 1024 * 1024;
const MOST_PROBLEM_BYTES = 256 * 1024;

const STORED = /^\{"line":\d+,"status":201,/;
const STATE = ',"state":';

/** As this process answers where there is no memory for the state. Quotes within strings are escaped: the first is the member. */
function withoutState(answer: Buffer): string {
  const at = answer.indexOf(STATE);
  if (at < 0 || !STORED.test(answer.toString('latin1', 0, 64))) return answer.toString('utf8');
  return `${answer.toString('utf8', 0, at)},"stateStatus":"unavailable"}`;
}

/**
 * The part of a stream that another process owns, as a stream to it. Each line goes with its number, so that its answer can be
 * passed on as it is, and with the id of its command. What is not answered there is given back to its lane.
 */
export class BulkRelay implements Dispatcher.DispatchHandler {
  readonly #options: RelayOptions;
  readonly #body = new PassThrough();
  readonly #lines = new LineSplitter(MOST_ANSWER_BYTES);
  #pending: Pending[] = [];
  #head = 0;
  #retired = false;
  #paused = false;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #problem = '';

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#body.on('error', () => undefined);
    options.open(this.#body, this).then(
      (sent) => sent || this.#failed(),
      () => this.#failed(),
    );
  }

  /** It takes no more lines. */
  get retired(): boolean {
    return this.#retired;
  }

  /** The process doesn't take what is sent. */
  get isFull(): boolean {
    return !this.#retired && this.#body.writableNeedDrain;
  }

  send(item: BulkItem, lane: RelayedLane): void {
    this.#pending.push({ item, lane });
    this.#body.write(`${item.slot.number} ${item.commandId} `);
    this.#body.write(item.line);
    this.#body.write('\n');
  }

  drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#body.off('drain', done).off('close', done);
        resolve();
      };
      this.#body.once('drain', done).once('close', done);
    });
  }

  /** No more lines come; those that were sent are answered. */
  retire(): void {
    this.#retired = true;
    this.#body.end();
  }

  /** Nobody waits for answers any more. */
  abort(): void {
    this.#retired = true;
    if (this.#controller === undefined) this.#body.destroy();
    else this.#controller.abort(new Error('the client went away'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.#status = status;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status !== 200) {
      if (this.#problem.length < MOST_PROBLEM_BYTES) this.#problem += chunk.toString('latin1');
      return;
    }
    for (const { text } of this.#lines.push(Buffer.from(chunk))) {
      const next = this.#pending[this.#head];
      if (next === undefined || text === undefined) {
        controller.abort(new Error('an answer that was not expected'));
        return;
      }
      this.#head++;
      if (text.includes(PASSED_BACK)) {
        if (!this.#retired) this.retire();
        next.lane.unanswered(next.item);
      } else {
        const answer = this.#options.answers.takes(text.length) ? text.toString('utf8') : withoutState(text);
        this.#options.answers.answer(next.item.slot, `${answer}\n`);
        next.lane.answered();
      }
    }
    if (this.#head > 1024) {
      this.#pending = this.#pending.slice(this.#head);
      this.#head = 0;
    }
    // Only the client may hold up a process. Were it held up while its answers wait for those of another one, the answer that
    // all wait for might be behind them: here, there, or after a slot moved. Lines, and the memory for states, bound what comes.
    if (this.#paused || !this.#options.answers.isUnread) return;
    this.#paused = true;
    controller.pause();
    void this.#resumeLater(controller);
  }

  async #resumeLater(controller: Dispatcher.DispatchController): Promise<void> {
    while (this.#options.answers.isUnread) await this.#options.answers.changed();
    this.#paused = false;
    controller.resume();
  }

  onResponseEnd(): void {
    if (this.#status === 200 || this.#status === 503) return this.#failed();
    let problem: Readonly<Record<string, unknown>>;
    try {
      problem = JSON.parse(Buffer.from(this.#problem, 'latin1').toString('utf8')) as typeof problem;
    } catch {
      return this.#failed();
    }
    for (const { item, lane } of this.#rest()) {
      this.#options.refused(item, problem);
      lane.answered();
    }
  }

  onResponseError(): void {
    this.#failed();
  }

  #failed(): void {
    for (const { item, lane } of this.#rest()) lane.unanswered(item);
  }

  #rest(): readonly Pending[] {
    this.#retired = true;
    this.#body.destroy();
    const rest = this.#pending.slice(this.#head);
    this.#pending = [];
    this.#head = 0;
    return rest;
  }
}
