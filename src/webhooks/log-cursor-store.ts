import type { Logger } from '../core/logger.js';
import { READ_BYTES } from '../core/reads.js';
import { readBelow } from '../log/journal/known-end.js';
import { Retries } from '../log/journal/retry.js';
import { appendsOf, type Log, type NewRecord, type PartitionRef } from '../log/log.js';
import type { CursorStore, DeadLetter, EndpointCheckpoint } from './cursor-store.js';
import { systemTimers, type Timers } from '../feed/timers.js';

const TOPIC = 'statefold.cursors';
const PARTITION: PartitionRef = { topic: TOPIC, partition: 0 };
/** Saves of this long go into one append: a cursor is worth no fsync of its own. */
const GATHER_MS = 250;

/** A checkpoint as it lies in the log, where it keeps the words of the first release: `through` is inclusive. */
interface StoredCheckpoint {
  readonly through: number;
  readonly pending: EndpointCheckpoint['pending'];
  readonly parked: readonly (Omit<DeadLetter, 'position'> & { readonly sequence: number })[];
}

const storedOf = ({ end, pending, deadLetters }: EndpointCheckpoint): StoredCheckpoint => ({
  through: end - 1,
  pending,
  parked: deadLetters.map(({ position, ...letter }) => ({ sequence: position, ...letter })),
});

const checkpointOf = ({ through, pending, parked }: StoredCheckpoint): EndpointCheckpoint => ({
  end: through + 1,
  pending,
  deadLetters: parked.map(({ sequence, ...letter }) => ({ position: sequence, ...letter })),
});

/** Cursors as the last record of each id in the topic `statefold.cursors`; values are JSON, a tombstone deletes. */
export class LogCursorStore implements CursorStore {
  readonly #checkpoints = new Map<string, EndpointCheckpoint>();
  readonly #dirty = new Set<string>();
  #writing: Promise<void> | undefined;
  #reading: Promise<void> | undefined;
  readonly #retries: Retries;
  #position = 0;
  #cancel: (() => void) | undefined;
  #closed = false;

  private constructor(
    private readonly log: Log,
    private readonly logger: Logger,
    private readonly timers: Timers,
  ) {
    this.#retries = new Retries(logger, { partition: PARTITION });
  }

  /** Creates the topic where it is missing and reads all of it. */
  static async open(log: Log, logger: Logger, timers: Timers = systemTimers): Promise<LogCursorStore> {
    const store = new LogCursorStore(log, logger, timers);
    await log.ensureTopics([{ topic: TOPIC, partitions: 1, cleanup: { policy: 'latest' } }]);
    store.#position = await log.startOffset(PARTITION);
    await store.caughtUp();
    return store;
  }

  /** Calls that come while a reading is under way wait for one that begins after them. */
  async caughtUp(): Promise<void> {
    await this.#reading?.catch(() => undefined);
    this.#reading ??= this.#readToEnd().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #readToEnd(): Promise<void> {
    const end = await this.log.endOffset(PARTITION);
    while (this.#position < end) {
      const { records, next } = await readBelow(this.log, PARTITION, this.#position, end, READ_BYTES);
      for (const { key, value } of records) this.#restore(key.toString('utf8'), value);
      this.#position = next;
    }
  }

  load(id: string): EndpointCheckpoint | undefined {
    return this.#checkpoints.get(id);
  }

  save(id: string, checkpoint: EndpointCheckpoint): void {
    this.#checkpoints.set(id, checkpoint);
    this.#touch(id);
  }

  delete(id: string): void {
    if (this.#checkpoints.delete(id)) this.#touch(id);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel?.();
    await this.#writing;
    await this.#write();
    if (this.#dirty.size > 0)
      this.logger.warn(
        { endpoints: this.#dirty.size },
        'webhook cursors were not saved: some deliveries will be repeated',
      );
  }

  #restore(id: string, value: Buffer | null): void {
    if (this.#dirty.has(id)) return; // ours is newer
    if (value === null) this.#checkpoints.delete(id);
    else this.#checkpoints.set(id, checkpointOf(JSON.parse(value.toString('utf8')) as StoredCheckpoint));
  }

  #touch(id: string): void {
    this.#dirty.add(id);
    if (this.#writing === undefined && !this.#closed)
      this.#cancel ??= this.timers.after(GATHER_MS, () => this.#flush());
  }

  #flush(): void {
    this.#cancel = undefined;
    this.#writing = this.#write().then((written) => {
      this.#writing = undefined;
      if (this.#dirty.size > 0 && !this.#closed)
        this.#cancel = this.timers.after(written ? GATHER_MS : Math.max(GATHER_MS, this.#retries.delay), () =>
          this.#flush(),
        );
    });
  }

  /** Appends all that changed. A late copy of an older one only makes deliveries repeat. */
  async #write(): Promise<boolean> {
    if (this.#dirty.size === 0) return true;
    const ids = [...this.#dirty];
    this.#dirty.clear();
    const records = ids.map((id): NewRecord => {
      const checkpoint = this.#checkpoints.get(id);
      return {
        key: Buffer.from(id),
        value: checkpoint === undefined ? null : Buffer.from(JSON.stringify(storedOf(checkpoint))),
      };
    });
    let failure: unknown;
    for (const part of appendsOf(records, this.log.maxAppendBytes))
      try {
        await this.log.append(PARTITION, part);
      } catch (error) {
        failure = error;
        for (const { key } of part) this.#dirty.add(key.toString('utf8'));
      }
    if (failure === undefined) this.#retries.worked('webhook cursors are saved again');
    else this.#retries.failed(failure, 'webhook cursors could not be saved; trying again');
    return failure === undefined;
  }
}
