import { eventLoop } from '../core/event-loop.js';
import { costOfBytes, costOfListed, LISTED_AT_ONCE, type Turn } from '../core/turns.js';

/** A part of a list ends past so many bytes, too: items may be long. */
export const PART_BYTES = 64 * 1024;

/** JSON text in the order of its parts, which nobody puts together: an answer of megabytes is written as it is. */
export class JsonParts {
  readonly parts: readonly Buffer[];

  constructor(parts: readonly Buffer[]) {
    this.parts = parts;
  }

  get length(): number {
    return this.parts.reduce((sum, { length }) => sum + length, 0);
  }
}

/**
 * Writes JSON in which some values are bytes that must stay as they are (`data`, `state`): text and slices are gathered
 * and copied once.
 */
export class JsonWriter {
  /** Of lists on turns: each is put together on its own turn. */
  readonly #whole: Buffer[] = [];
  #parts: Buffer[] = [];
  #bytes = 0;
  #text = '';

  /** JSON text as it stands. */
  text(json: string): this {
    this.#text += json;
    return this;
  }

  /** `"name":value`, with a comma before it unless it is the first. */
  member(name: string, value: unknown, first = false): this {
    this.#text += `${first ? '' : ','}"${name}":${JSON.stringify(value)}`;
    return this;
  }

  /** `,"name":` and the bytes; null as `null`. */
  raw(name: string, value: Buffer | null): this {
    this.#text += `,"${name}":`;
    if (value === null) this.#text += 'null';
    else this.bytes(value);
    return this;
  }

  bytes(value: Buffer): this {
    this.#flush();
    this.#parts.push(value);
    this.#bytes += value.length;
    return this;
  }

  /** `items` joined by commas. */
  list<T>(items: Iterable<T>, write: (item: T) => void): this {
    let first = true;
    for (const item of items) {
      if (!first) this.#text += ',';
      first = false;
      write(item);
    }
    return this;
  }

  /** The same, part by part, each on a turn of its own, which costs what the last one came to. */
  async listOnTurns<T>(items: readonly T[], turn: Turn, write: (item: T) => void): Promise<this> {
    let at = 0;
    const part = (): void => {
      const end = Math.min(items.length, at + LISTED_AT_ONCE);
      for (const most = this.#length + PART_BYTES; at < end && this.#length < most; at++) {
        if (at > 0) this.#text += ',';
        write(items[at] as T);
      }
      this.#join();
    };
    for (let cost = costOfListed(Math.min(items.length, LISTED_AT_ONCE)); at < items.length;) {
      await turn(cost);
      const before = this.#length;
      eventLoop.slice('pages', part);
      cost = Math.max(costOfListed(Math.min(items.length - at, LISTED_AT_ONCE)), costOfBytes(this.#length - before));
    }
    return this;
  }

  end(): Buffer {
    const { parts } = this.endInParts();
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  endInParts(): JsonParts {
    this.#join();
    return new JsonParts(this.#whole);
  }

  /** Bytes so far; of text that is not ASCII, about. */
  get #length(): number {
    return this.#bytes + this.#text.length;
  }

  #join(): void {
    this.#flush();
    const [first] = this.#parts;
    if (first === undefined) return;
    this.#whole.push(this.#parts.length === 1 ? first : Buffer.concat(this.#parts));
    this.#parts = [];
  }

  #flush(): void {
    if (this.#text === '') return;
    const bytes = Buffer.from(this.#text);
    this.#parts.push(bytes);
    this.#bytes += bytes.length;
    this.#text = '';
  }
}
