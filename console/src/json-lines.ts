import { isRawNumber } from './exact-json';

/** A line of JSON as it is shown, with the path of the value that begins in it. */
export interface JsonLine {
  readonly text: string;
  readonly indent: number;
  /** A JSON Pointer; that of a closing bracket has a second part. */
  readonly path: string;
}

/** Behind the path of a closing bracket: no JSON Pointer has it, since `~` is followed by a digit there. */
const CLOSING = '~';

/** The lines that `JSON.stringify(value, null, 2)` has, each with its path. */
export function jsonLines(value: unknown): readonly JsonLine[] {
  const lines: JsonLine[] = [];
  const write = (one: unknown, path: string, indent: number, head: string, comma: string): void => {
    if (typeof one !== 'object' || one === null || isRawNumber(one)) {
      lines.push({ text: `${head}${JSON.stringify(one) ?? 'null'}${comma}`, indent, path });
      return;
    }
    const isList = Array.isArray(one);
    const entries = Object.entries(one);
    const [open, close] = isList ? '[]' : '{}';
    if (entries.length === 0) {
      lines.push({ text: `${head}${open}${close}${comma}`, indent, path });
      return;
    }
    lines.push({ text: `${head}${open}`, indent, path });
    entries.forEach(([name, member], n) =>
      write(
        member,
        `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
        indent + 1,
        isList ? '' : `${JSON.stringify(name)}: `,
        n < entries.length - 1 ? ',' : '',
      ),
    );
    lines.push({ text: `${close}${comma}`, indent, path: path + CLOSING });
  };
  write(value, '', 0, '', '');
  return lines;
}

/** Paths of the lines that the other value hasn't, or has otherwise. A comma makes no difference. */
export function changedPaths(lines: readonly JsonLine[], others: readonly JsonLine[]): ReadonlySet<string> {
  const plain = ({ text }: JsonLine): string => (text.endsWith(',') ? text.slice(0, -1) : text);
  const before = new Map(others.map((line) => [line.path, plain(line)]));
  return new Set(lines.filter((line) => before.get(line.path) !== plain(line)).map(({ path }) => path));
}
