import type { Diagnostic } from '../../code-host/code-host.js';
import type { ProjectFile } from '../../fixtures/fixtures.js';
import type { Style } from './style.js';

/** Tabs would shift the caret. */
const untabbed = (line: string): string => line.replaceAll('\t', ' ');

/**
 * As a compiler prints it, with the line of the source and a caret under the place:
 *
 *     Orders.cs(4,7): error CS0103: The name 'y' does not exist in the current context
 *         4 |   x = y;
 *           |       ^
 */
function formatDiagnostic(
  { severity, code, message, file, line, column }: Diagnostic,
  sources: readonly ProjectFile[],
  style: Style,
): string {
  const place =
    file === null ? '' : line === null ? `${file}: ` : `${file}(${line}${column === null ? '' : `,${column}`}): `;
  const paint = severity === 'error' ? style.red : style.yellow;
  const head = `${style.bold(place)}${paint(`${severity} ${code}`)}: ${message}\n`;
  const text = lineOf(sources, file, line);
  if (text === undefined || column === null || line === null) return head;
  const number = String(line).padStart(5);
  return `${head}${style.dim(`${number} |`)} ${untabbed(text)}\n${style.dim(`${' '.repeat(number.length)} |`)} ${' '.repeat(column - 1)}${paint('^')}\n`;
}

/** A line of a source, without its end; undefined: there is none. */
export const lineOf = (
  sources: readonly ProjectFile[],
  file: string | null,
  line: number | null,
): string | undefined =>
  file === null || line === null
    ? undefined
    : sources.find(({ path }) => path === file)?.text.split(/\r\n|\r|\n/)[line - 1];

/** Errors first, then how many there are of each. */
export function formatDiagnostics(
  diagnostics: readonly Diagnostic[],
  sources: readonly ProjectFile[],
  style: Style,
): string {
  if (diagnostics.length === 0) return '';
  const of = (severity: Diagnostic['severity']): Diagnostic[] => diagnostics.filter((one) => one.severity === severity);
  const [errors, warnings] = [of('error'), of('warning')];
  const counts = [
    errors.length > 0 ? plural(errors.length, 'error') : '',
    warnings.length > 0 ? plural(warnings.length, 'warning') : '',
  ].filter((part) => part !== '');
  return `${[...errors, ...warnings].map((one) => formatDiagnostic(one, sources, style)).join('')}${counts.join(', ')}\n`;
}

export const plural = (count: number, noun: string): string =>
  `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
