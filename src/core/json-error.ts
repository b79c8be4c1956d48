import { isUtf8 } from 'node:buffer';

const LF = 0x0a;

/** The text is not the JSON that was asked for. `offset` counts bytes from 0; line and column (in bytes) count from 1. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  readonly reason: string;
  readonly offset: number;
  readonly line: number;
  readonly column: number;

  constructor(text: Buffer, offset: number, reason: string) {
    let line = 1;
    let lineStart = 0;
    for (let at = text.indexOf(LF); at !== -1 && at < offset; at = text.indexOf(LF, at + 1)) {
      line++;
      lineStart = at + 1;
    }
    const column = offset - lineStart + 1;
    super(`${reason} at byte ${offset} (line ${line}, column ${column})`);
    this.reason = reason;
    this.offset = offset;
    this.line = line;
    this.column = column;
  }
}

/** Where the first byte is that isn't part of a whole character. */
export function invalidUtf8At(text: Buffer): number {
  let at = 0;
  // Whole blocks first, each cut where a character begins; then the characters of the block that has the fault.
  for (;;) {
    let next = Math.min(at + 4096, text.length);
    for (let back = 0; back < 3 && next < text.length && ((text[next] as number) & 0xc0) === 0x80; back++) next--;
    if (!isUtf8(text.subarray(at, next))) break;
    at = next;
  }
  for (;;) {
    const lead = text[at] as number;
    const next = at + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
    if (!isUtf8(text.subarray(at, next))) return at;
    at = next;
  }
}
