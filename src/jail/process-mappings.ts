import { type FileHandle, open } from 'node:fs/promises';
import type { ProcessUsage } from './process-usage.js';

/** What a process has mapped, as far as it was read. */
export interface Mappings {
  /** Mapped as shared, taken or not: no limit of the kernel counts it, and what is taken of it stays so when it is not resident any more. */
  readonly sharedBytes: number;
  /** There are more than it may have; those past them were not read. */
  readonly tooMany: boolean;
}

/** A runtime with its assemblies has several hundred, and each thread two or three. */
export const MAX_MAPPINGS = 16_384;
/** The kernel gives a page of lines a read, however much is asked for. */
const READ_BYTES = 16 * 1024;
const SHARED_MEMORY = /^([0-9a-f]+)-([0-9a-f]+) [-r][-w][-x]s \S+ \S+ \S+ +\/(?:dev\/zero|dev\/shm|memfd|SYSV)/;

/**
 * Reads them beside the event loop, a page a turn: the code of the process decides how many there are, and how long the kernel waits
 * for them. undefined where they may not be read. Costs the loop some 10 µs a page of 40.
 */
export async function mappingsOf(pid: number, most = MAX_MAPPINGS): Promise<Mappings | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(`/proc/${pid}/maps`);
    const page = Buffer.allocUnsafe(READ_BYTES);
    let [sharedBytes, count, rest] = [0, 0, ''];
    for (;;) {
      const { bytesRead } = await file.read(page, 0, page.length, null);
      if (bytesRead === 0) return { sharedBytes, tooMany: false };
      const lines = (rest + page.toString('latin1', 0, bytesRead)).split('\n');
      rest = lines.pop() ?? '';
      count += lines.length;
      if (count > most) return { sharedBytes, tooMany: true };
      for (const line of lines) {
        const [, from, to] = SHARED_MEMORY.exec(line) ?? [];
        if (from !== undefined && to !== undefined) sharedBytes += parseInt(to, 16) - parseInt(from, 16);
      }
    }
  } catch {
    return undefined;
  } finally {
    await file?.close();
  }
}

/** One at a time of all processes: who keeps the kernel busy with its mappings has one thread of this process wait, and no more. */
let scans: Promise<unknown> = Promise.resolve();

/** What one process has mapped, looked for when that is more than before, or after a while. */
export class MappedMemory {
  #addressBytes = 0;
  #at = -Infinity;
  #found: Mappings = { sharedBytes: 0, tooMany: false };
  #looking = false;

  /** Whether it had more mappings than it may have when they were looked at last. */
  get tooMany(): boolean {
    return this.#found.tooMany;
  }

  /** Has it looked for where that is due; what is found counts from the next time on. */
  look(pid: number, { addressBytes }: ProcessUsage, now: number): void {
    if (this.#looking || (addressBytes < this.#addressBytes + NOTED_BYTES && now < this.#at + LOOK_AGAIN_MS)) return;
    this.#addressBytes = addressBytes;
    this.#at = now;
    this.#looking = true;
    scans = scans.then(async () => {
      this.#found = (await mappingsOf(pid)) ?? this.#found;
      this.#looking = false;
    });
  }

  /** Bytes that are mapped as shared and not resident; of which the honest are an assembly's. */
  hiddenBytes({ sharedResidentBytes }: ProcessUsage): number {
    return Math.max(0, this.#found.sharedBytes - sharedResidentBytes);
  }
}

const NOTED_BYTES = 32 * 1024 * 1024;
const LOOK_AGAIN_MS = 5000;
