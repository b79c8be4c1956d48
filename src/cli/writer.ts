import { open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { CliError } from './io.js';

/** Where a command writes more than fits into memory. */
export interface Writer {
  /** Resolves when more may be written. @throws UnwritableError */
  write(bytes: Buffer): Promise<void>;
  /** @throws UnwritableError when what was written is not on the disk */
  close(): Promise<void>;
}

/** The disk is full, say, or the reader has gone: what was to be written is not, or not whole. */
export class UnwritableError extends CliError {
  override readonly name = 'UnwritableError';
}

export const unwritableOutput = ({ message }: Error): UnwritableError =>
  new UnwritableError(`The output can't be written: ${message}.`);

/** Writes behind what the file has, which is made where it is not there. @throws UnwritableError */
export async function fileWriter(file: string): Promise<Writer> {
  const unwritable = ({ message }: Error): never => {
    throw new UnwritableError(`${file} can't be written: ${message}.`);
  };
  const opened = await open(file, 'a').catch(unwritable);
  return {
    write: (bytes) => opened.appendFile(bytes).catch(unwritable),
    close: () => opened.close().catch(unwritable),
  };
}

/** Writes to the stream, which stays open; who made it listens to its errors. */
export function streamWriter(stream: Writable): Writer {
  return {
    write: (bytes) =>
      new Promise((resolve, reject) => {
        stream.write(bytes, (error) => {
          if (error) reject(unwritableOutput(error));
          else resolve();
        });
      }),
    close: () => Promise.resolve(),
  };
}
