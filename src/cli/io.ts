import type { Readable, Writable } from 'node:stream';
import type { CodeHost } from '../code-host/code-host.js';

/** What a command may touch of the process that it runs in. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable;
  /** Absent where only commands to a running service are needed. */
  readonly tools?: ProjectTools;
  /** Starts the service in this process, and resolves when it runs; absent where only the program itself can. */
  readonly serve?: (options: ServeOptions) => Promise<void>;
}

export interface ServeOptions {
  /** Uploaded code runs without a jail. */
  readonly unsafeNoSandbox?: true;
}

/** What commands on a project of one's own need besides: what the service compiles and runs it with, without the service. */
export interface ProjectTools {
  /** A compiler and runners of its own; to be closed. @throws CliError when there is no .NET */
  openCodeHost(): { readonly host: CodeHost; readonly close: () => Promise<void> };
  /** Puts the package that projects refer to into a folder, and tells its version. @throws CliError */
  packAbstractions(folder: string): Promise<void>;
  readonly templateDirectory: string;
  /** Of this program, and of the package. */
  readonly version: string;
}

/** A reason that the user can act on: shown as one sentence, without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError';
}

/** Ends a command that has said all there is to say. */
export class CliExit extends Error {
  override readonly name = 'CliExit';
  readonly code: number;

  constructor(code: number) {
    super(`exit code ${code}`);
    this.code = code;
  }
}

/** Columns under headings; an empty list is one line that says so. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], empty: string): string {
  if (rows.length === 0) return `${empty}\n`;
  const widths = headings.map((heading, i) => Math.max(heading.length, ...rows.map((row) => row[i]?.length ?? 0)));
  return [headings, ...rows]
    .map(
      (row) =>
        `${row
          .map((cell, i) => cell.padEnd(widths[i] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
