import { Worker } from 'node:worker_threads';
import type { LocalStore } from '../store/local-store.js';
import type { StoredCheckpoint } from '../store/partition-tables.js';
import type { Manifest } from './snapshot-format.js';
import type { FromWorker, Job, Saved, ToWorker } from './section-worker.js';

export type { Saved } from './section-worker.js';

/** The snapshot is not what its manifest says: another one may be. */
export class DamagedSnapshotError extends Error {
  override readonly name = 'DamagedSnapshotError';
}

/** Sections of the local store as chunks of a snapshot, and back. */
export interface SectionArchive {
  /** All that the section holds on disk, as of one checkpoint; it may be written meanwhile. Ended by `return` of the chunks, at the latest. */
  save(
    section: string,
  ): Promise<{ readonly checkpoint: StoredCheckpoint; readonly chunks: AsyncGenerator<Buffer, Saved, void> }>;
  /**
   * Replaces a section that is not open by the snapshot's entries; chunks are in their order. After an error it is empty.
   * @throws DamagedSnapshotError; Error when the disk is full, or what `chunks` throws
   */
  load(section: string, manifest: Pick<Manifest, 'sha256'>, chunks: AsyncIterable<Buffer>): Promise<void>;
}

const AHEAD = 2;

/** In a thread of its own a job, which shares the environment with this one. */
export class ThreadedSectionArchive implements SectionArchive {
  readonly #store: LocalStore;

  constructor(store: LocalStore) {
    this.#store = store;
  }

  async save(section: string): ReturnType<SectionArchive['save']> {
    const thread = new Thread({ kind: 'save', path: this.#store.path, section });
    const chunks = async function* (): AsyncGenerator<Buffer, Saved, void> {
      try {
        for (;;) {
          const message = await thread.next();
          if (message.kind === 'saved') return message;
          if (message.kind !== 'chunk') throw new Error(`the thread says '${message.kind}'`);
          yield Buffer.from(message.value.buffer, message.value.byteOffset, message.value.byteLength);
          thread.tell({ kind: 'more' });
        }
      } finally {
        await thread.end();
      }
    };
    try {
      const begun = await thread.next();
      if (begun.kind !== 'begun') throw new Error(`the thread says '${begun.kind}'`);
      return { checkpoint: begun.checkpoint, chunks: chunks() };
    } catch (error) {
      await thread.end();
      throw error;
    }
  }

  async load(section: string, { sha256 }: Pick<Manifest, 'sha256'>, chunks: AsyncIterable<Buffer>): Promise<void> {
    const thread = new Thread({ kind: 'load', path: this.#store.path, section, sha256 });
    try {
      let ahead = 0;
      for await (const value of chunks) {
        if (ahead++ >= AHEAD) await thread.next();
        thread.tell({ kind: 'chunk', value });
      }
      thread.tell({ kind: 'end' });
      while ((await thread.next()).kind !== 'loaded');
    } finally {
      await thread.end();
      this.#store.refresh();
    }
  }
}

class Thread {
  readonly #worker: Worker;
  readonly #messages: FromWorker[] = [];
  readonly #exit: Promise<void>;
  #error: Error | undefined;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(job: Job) {
    this.#worker = new Worker(new URL('./section-worker.js', import.meta.url), { workerData: job });
    this.#worker.on('message', (message: FromWorker) => {
      this.#messages.push(message);
      this.#wake?.();
    });
    this.#worker.on('error', (error) => (this.#error = error));
    this.#exit = new Promise((resolve) => {
      this.#worker.on('exit', () => {
        this.#over = true;
        this.#wake?.();
        resolve();
      });
    });
  }

  tell(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  /** @throws Error what it failed with */
  async next(): Promise<FromWorker> {
    for (;;) {
      const message = this.#messages.shift();
      if (message?.kind === 'failed')
        throw message.damaged ? new DamagedSnapshotError(message.message) : new Error(message.message);
      if (message !== undefined) return message;
      if (this.#over) throw this.#error ?? new Error('the thread ended');
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Never terminated: the environment is shared, and must be left in order. */
  async end(): Promise<void> {
    this.tell({ kind: 'stop' });
    await this.#exit;
  }
}
