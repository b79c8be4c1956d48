import type { Logger } from '../core/logger.js';
import { READ_BYTES } from '../core/reads.js';
import { follow } from '../log/journal/follow.js';
import { readBelow } from '../log/journal/known-end.js';
import { appendsOf, PRODUCE_BYTES, type Log, type LogRecord, type PartitionRef } from '../log/log.js';

const ACTIVITY_TOPIC = 'statefold.activity';
const PARTITION: PartitionRef = { topic: ACTIVITY_TOPIC, partition: 0 };
const RETENTION_MS = 600_000;
/** An active tenant is noted again after so long; one that was not noted for twice that is taken for idle. */
const REPEAT_MS = 120_000;

/** `wanted`: its owner is to keep it active, as another process waits for its changes. */
export type Note = 'active' | 'idle' | 'wanted';

export interface ActivityOptions {
  readonly log: Log;
  readonly logger: Logger;
}

/** Notes of what is active in the cluster, as those take them who only write some, or look. */
export interface ActivityNotes {
  note(slotKey: string, note: Note): void;
  /** Slot keys of what is active somewhere, as far as is known. */
  keys(): readonly string[];
  /** Whether it is among the keys. */
  has(slotKey: string): boolean;
}

/** Of a process that shares its log with no other. */
export const NO_ACTIVITY: ActivityNotes = { note: () => undefined, keys: () => [], has: () => false };

/** What this process notes again and again, and who is told of the others' notes. */
export interface ActivityFollowing {
  /** What is active in this process, by slot keys. */
  readonly active: { readonly activeKeys: readonly string[] };
  /** Tenants of other processes whose changes are awaited here. */
  readonly notified: { readonly wanted: readonly string[] };
  /** A tenant became active somewhere, or is wanted (still). */
  readonly listener: { consider(slotKey: string): void };
}

/**
 * Which tenants are active in the cluster: each process notes its own in `statefold.activity` and follows the others' notes.
 * A hint: who takes over a slot opens these tenants without waiting for their next request, and standbys are kept of them.
 */
export class Activity implements ActivityNotes {
  readonly #options: ActivityOptions;
  readonly #noted = new Map<string, number>();
  readonly #pending = new Map<string, Note>();
  #position: number;
  #following: ActivityFollowing | undefined;
  #repeater: NodeJS.Timeout | undefined;
  #writing = false;
  #closed = false;

  private constructor(options: ActivityOptions, position: number) {
    this.#options = options;
    this.#position = position;
  }

  /** Reads what was noted. */
  static async open(options: ActivityOptions): Promise<Activity> {
    await options.log.ensureTopics([
      { topic: ACTIVITY_TOPIC, partitions: 1, cleanup: { policy: 'delete', retentionMs: RETENTION_MS } },
    ]);
    const activity = new Activity(options, await options.log.startOffset(PARTITION));
    const end = await options.log.endOffset(PARTITION);
    while (activity.#position < end) {
      const { records, next } = await readBelow(options.log, PARTITION, activity.#position, end, READ_BYTES);
      activity.#take(records);
      activity.#position = next;
    }
    return activity;
  }

  /** From now on what others note is told, and what is active or wanted here is noted again and again. */
  follow(following: ActivityFollowing): void {
    this.#following = following;
    this.#repeater = setInterval(() => {
      // A process that is gone notes nothing as idle.
      for (const [slotKey, at] of this.#noted) if (!isActive(at)) this.#noted.delete(slotKey);
      for (const slotKey of following.notified.wanted) this.note(slotKey, 'wanted');
      for (const slotKey of following.active.activeKeys) this.note(slotKey, 'active');
    }, REPEAT_MS).unref();
    void this.#follow();
  }

  keys(): readonly string[] {
    return [...this.#noted].filter(([, at]) => isActive(at)).map(([slotKey]) => slotKey);
  }

  has(slotKey: string): boolean {
    const at = this.#noted.get(slotKey);
    return at !== undefined && isActive(at);
  }

  /** Gathered; lost when the log takes no writes, until it is noted again. */
  note(slotKey: string, note: Note): void {
    this.#pending.set(slotKey, note);
    if (!this.#writing && !this.#closed) void this.#write();
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#repeater);
  }

  async #write(): Promise<void> {
    this.#writing = true;
    try {
      while (this.#pending.size > 0 && !this.#closed) {
        const notes = [...this.#pending].map(([key, note]) => ({ key: Buffer.from(key), value: Buffer.from(note) }));
        this.#pending.clear();
        for (const part of appendsOf(notes, PRODUCE_BYTES)) await this.#options.log.append(PARTITION, part);
      }
    } catch (error) {
      this.#options.logger.debug({ err: error }, 'activity could not be noted');
    } finally {
      this.#writing = false;
    }
  }

  #follow(): Promise<void> {
    const { log, logger } = this.#options;
    return follow({
      ref: PARTITION,
      logger,
      read: async (waitMs) => (await log.read(PARTITION, this.#position, READ_BYTES, waitMs)).records,
      take: (records) => this.#take(records),
      follows: () => !this.#closed,
      messages: {
        away: 'the notes of activity could not be read; trying again',
        back: 'the notes of activity are read again',
      },
    });
  }

  #take(records: readonly LogRecord[]): void {
    for (const { key, value, timestamp, offset } of records) {
      this.#position = offset + 1;
      const slotKey = key.toString();
      const note = value?.toString();
      if (note !== 'active' && note !== 'wanted') {
        this.#noted.delete(slotKey);
        continue;
      }
      const known = note === 'active' && this.#noted.has(slotKey);
      this.#noted.set(slotKey, timestamp);
      if (!known && isActive(timestamp)) this.#following?.listener.consider(slotKey);
    }
  }
}

/** Of what was noted at that time, nothing since. */
const isActive = (notedAt: number): boolean => notedAt >= Date.now() - 2 * REPEAT_MS;
