/**
 * Stands before the digits of a number that is kept as text: half of a pair of surrogates, which no JSON that the service takes, and
 * none that code answers, has in a string.
 */
const MARK = '\ud800';
/** There may be a number that a double would round: most texts have none, and are parsed as they are. */
const MAY_ROUND = /[\d.]{16}|\d[eE][+-]?\d/;
/** Strings, so that they are passed over, and numbers with many digits or an exponent. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.]{15,}(?:[eE][+-]?\d+)?|-?\d[\d.]*[eE][+-]?\d+/g;
/** A string of JSON that is such a number: neither a piece of another one, where its quote has a backslash, nor the name of a member. */
const MARKED = /(?<!\\)"\\ud800(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)"(?!\s*:)/g;
/** Below it a double has fewer digits. */
const LEAST_NORMAL = 2 ** -1022;

/**
 * As JSON.parse, but for numbers that it would round: they are kept as their digits, so that two that differ stay different. What it
 * gives is there to be compared, and to be written by exactText.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  if (!MAY_ROUND.test(text)) return JSON.parse(text) as unknown;
  return JSON.parse(
    text.replace(TOKEN, (token) =>
      token.startsWith('"') || isExact(token) ? token : JSON.stringify(`${MARK}${token}`),
    ),
  ) as unknown;
}

/** In time that grows with its digits: a number may have as many as its text has room for. */
function isExact(number: string): boolean {
  const digits = number.replace(/[eE].*$/, '').replace(/[-.]/g, '');
  let [first, end] = [0, digits.length];
  while (digits[first] === '0') first++;
  while (end > first && digits[end - 1] === '0') end--;
  if (first === digits.length) return true;
  const size = Math.abs(Number(number));
  return end - first <= 15 && Number.isFinite(size) && size >= LEAST_NORMAL;
}

/** The JSON of a value that parseExactly gave. */
export function exactText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent);
  return text.includes('"\\ud800') ? text.replaceAll(MARKED, '$1') : text;
}
