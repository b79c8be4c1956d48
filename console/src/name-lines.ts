// Names one a line, as people write them. A name may have commas, and spaces at its ends.

/** A line that begins so is a name as JSON. */
const QUOTE = '"';
/** Names that a line can't have as they are. */
const NEEDS_JSON = /^\s|\s$|^"|[\r\n\u0085\u2028\u2029]/;

export const nameLines = (names: readonly string[] = []): string =>
  names.map((name) => (NEEDS_JSON.test(name) ? JSON.stringify(name) : name)).join('\n');

/** Empty lines are none. @throws Error for a line that begins as JSON, and is no text */
export const namesIn = (lines: string): string[] =>
  lines
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => (line.startsWith(QUOTE) ? fromJson(line) : line));

function fromJson(line: string): string {
  try {
    const name = JSON.parse(line) as unknown;
    if (typeof name === 'string') return name;
  } catch {
    // Told below.
  }
  throw new Error(`${line} begins with a quotation mark, and is no text as JSON has it: "a \\"quoted\\" name".`);
}
