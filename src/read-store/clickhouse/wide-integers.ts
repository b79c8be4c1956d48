const SHORTEST = 19;
/** A double has no room for more. */
const LONGEST = 308;
const AS_FLOAT = Buffer.from('e0');
const QUOTE = 0x22;
const MINUS = 0x2d;
const BACKSLASH = 0x5c;
/** Bytes that a number may go on with. */
const OF_NUMBER = Uint8Array.from({ length: 256 }, (_, byte) =>
  '0123456789+-.eE'.includes(String.fromCharCode(byte)) ? 1 : 0,
);
const INTEGER = /^-?(\d+)$/;
const LEAST = -(2n ** 63n);
const MOST = 2n ** 64n - 1n;

/** JSON text with integers that are past 64 bits as floats, e.g. `1…0e0`: for ClickHouse the whole text is none with such an integer. Undefined: it has none. */
export function wideAsFloats(json: Buffer): Buffer | undefined {
  if (!hasLongDigits(json)) return undefined;
  const pieces: Buffer[] = [];
  let taken = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] as number;
    if (byte === QUOTE) at = closingQuote(json, at);
    else if (byte === MINUS || isDigit(byte)) {
      const end = endOfNumber(json, at);
      if (end - at >= SHORTEST && isWide(json.toString('latin1', at, end))) {
        pieces.push(json.subarray(taken, end), AS_FLOAT);
        taken = end;
      }
      at = end - 1;
    }
  }
  return taken === 0 ? undefined : Buffer.concat([...pieces, json.subarray(taken)]);
}

/** Of the string that begins at the quote. */
function closingQuote(json: Buffer, quote: number): number {
  let at = quote + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

function endOfNumber(json: Buffer, start: number): number {
  let at = start + 1;
  while (OF_NUMBER[json[at] ?? QUOTE] === 1) at++;
  return at;
}

/**
 * Whether there may be an integer past 64 bits in the JSON text, which lies from `start` to `end` of the bytes. Looks at one byte of 19: a run
 * of so many digits has one of them.
 */
export function hasLongDigits(bytes: Buffer, start = 0, end = bytes.length): boolean {
  for (let at = start + SHORTEST - 1; at < end; at += SHORTEST) {
    if (!isDigit(bytes[at])) continue;
    let [first, past] = [at, at + 1];
    while (first > start && isDigit(bytes[first - 1])) first--;
    while (past < end && isDigit(bytes[past])) past++;
    if (past - first >= SHORTEST) return true;
  }
  return false;
}

function isWide(token: string): boolean {
  const digits = INTEGER.exec(token)?.[1]?.length ?? 0;
  if (digits < SHORTEST || digits > LONGEST) return false;
  const value = BigInt(token);
  return value < LEAST || value > MOST;
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 48 && byte <= 57;
