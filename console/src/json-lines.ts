/** A line of JSON as it is shown, with the path of the value that begins in it. */
export interface JsonLine {
  readonly text: string;
  readonly indent: number;
  readonly path: string;
}

/** The lines that `JSON.stringify(value, null, 2)` has, each with its path (a JSON Pointer; that of a closing bracket ends in `$`). */
export function jsonLines(value: unknown, path = '', indent = 0, name = '', comma = ''): JsonLine[] {
  const head = name === '' ? '' : `${JSON.stringify(name)}: `;
  if (typeof value !== 'object' || value === null)
    return [{ text: `${head}${JSON.stringify(value) ?? 'null'}${comma}`, indent, path }];
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [open, close] = isList ? '[]' : '{}';
  if (entries.length === 0) return [{ text: `${head}${open}${close}${comma}`, indent, path }];
  return [
    { text: `${head}${open}`, indent, path },
    ...entries.flatMap(([key, member], index) =>
      jsonLines(
        member,
        `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`,
        indent + 1,
        isList ? '' : key,
        index < entries.length - 1 ? ',' : '',
      ),
    ),
    { text: `${close}${comma}`, indent, path: `${path}/$` },
  ];
}

/** Paths of the lines that the other value hasn't, or has otherwise. A comma makes no difference. */
export function changedPaths(lines: readonly JsonLine[], others: readonly JsonLine[]): ReadonlySet<string> {
  const plain = ({ text }: JsonLine): string => text.replace(/,$/, '');
  const before = new Map(others.map((line) => [line.path, plain(line)]));
  return new Set(lines.filter((line) => before.get(line.path) !== plain(line)).map(({ path }) => path));
}
