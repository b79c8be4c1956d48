import type { ServerResponse } from 'node:http';
import { background } from '../../core/background.js';
import type { TenantBudget, Hold } from '../../core/budget.js';

/** The place of one answer among all of its stream. */
export class Slot {
  text: string | undefined;
  constructor(readonly number: number) {}
}

export interface AnswerLimits {
  /** Lines that are read and not answered, at most. */
  readonly lines: number;
  /** After so long without a byte taken a client is cut, milliseconds. */
  readonly stallMs: number;
}

/** Of answers that wait for those before them: no further lines are read past it, and those that were read go on. */
const MOST_BYTES = 1024 * 1024;
/** Of the lines that are read and not answered, while several tenants ask: what is kept of them is gone through by garbage collection, again and again. */
const AMONG_TENANTS = 1 / 2;

/** Answers in the order of their lines, whichever is known first. */
export class BulkAnswers {
  readonly #response: ServerResponse;
  readonly #limits: AnswerLimits;
  readonly #budget: TenantBudget;
  readonly #hold: Hold;
  #slots: Slot[] = [];
  #head = 0;
  /** Bytes of answers that are known and not written, about. */
  #known = 0;
  #flushing = false;
  #blocked = false;
  #stalled: NodeJS.Timeout | undefined;
  #waiting: (() => void)[] = [];

  constructor(response: ServerResponse, budget: TenantBudget, limits: AnswerLimits) {
    this.#response = response;
    this.#limits = limits;
    this.#budget = budget;
    this.#hold = budget.hold('answers');
    response.on('drain', () => this.#drained());
    response.once('close', () => {
      clearTimeout(this.#stalled);
      this.#hold.close();
      this.#wake();
    });
  }

  get open(): number {
    return this.#slots.length - this.#head;
  }

  /** There is room for another line. */
  get hasRoom(): boolean {
    const most = this.#limits.lines * (background.isShared ? AMONG_TENANTS : 1);
    return (this.open < most && !this.isBehind) || this.#response.destroyed;
  }

  /** The client doesn't read, or much waits for an answer before it. */
  get isBehind(): boolean {
    return this.isUnread || this.#known > MOST_BYTES;
  }

  /** The client doesn't read what was written to it. It ends by itself: the client reads, or is cut. */
  get isUnread(): boolean {
    return this.#blocked && !this.#response.destroyed;
  }

  /** The next line, whose answer follows. */
  add(number: number): Slot {
    const slot = new Slot(number);
    this.#slots.push(slot);
    return slot;
  }

  /** Whether there is memory for an answer so long. */
  takes(bytes: number): boolean {
    return this.#budget.refuses('answers', bytes) === undefined;
  }

  answer(slot: Slot, text: string): void {
    if (slot.text !== undefined) return;
    slot.text = text;
    this.#known += text.length;
    // What waits for an answer before it is held as well, or any number of states would pass for none.
    this.#hold.set(this.#known + this.#response.writableLength);
    if (this.#flushing || this.#slots[this.#head] !== slot) return;
    this.#flushing = true;
    // Those of one produce are known on one turn, and go out in one write.
    queueMicrotask(() => this.#flush());
  }

  /** Resolves when something has changed: an answer was written, the client has read, or is gone. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when all lines are answered, or nobody is there to read it. */
  async finished(): Promise<void> {
    while (this.open > 0 && !this.#response.destroyed) await this.changed();
  }

  #flush(): void {
    this.#flushing = false;
    let text = '';
    for (let slot = this.#slots[this.#head]; slot?.text !== undefined; slot = this.#slots[this.#head]) {
      text += slot.text;
      // It stays in the list for a while, and needs to know only that it was answered.
      slot.text = '';
      this.#head++;
    }
    if (this.#head === this.#slots.length || this.#head > 4096) {
      this.#slots = this.#slots.slice(this.#head);
      this.#head = 0;
    }
    this.#known -= text.length;
    if (text !== '' && !this.#response.destroyed && !this.#response.write(text) && !this.#blocked) {
      this.#blocked = true;
      this.#stalled = setTimeout(() => this.#response.destroy(), this.#limits.stallMs);
    }
    this.#hold.set(this.#known + this.#response.writableLength);
    this.#wake();
  }

  #drained(): void {
    this.#blocked = false;
    clearTimeout(this.#stalled);
    this.#hold.set(this.#known);
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}
