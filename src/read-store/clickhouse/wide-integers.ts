const SHORTEST = 19;
/** A double has no room for more. */
const LONGEST = 308;
const TOKEN = /"(?:[^"\\]+|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;
const INTEGER = /^-?(\d+)$/;
const LEAST = -(2n ** 63n);
const MOST = 2n ** 64n - 1n;

/** JSON text with integers that are past 64 bits as floats, e.g. `1…0e0`: for ClickHouse the whole text is none with such an integer. Undefined: it has none. */
export function wideAsFloats(json: Buffer): Buffer | undefined {
  if (!hasLongDigits(json)) return undefined;
  let found = false;
  // A character a byte, so that all bytes of other characters stay as they are.
  const text = json.toString('latin1').replace(TOKEN, (token) => {
    if (!isWide(token)) return token;
    found = true;
    return `${token}e0`;
  });
  return found ? Buffer.from(text, 'latin1') : undefined;
}

/** Looks at one byte of 19: a run of so many digits has one of them. */
function hasLongDigits(json: Buffer): boolean {
  for (let at = SHORTEST - 1; at < json.length; at += SHORTEST) {
    if (!isDigit(json[at])) continue;
    let [first, end] = [at, at + 1];
    while (isDigit(json[first - 1])) first--;
    while (isDigit(json[end])) end++;
    if (end - first >= SHORTEST) return true;
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
