import type { Readable, Writable } from 'node:stream';
import type { CodeHost } from '../code-host/code-host.js';
import type { ReplicationState } from '../log/replication.js';

/** What a command may touch of the process that it runs in. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable;
  /** Absent where only commands to a running service are needed. */
  readonly tools?: ProjectTools;
  /** The topics on Kafka; absent where only commands to a running service are needed. @throws CliError when the log is not on Kafka */
  readonly openTopics?: () => Promise<TopicTools>;
  /** The data directory; absent where only commands to a running service are needed. */
  readonly backups?: BackupTools;
  /** Starts the service in this process, and resolves when it runs; absent where only the program itself can. */
  readonly serve?: (options: ServeOptions) => Promise<void>;
}

/** The topics on Kafka, as the settings of this environment reach them: without the service. */
export interface TopicTools {
  look(): Promise<ReplicationState>;
  /** Adds the copies that are missing. Tells how many partitions have all of theirs, of those that lacked some. */
  raise(progress: (progress: { readonly done: number; readonly total: number }) => void): Promise<ReplicationState>;
  close(): Promise<void>;
}

/** What a backup holds. */
export interface BackupSummary {
  readonly folder: string;
  /** ISO 8601: all that was acknowledged before is in it. */
  readonly takenAt: string;
  readonly bytes: number;
  /** False: a setting gave the service its master key. */
  readonly hasMasterKey: boolean;
  /** Why the data directory does not tell when it was taken, where it could not be noted there. */
  readonly notNoted?: string;
}

/** Of the data directory that the settings of this environment name. @throws CliError saying what to do */
export interface BackupTools {
  backUp(folder: string): Promise<BackupSummary>;
  restore(folder: string): Promise<BackupSummary & { readonly dataDirectory: string }>;
}

export interface ServeOptions {
  /** Uploaded code runs without a jail. */
  readonly unsafeNoSandbox?: true;
}

/** What commands on a project of one's own need besides: what the service compiles and runs it with, without the service. */
export interface ProjectTools {
  /** A compiler and runners of its own; to be closed. @throws CliError when there is no .NET */
  openCodeHost(): { readonly host: CodeHost; readonly close: () => Promise<void> };
  /** Puts the packages that projects refer to into a folder. @throws CliError when they are not built */
  copyPackages(folder: string): void;
  readonly templateDirectory: string;
  /** Of this program, and of the package. */
  readonly version: string;
}

/** Exit codes. `docs/reference/cli.md` has the same table; a test compares the two. */
export const EXIT_CODES = [
  [0, 'It is done, or it was so already.'],
  [
    1,
    'It is not done, and standard error says why: the command line is wrong, the service refuses it or is not there, nobody confirmed it. `test`: a fixture failed. `deploy`: the plan has something against it. `verify`: something differs. `topics check`: a topic lacks copies, drops what is to be kept, or compresses it. `webhooks test`: the message was not delivered. `event-types check`: stored events do not fit.',
  ],
  [
    2,
    '`test` and `deploy`: the project does not compile. `verify`: nothing differs, and not all could be compared: an aggregate or key is not there, or time was over. `event-types check`: those that were looked at fit, and there was no time for all.',
  ],
  [130, 'It was interrupted by Ctrl-C at a question.'],
] as const satisfies readonly (readonly [code: number, meaning: string])[];

export const FAILED = 1;
/** `test`, `deploy`. */
export const NOT_COMPILED = 2;
/** `verify`. */
export const NOT_ALL_COMPARED = 2;
export const INTERRUPTED = 130;

/** A reason that the user can act on: shown as one sentence, without a stack. */
export class CliError extends Error {
  override readonly name: string = 'CliError';
}

/** The service can't be reached, or can't answer now: asked again later it may. */
export class AwayError extends CliError {
  override readonly name = 'AwayError';
}

/** The service refused a request: asked again it would refuse it again. */
export class CommandRefusedError extends CliError {
  override readonly name = 'CommandRefusedError';
  /** Of the problem document. */
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
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

/** Control characters, ends of lines among them, and marks that turn the direction of what stands beside them. */
// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** A text that anybody may have chosen, as one line: a terminal would do what it says, and a line in it would pass for one of ours. */
export const printable = (text: string): string =>
  text.replaceAll(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Columns under headings; an empty list is one line that says so. */
export function table(headings: readonly string[], given: readonly (readonly string[])[], empty: string): string {
  if (given.length === 0) return `${empty}\n`;
  const rows = given.map((row) => row.map(printable));
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

export const notConfirmed = (): CliError => new CliError('It was not confirmed: nothing was changed.');
