import { eventLoop } from '../core/event-loop.js';
import { onTurns, type Turn } from '../core/turns.js';

/**
 * Writes JSON in which some values are bytes that must stay as they are (`data`, `state`): text and slices are gathered
 * and copied once.
 */
export class JsonWriter {
  readonly #parts: Buffer[] = [];
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

  /** The same, part by part, each on a turn of its own. */
  async listOnTurns<T>(items: readonly T[], turn: Turn, write: (item: T) => void): Promise<this> {
    let first = true;
    for await (const part of onTurns(items, turn)) {
      if (!first) this.#text += ',';
      first = false;
      eventLoop.slice('pages', () => this.list(part, write));
    }
    return this;
  }

  end(): Buffer {
    this.#flush();
    return Buffer.concat(this.#parts);
  }

  #flush(): void {
    if (this.#text === '') return;
    this.#parts.push(Buffer.from(this.#text));
    this.#text = '';
  }
}
