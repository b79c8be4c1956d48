import type { IncomingMessage } from 'node:http';
import { Chunks } from '../body.js';

const LF = 0x0a;

/** A line as it came, without its line feed. */
export interface Line {
  /** From 1; empty ones count. */
  readonly number: number;
  readonly text: Buffer;
}

export interface TooLong {
  readonly number: number;
  readonly text: undefined;
}

/** Cuts bytes into lines, holding no more than one that has not ended. */
export class LineSplitter {
  readonly #most: number;
  /** Of the line that has not ended. */
  #open = new Chunks();
  #passing = false;
  #number = 0;
  #blank = 0;

  /** `most`: bytes of a line; of a longer one nothing is kept. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Bytes of the line that has not ended. */
  get partial(): number {
    return this.#open.length;
  }

  /** Lines with nothing in them, so far. */
  get blank(): number {
    return this.#blank;
  }

  /** Of the line that comes next. */
  get next(): number {
    return this.#number + 1;
  }

  /** Something came behind the last line feed. */
  get isOpen(): boolean {
    return this.#passing || this.#open.length > 0;
  }

  /** What has come of the open line is dropped, and it is passed over. */
  drop(): void {
    this.#open = new Chunks();
    this.#passing = true;
  }

  /** Lines that end in the chunk; those with nothing in them are counted and left out. */
  *push(chunk: Buffer): Generator<Line | TooLong> {
    let from = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      if (!this.isOpen && isBlank(chunk, from, end)) {
        this.#number++;
        this.#blank++;
      } else {
        const line = this.#ended(chunk.subarray(from, end));
        if (line !== undefined) yield line;
      }
      from = end + 1;
    }
    if (from === chunk.length || this.#passing) return;
    if (this.#open.length + chunk.length - from > this.#most) this.drop();
    else this.#open.push(chunk.subarray(from));
  }

  #ended(rest: Buffer): Line | TooLong | undefined {
    const number = ++this.#number;
    const open = this.#open;
    const long = this.#passing || open.length + rest.length > this.#most;
    this.#passing = false;
    if (open.length > 0) this.#open = new Chunks();
    if (long) return { number, text: undefined };
    if (open.length > 0) open.push(rest);
    const text = open.length > 0 ? open.whole() : rest;
    if (!isBlank(text, 0, text.length)) return { number, text };
    this.#blank++;
    return undefined;
  }
}

function isBlank(text: Buffer, from: number, end: number): boolean {
  for (let i = from; i < end; i++) {
    const byte = text[i];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

/** How reading ended. `idle`: nothing came for too long; `gone`: the connection is; `stopped`: from this side. */
export type Ended = 'whole' | 'idle' | 'gone' | 'stopped';

/** The body of a request, chunk by chunk: nothing is read ahead of who asks for it. */
export class ChunkSource {
  readonly #request: IncomingMessage;
  readonly #idleMs: number;
  readonly #chunks: Buffer[] = [];
  #ended: Ended | undefined;
  #waiting: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(request: IncomingMessage, idleMs: number) {
    this.#request = request;
    this.#idleMs = idleMs;
    request.pause();
    request.on('data', (chunk: Buffer) => {
      if (this.#ended !== undefined) return;
      this.#chunks.push(chunk);
      request.pause();
      this.#wake();
    });
    request.on('end', () => this.end('whole'));
    const gone = (): void => this.end('gone');
    request.on('error', gone);
    request.on('close', gone);
  }

  /** Why `next` has no more. */
  get ended(): Ended {
    return this.#ended ?? 'stopped';
  }

  /** Undefined: there are no more. */
  async next(): Promise<Buffer | undefined> {
    const ready = this.#chunks.shift();
    if (ready !== undefined) return ready;
    if (this.#ended !== undefined) return undefined;
    this.#timer = setTimeout(() => this.end('idle'), this.#idleMs);
    await new Promise<void>((resolve) => {
      this.#waiting = resolve;
      this.#request.resume();
    });
    clearTimeout(this.#timer);
    return this.#chunks.shift();
  }

  end(how: Ended): void {
    this.#ended ??= how;
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }
}
