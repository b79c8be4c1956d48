import { exactText } from '../../core/exact-json.js';

/** Of the value that parseExactly gave, with the members of objects in the order of their names: equal texts are equal values. */
export const canonicalLines = (value: unknown): string[] => exactText(sorted(value), 2).split('\n');

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
}

export interface DiffLine {
  readonly kind: 'same' | 'expected' | 'actual';
  readonly text: string;
}

/** Past it the middle is told as replaced as a whole. */
const MAX_CELLS = 4_000_000;

/** Lines of both, in order: the longest common subsequence stays. */
export function diffLines(expected: readonly string[], actual: readonly string[]): DiffLine[] {
  let start = 0;
  while (start < expected.length && start < actual.length && expected[start] === actual[start]) start++;
  let end = 0;
  while (end < expected.length - start && end < actual.length - start && expected.at(-1 - end) === actual.at(-1 - end))
    end++;
  const same = (texts: readonly string[]): DiffLine[] => texts.map((text) => ({ kind: 'same', text }));
  const middle = diffMiddle(expected.slice(start, expected.length - end), actual.slice(start, actual.length - end));
  return [...same(expected.slice(0, start)), ...middle, ...same(expected.slice(expected.length - end))];
}

function diffMiddle(expected: readonly string[], actual: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  if (expected.length * actual.length <= MAX_CELLS) {
    const width = actual.length + 1;
    const longest = new Uint32Array((expected.length + 1) * width);
    const at = (row: number, column: number): number => longest[row * width + column] ?? 0;
    for (let row = expected.length - 1; row >= 0; row--)
      for (let column = actual.length - 1; column >= 0; column--)
        longest[row * width + column] =
          expected[row] === actual[column]
            ? at(row + 1, column + 1) + 1
            : Math.max(at(row + 1, column), at(row, column + 1));
    while (i < expected.length && j < actual.length) {
      if (expected[i] === actual[j]) {
        lines.push({ kind: 'same', text: expected[i++] ?? '' });
        j++;
      } else if (at(i + 1, j) >= at(i, j + 1)) lines.push({ kind: 'expected', text: expected[i++] ?? '' });
      else lines.push({ kind: 'actual', text: actual[j++] ?? '' });
    }
  }
  for (const text of expected.slice(i)) lines.push({ kind: 'expected', text });
  for (const text of actual.slice(j)) lines.push({ kind: 'actual', text });
  return lines;
}
