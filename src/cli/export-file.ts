import {
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  statSync,
  truncateSync,
} from 'node:fs';
import type { Readable } from 'node:stream';
import { CliError, CommandRefusedError } from './io.js';
import type { Fields, Server } from './server.js';

const LF = 0x0a;
/** With which each line begins. */
const BEGINNING = '{"specversion":"1.0","source":"';
const POSITION = /^\{"specversion":"1\.0","source":"[^"]*","position":"(\d{1,16})"/;
/** Of the head of a line, in which its position is. */
const HEAD_BYTES = 512;
const TAIL_BYTES = 64 * 1024;

/** @throws CliError where the line is not one of an export */
export function positionOf(line: Buffer): number {
  const [, position] = POSITION.exec(line.toString('utf8', 0, HEAD_BYTES)) ?? [];
  if (position === undefined)
    throw new CliError('A line is not one that `statefold export` wrote: it has no position.');
  return Number(position);
}

/** A file from its beginning. @throws CliError */
export function fileStream(file: string): Readable {
  if (!existsSync(file)) throw new CliError(`There is no file ${file}.`);
  return createReadStream(file, { fd: opened(file, 'r') });
}

/** Cuts off what was torn at the end. @throws CliError where the file is none of an export: then it stays as it is */
export function cutTorn(file: string): void {
  const descriptor = opened(file, 'r+');
  try {
    const { size } = fstatSync(descriptor);
    const whole = before(descriptor, size);
    const [last] = linesBefore(descriptor, whole);
    if (last !== undefined) positionOf(last);
    const torn = read(descriptor, whole, Math.min(size, whole + BEGINNING.length)).toString();
    if (!BEGINNING.startsWith(torn))
      throw new CliError(
        `${file} is not one that \`statefold export\` wrote, and stays as it is: export into another file.`,
      );
    if (whole < size) truncateSync(file, whole);
  } finally {
    closeSync(descriptor);
  }
}

/** The position behind which its last whole line stands; 0 where it has none. @throws CliError */
export function lastPosition(file: string): number {
  const descriptor = opened(file, 'r');
  try {
    const [last] = linesBefore(descriptor, before(descriptor, fstatSync(descriptor).size));
    return last === undefined ? 0 : positionOf(last);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * The position behind which an export into the file goes on: of its last event that the tenant has, where it has not erased those behind
 * that; behind the last one where all are erased. A position is one of another tenant's, and of a service that was restored, too. 0: there
 * is none. @throws CliError
 */
export async function goesOnBehind(server: Server, file: string): Promise<number> {
  const descriptor = opened(file, 'r');
  const erased = new Map<string, boolean>();
  let last: number | undefined;
  try {
    for (const line of linesBefore(descriptor, before(descriptor, fstatSync(descriptor).size))) {
      const position = positionOf(line);
      last ??= position;
      const { id, subject } = eventOf(line);
      if (await isThere(server, position, id)) return position;
      if (!erased.has(subject)) erased.set(subject, await isErased(server, subject));
      if (erased.get(subject) !== true)
        throw new CliError(
          `${file} ends with the event ${id} at position ${position}, which the tenant at ${server.url} does not have there: it is of another tenant, or of what the service was before it was restored. Export into another file.`,
        );
    }
    return last ?? 0;
  } finally {
    closeSync(descriptor);
  }
}

function eventOf(line: Buffer): { readonly id: string; readonly subject: string } {
  try {
    return JSON.parse(line.toString()) as { readonly id: string; readonly subject: string };
  } catch {
    throw new CliError(`The line of position ${positionOf(line)} is damaged: it is no JSON. Export into another file.`);
  }
}

async function isThere(server: Server, position: number, eventId: string): Promise<boolean> {
  const { events } = (await server.tenant('GET', `/feed?after=${position - 1}&limit=1`)) as {
    readonly events: readonly Fields[];
  };
  const [found] = events;
  return found?.['position'] === position && found['eventId'] === eventId;
}

async function isErased(server: Server, aggregateId: string): Promise<boolean> {
  try {
    await server.tenant('GET', `/events/${encodeURIComponent(aggregateId)}?limit=1`);
    return false;
  } catch (error) {
    if (!(error instanceof CommandRefusedError)) throw error;
    return error.code === 'GONE';
  }
}

/** Whole lines that are not empty, the last first. */
function* linesBefore(descriptor: number, end: number): Generator<Buffer> {
  for (let to = end; to > 0;) {
    const from = before(descriptor, to - 1);
    // Those that keep a stream alive are empty.
    if (to - from > 1) yield read(descriptor, from, to - 1);
    to = from;
  }
}

/** Behind the last line feed before `end`; 0 where there is none. */
function before(descriptor: number, end: number): number {
  for (let to = end; to > 0;) {
    const from = Math.max(0, to - TAIL_BYTES);
    const at = read(descriptor, from, to).lastIndexOf(LF);
    if (at >= 0) return from + at + 1;
    to = from;
  }
  return 0;
}

function read(descriptor: number, from: number, to: number): Buffer {
  const bytes = Buffer.alloc(to - from);
  return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, from));
}

function opened(file: string, flags: 'r' | 'r+'): number {
  try {
    if (!statSync(file).isDirectory()) return openSync(file, flags);
  } catch (error) {
    throw new CliError(`${file} can't be ${flags === 'r' ? 'read' : 'written'}: ${(error as Error).message}.`);
  }
  throw new CliError(`${file} is a folder: name a file.`);
}
