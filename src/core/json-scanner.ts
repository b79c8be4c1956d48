import { isUtf8 } from 'node:buffer';
import { invalidUtf8At, JsonError } from './json-error.js';

export { JsonError };

/**
 * Strict JSON (RFC 8259) over bytes, without building values: what was sent stays a slice of the text, so that big integers,
 * `1.0`, key order, escapes and duplicate keys survive. Refused besides what the grammar refuses: text that isn't UTF-8, a byte
 * order mark, surrogates that aren't a pair (escaped or not), containers nested past `maxDepth` (the outermost counts as 1), and of
 * what `skip` passes more than `maxValues` values.
 * No recursion; one pass.
 */
export interface ScanOptions {
  readonly maxDepth: number;
  /** Members, elements, and what they lie in; any number unless given. */
  readonly maxValues?: number;
}

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** Checks the whole text. @throws JsonError */
export function scanJson(text: Buffer, options: ScanOptions): void {
  const reader = new JsonReader(text, options);
  reader.skip();
  reader.finish();
}

/** Member names that a reader of an object knows, told apart without making strings of the bytes. */
export class KnownKeys<K extends string> {
  readonly #byLength: { readonly name: K; readonly bytes: Buffer }[][] = [];
  readonly #names: ReadonlyMap<string, K>;

  constructor(names: readonly K[]) {
    this.#names = new Map(names.map((name) => [name, name]));
    for (const name of names) {
      const bytes = Buffer.from(name);
      (this.#byLength[bytes.length] ??= []).push({ name, bytes });
    }
  }

  named(name: string): K | undefined {
    return this.#names.get(name);
  }

  /** Of the bytes between the quotes, without escapes. */
  match(text: Buffer, start: number, end: number): K | undefined {
    const candidates = this.#byLength[end - start];
    if (candidates === undefined) return undefined;
    next: for (const { name, bytes } of candidates) {
      for (let i = 0; i < bytes.length; i++) if (bytes[i] !== text[start + i]) continue next;
      return name;
    }
    return undefined;
  }
}

/** What `nextMember` gives for a name that isn't among the known ones. */
export const UNKNOWN_KEY = Symbol('unknown key');

/**
 * A cursor over one text. It stands at a value, and each call checks what it passes: `skip` a whole value, `enterObject` and
 * `enterArray` a bracket, then `nextMember` or `nextElement` until they say that the container ended, and `finish` at the end.
 * After `skip`, `kind`, `start` and `end` tell the value that was passed: its bytes are `[start, end)`, without white space around.
 */
export class JsonReader {
  kind: JsonKind = 'null';
  start = 0;
  end = 0;
  readonly #text: Buffer;
  readonly #maxDepth: number;
  readonly #maxValues: number;
  #values = 0;
  #at = 0;
  #depth = 0;
  /** The container was just entered: no comma is due before its first item. */
  #first = false;
  /** Of the last string passed. */
  #escaped = false;
  #ascii = true;
  /** 1 for each open object, 0 for each open array, inside the value that `skip` passes. */
  readonly #open: Uint8Array;

  /** @throws JsonError when the text isn't UTF-8, or is empty */
  constructor(text: Buffer, options: ScanOptions) {
    if (!isUtf8(text)) throw new JsonError(text, invalidUtf8At(text), 'invalid UTF-8');
    this.#text = text;
    this.#maxDepth = options.maxDepth;
    this.#maxValues = options.maxValues ?? Infinity;
    this.#open = scratch(options.maxDepth);
    this.#space();
  }

  /** The kind of the value at the cursor, by its first byte alone. */
  peek(): JsonKind {
    switch (this.#byte()) {
      case QUOTE:
        return 'string';
      case BRACE:
        return 'object';
      case BRACKET:
        return 'array';
      case LOWER_T:
      case LOWER_F:
        return 'boolean';
      case LOWER_N:
        return 'null';
      default:
        return 'number';
    }
  }

  enterObject(): void {
    this.#enter(BRACE, 'expected {');
  }

  enterArray(): void {
    this.#enter(BRACKET, 'expected [');
  }

  /** Moves to the value of the next member and names it; undefined when the object ended. `start`, `end`: the name with its quotes. */
  nextMember<K extends string>(keys: KnownKeys<K>): K | typeof UNKNOWN_KEY | undefined {
    if (this.#ended(BRACE_END, 'expected , or }')) return undefined;
    this.#key();
    const known = this.#escaped ? keys.named(this.string()) : keys.match(this.#text, this.start + 1, this.end - 1);
    return known ?? UNKNOWN_KEY;
  }

  /** Moves to the next element; false when the array ended. */
  nextElement(): boolean {
    return !this.#ended(BRACKET_END, 'expected , or ]');
  }

  /** Passes the value at the cursor. */
  skip(): void {
    const text = this.#text;
    const open = this.#open;
    const room = this.#maxDepth - this.#depth;
    let depth = 0;
    this.kind = this.peek();
    const start = this.#at;
    for (;;) {
      const byte = this.#byte();
      if (++this.#values > this.#maxValues) throw this.#error(this.#at, `more than ${this.#maxValues} values`);
      if (byte === QUOTE) {
        this.#string();
      } else if (byte === BRACE || byte === BRACKET) {
        if (depth >= room) throw this.#error(this.#at, `nested deeper than ${this.#maxDepth} levels`);
        this.#at++;
        this.#space();
        const isObject = byte === BRACE;
        if (text[this.#at] === (isObject ? BRACE_END : BRACKET_END)) {
          this.#at++;
        } else {
          open[depth++] = isObject ? 1 : 0;
          if (isObject) this.#key();
          continue;
        }
      } else {
        this.#scalar(byte);
      }
      // A value ended: so do the containers that it was the last of.
      for (;;) {
        if (depth === 0) {
          this.start = start;
          this.end = this.#at;
          return;
        }
        this.#space();
        const isObject = open[depth - 1] === 1;
        const after = text[this.#at];
        if (after === COMMA) {
          this.#at++;
          this.#space();
          if (isObject) this.#key();
          break;
        }
        if (after !== (isObject ? BRACE_END : BRACKET_END))
          throw this.#unexpected(isObject ? 'expected , or }' : 'expected , or ]');
        this.#at++;
        depth--;
      }
    }
  }

  /** The text of the string that was passed last, unescaped. */
  string(): string {
    const { start, end } = this;
    if (this.#escaped) return JSON.parse(this.#text.toString('utf8', start, end)) as string;
    return this.#text.toString(this.#ascii ? 'latin1' : 'utf8', start + 1, end - 1);
  }

  /** Only white space may follow. */
  finish(): void {
    this.#space();
    if (this.#at < this.#text.length) throw this.#error(this.#at, 'unexpected text after the value');
  }

  #enter(bracket: number, expected: string): void {
    if (this.#byte() !== bracket) throw this.#unexpected(expected);
    if (++this.#depth > this.#maxDepth) throw this.#error(this.#at, `nested deeper than ${this.#maxDepth} levels`);
    this.#at++;
    this.#first = true;
  }

  /** Passes the comma, or the closing bracket: then true. */
  #ended(bracket: number, expected: string): boolean {
    this.#space();
    const byte = this.#byte();
    if (byte === bracket) {
      this.#at++;
      this.#depth--;
      this.#first = false;
      return true;
    }
    if (this.#first) {
      this.#first = false;
    } else {
      if (byte !== COMMA) throw this.#unexpected(expected);
      this.#at++;
      this.#space();
    }
    return false;
  }

  /** From a name to the value behind its colon. */
  #key(): void {
    if (this.#byte() !== QUOTE) throw this.#unexpected('expected a member name');
    this.start = this.#at;
    this.#string();
    this.end = this.#at;
    this.#space();
    if (this.#byte() !== COLON) throw this.#unexpected('expected :');
    this.#at++;
    this.#space();
  }

  #space(): void {
    const text = this.#text;
    let at = this.#at;
    while (at < text.length) {
      const byte = text[at] as number;
      if (byte > SPACE || (byte !== SPACE && byte !== LF && byte !== CR && byte !== TAB)) break;
      at++;
    }
    this.#at = at;
  }

  #string(): void {
    const text = this.#text;
    const length = text.length;
    let at = this.#at + 1;
    this.#escaped = false;
    this.#ascii = true;
    while (at < length) {
      const kind = CLASS[text[at] as number];
      if (kind === PLAIN) at++;
      else if (kind === STRING_END) {
        this.#at = at + 1;
        return;
      } else if (kind === WIDE) {
        this.#ascii = false;
        at++;
      } else if (kind === ESCAPE) {
        this.#escaped = true;
        at = this.#escape(at);
      } else throw this.#error(at, 'control character in a string');
    }
    throw this.#error(length, 'unexpected end of text');
  }

  /** From a backslash to what follows the escape; a pair of surrogates is one escape. */
  #escape(at: number): number {
    const text = this.#text;
    if (at + 1 >= text.length) throw this.#error(text.length, 'unexpected end of text');
    if (text[at + 1] !== LOWER_U) {
      if (!SIMPLE_ESCAPES.includes(text[at + 1] as number)) throw this.#error(at, 'invalid escape in a string');
      return at + 2;
    }
    const unit = this.#hex(at + 2);
    if (unit < 0xd800 || unit > 0xdfff) return at + 6;
    if (unit < 0xdc00 && text[at + 6] === BACKSLASH && text[at + 7] === LOWER_U) {
      const low = this.#hex(at + 8);
      if (low >= 0xdc00 && low <= 0xdfff) return at + 12;
    }
    throw this.#error(at, 'lone surrogate in a string');
  }

  #hex(at: number): number {
    let value = 0;
    for (let i = at; i < at + 4; i++) {
      if (i >= this.#text.length) throw this.#error(i, 'unexpected end of text');
      const digit = HEX_DIGIT[this.#text[i] as number] as number;
      if (digit === 255) throw this.#error(i, 'invalid \\u escape in a string');
      value = value * 16 + digit;
    }
    return value;
  }

  #scalar(byte: number): void {
    if (byte === LOWER_T) this.#literal('true');
    else if (byte === LOWER_F) this.#literal('false');
    else if (byte === LOWER_N) this.#literal('null');
    else this.#number(byte);
  }

  #literal(word: string): void {
    for (let i = 1; i < word.length; i++) {
      if (this.#text[this.#at + i] !== word.charCodeAt(i)) {
        this.#at = Math.min(this.#at + i, this.#text.length);
        throw this.#unexpected(`expected ${word}`);
      }
    }
    this.#at += word.length;
  }

  #number(first: number): void {
    const text = this.#text;
    let byte = first;
    if (byte === MINUS) {
      this.#at++;
      byte = this.#byte();
      if (!isDigit(byte)) throw this.#unexpected('expected a digit');
    } else if (!isDigit(byte)) {
      throw byte === 0xef && this.#at === 0
        ? this.#error(0, 'byte order mark before the text')
        : this.#unexpected('expected a value');
    }
    this.#at++;
    if (byte !== ZERO) this.#digits();
    if (text[this.#at] === POINT) {
      this.#at++;
      if (!isDigit(this.#byte())) throw this.#unexpected('expected a digit');
      this.#digits();
    }
    if (text[this.#at] === LOWER_E || text[this.#at] === UPPER_E) {
      this.#at++;
      const sign = this.#byte();
      if (sign === PLUS || sign === MINUS) this.#at++;
      if (!isDigit(this.#byte())) throw this.#unexpected('expected a digit');
      this.#digits();
    }
  }

  #digits(): void {
    const text = this.#text;
    let at = this.#at;
    while (at < text.length && isDigit(text[at] as number)) at++;
    this.#at = at;
  }

  #byte(): number {
    if (this.#at >= this.#text.length) throw this.#error(this.#text.length, 'unexpected end of text');
    return this.#text[this.#at] as number;
  }

  #unexpected(expected: string): JsonError {
    return this.#error(this.#at, this.#at >= this.#text.length ? 'unexpected end of text' : expected);
  }

  #error(offset: number, reason: string): JsonError {
    return new JsonError(this.#text, offset, reason);
  }
}

const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const UPPER_E = 0x45;
const BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_END = 0x5d;
const LOWER_E = 0x65;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const LOWER_U = 0x75;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const SIMPLE_ESCAPES = Buffer.from('"\\/bfnrt');

const PLAIN = 0;
const WIDE = 1;
const STRING_END = 2;
const ESCAPE = 3;
const CONTROL = 4;
/** What a byte is inside a string. */
const CLASS = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === QUOTE ? STRING_END : byte === BACKSLASH ? ESCAPE : byte < SPACE ? CONTROL : byte < 0x80 ? PLAIN : WIDE,
);
const HEX_DIGIT = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? 255 : digit;
});

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= 0x39;

let shared = new Uint8Array(64);
/** A reader's stack of open containers, shared by all: no pass yields to another. */
function scratch(depth: number): Uint8Array {
  if (shared.length < depth) shared = new Uint8Array(depth);
  return shared;
}
