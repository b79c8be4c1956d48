import type { Readable, Writable } from 'node:stream';

/** What a command may touch of the process that it runs in. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable;
}

/** A reason that the user can act on: shown as one sentence, without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

/** Columns under headings; an empty list is one line that says so. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], empty: string): string {
  if (rows.length === 0) return `${empty}\n`;
  const widths = headings.map((heading, i) => Math.max(heading.length, ...rows.map((row) => row[i]?.length ?? 0)));
  return [headings, ...rows].map((row) => `${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ').trimEnd()}\n`).join('');
}
