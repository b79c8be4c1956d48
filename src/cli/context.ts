import { confirm } from './ask.js';
import { notConfirmed, type CliIo } from './io.js';
import type { Server } from './server.js';

/** What every command is given. */
export interface CommandContext {
  readonly io: CliIo;
  readonly server: () => Server;
  /** Writes an answer as JSON, or as these lines. */
  readonly show: (answer: unknown, lines: () => string) => void;
  /** The answer is to be JSON. */
  readonly json: () => boolean;
  /** Lines that can be pasted: every other command, and the pages of the docs, read these variables. */
  readonly exported: (apiKey: string) => string;
}

/** A member as text; nothing where it is none. */
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** @throws CliError where a destructive command is not confirmed */
export async function requireConfirmed(io: CliIo, yes: true | undefined, what: string): Promise<void> {
  if (yes !== true && !(await confirm(`${what} Go on?`, io, what))) throw notConfirmed();
}
