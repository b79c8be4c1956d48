import { InvariantError, StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { Codecs } from '../log/codec/codec.js';
import type { Log } from '../log/log.js';
import type { LocalStore } from '../store/local-store.js';
import { PartitionTables, recordsOf } from '../store/partition-tables.js';
import { storedAsOfSection, tenantOfKey } from '../core/slots.js';
import { eventsRef, snapshotsRef, snapshotsTopicSpec, tenantTopics } from '../log/topics.js';
import type { SectionArchive } from './section-archive.js';
import { SnapshotReader } from './snapshot-reader.js';
import { newestManifest } from './snapshot-topic.js';
import { writeSnapshot } from './snapshot-writer.js';

/** A task of a tenant, or of a further partition of one, as far as it matters here. */
export interface SnapshotTask {
  /** Its section of the local store, by which its topics are named too. */
  readonly section: string;
  /** Undefined while it is not the owner's: a standby writes no snapshots. */
  readonly foldedSoFar: FoldedSoFar | undefined;
}

export interface FoldedSoFar {
  /** Records of events and changes, from the start of the log. */
  readonly records: number;
  /** Bytes of events since the task was opened. */
  readonly bytes: number;
}

export interface SnapshotsOptions {
  readonly log: Log;
  readonly codecs: Codecs;
  readonly store: Pick<LocalStore, 'section' | 'isLoading' | 'drop'>;
  readonly archive: SectionArchive;
  readonly logger: Logger;
  readonly changesRetentionMs: number;
  /** Of how many partitions a tenant's events are; 1 unless given. */
  readonly partitionsOf?: (tenantId: string) => number;
  /** After so many records, or so many bytes of events, a snapshot is due. */
  readonly afterRecords: number;
  readonly afterBytes?: number;
  /** How often tasks are looked at, milliseconds. */
  readonly everyMs?: number;
  readonly observer?: {
    wrote?(bytes: number, seconds: number): void;
    failed?(): void;
    loaded?(entries: number, seconds: number): void;
  };
}

interface Watched {
  readonly task: SnapshotTask;
  /** How far the newest snapshot of the topic is; undefined: not looked up yet. */
  last: FoldedSoFar | undefined;
  /** Not before. */
  retryAt: number;
}

const AFTER_BYTES = 64 * 1024 * 1024;
const EVERY_MS = 1000;
const RETRY_MS = 60_000;
/** Of its time the writer rests so many times as long as it worked, so that at full load appends lose next to nothing. */
const RESTS = 9;
/** A section so little behind the log is not worth a look for snapshots. */
const NEAR_RECORDS = 100;

/**
 * Snapshots of the tenants of this process. They are written by the owner, one at a time, when the tail since the last has grown
 * past the limit and past half of what that one holds, so that all writing together stays a small multiple of the log; and are
 * loaded before a task is made, where the local store lacks what they have. None on a log that is on one machine.
 */
export class Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #reader: SnapshotReader;
  readonly #watched = new Map<string, Watched>();
  /** Sections whose snapshots could not be read the last time: the log has why, once. */
  readonly #unreadable = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #writing: { readonly section: string; stopped: boolean; readonly done: Promise<void> } | undefined;
  #restsUntil = 0;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#reader = new SnapshotReader(options);
    this.#timer = setInterval(() => this.#look(), options.everyMs ?? EVERY_MS).unref();
  }

  /**
   * Fills the tenant's section of the local store when a snapshot spares the fold of much; call it before its task is made.
   * @throws StatefoldError UNAVAILABLE when the section can not be used
   */
  async restore(section: string): Promise<void> {
    const { store, logger } = this.#options;
    try {
      if (store.isLoading(section)) await store.drop(section);
      await this.#restore(section);
      this.#unreadable.delete(section);
    } catch (error) {
      if (store.isLoading(section))
        throw new StatefoldError('UNAVAILABLE', 'the tenant could not be restored; send the request again', {
          cause: error,
        });
      // Whether the log can be read, the task itself finds out: it folds all of it. It tells what the log has lost, too.
      if (error instanceof InvariantError || this.#unreadable.has(section)) return;
      this.#unreadable.add(section);
      logger.warn({ err: error, section }, 'snapshots of a tenant could not be read: it is folded from the log');
    }
  }

  async #restore(section: string): Promise<void> {
    const { log, store, logger, changesRetentionMs, observer } = this.#options;
    await log.ensureTopics(tenantTopics(storedAsOfSection(section), changesRetentionMs, this.#partitionsOf(section)));
    const local = new PartitionTables(store.section(section)).checkpoint();
    const end = await log.endOffset(eventsRef(section));
    if (end - (local?.events.position ?? 0) < NEAR_RECORDS) return;
    const started = performance.now();
    await log.ensureTopics([snapshotsTopicSpec(storedAsOfSection(section), this.#partitionsOf(section))]);
    const manifest = await this.#reader.restore(section, local);
    if (manifest === undefined) return;
    const seconds = (performance.now() - started) / 1000;
    const { checkpoint, entries } = manifest;
    observer?.loaded?.(entries, seconds);
    logger.info(
      { section, entries, seconds, position: checkpoint.events.position, end },
      'a tenant was restored from its snapshot',
    );
  }

  /** The task runs from now on; a snapshot of it is written when one is due. */
  watch(task: SnapshotTask): void {
    this.#watched.set(task.section, { task, last: undefined, retryAt: 0 });
  }

  /** The task is closing, or the tenant deleted: resolves when nothing more is written for it. */
  async unwatch(section: string): Promise<void> {
    this.#watched.delete(section);
    if (this.#writing?.section !== section) return;
    this.#writing.stopped = true;
    await this.#writing.done;
  }

  #partitionsOf(section: string): number {
    return this.#options.partitionsOf?.(tenantOfKey(section)) ?? 1;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#watched.clear();
    if (this.#writing !== undefined) await this.unwatch(this.#writing.section);
  }

  /** The first in turn that is due; those that were served go to the end of the turn. */
  #look(): void {
    const now = performance.now();
    if (this.#writing !== undefined || now < this.#restsUntil) return;
    for (const [section, watched] of this.#watched) {
      if (now < watched.retryAt || !this.#due(watched)) continue;
      this.#watched.delete(section);
      this.#watched.set(section, watched);
      const writing = { section, stopped: false, done: Promise.resolve() };
      this.#writing = writing;
      writing.done = this.#write(watched, () => writing.stopped || watched.task.foldedSoFar === undefined).finally(
        () => {
          const took = performance.now() - now;
          this.#writing = undefined;
          this.#restsUntil = performance.now() + RESTS * took;
        },
      );
      return;
    }
  }

  #due({ task: { foldedSoFar: folded }, last = { records: 0, bytes: 0 } }: Watched): boolean {
    if (folded === undefined) return false;
    const { afterRecords, afterBytes = AFTER_BYTES } = this.#options;
    const tail = folded.records - last.records;
    return (tail >= afterRecords || folded.bytes - last.bytes >= afterBytes) && tail >= last.records / 2;
  }

  async #write(watched: Watched, stopped: () => boolean): Promise<void> {
    const { log, archive, logger, observer } = this.#options;
    const { section } = watched.task;
    const started = performance.now();
    try {
      if (watched.last === undefined) {
        await log.ensureTopics([snapshotsTopicSpec(storedAsOfSection(section), this.#partitionsOf(section))]);
        const newest = await newestManifest(log, section, await log.endOffset(snapshotsRef(section)));
        // What of the bytes came after it is not known; counted from here they make it late by so much, once.
        watched.last =
          newest === undefined
            ? { records: 0, bytes: 0 }
            : { records: recordsOf(newest.manifest.checkpoint), bytes: watched.task.foldedSoFar?.bytes ?? 0 };
        if (!this.#due(watched)) return;
      }
      const eventBytes = watched.task.foldedSoFar?.bytes ?? 0;
      const { checkpoint, chunks, entries, bytes } = await writeSnapshot(log, archive, section, stopped);
      watched.last = { records: recordsOf(checkpoint), bytes: eventBytes };
      const seconds = (performance.now() - started) / 1000;
      observer?.wrote?.(bytes, seconds);
      logger.info(
        { section, entries, bytes, chunks, seconds, position: checkpoint.events.position },
        'a snapshot was written',
      );
    } catch (error) {
      watched.retryAt = performance.now() + RETRY_MS;
      if (stopped()) return;
      observer?.failed?.();
      logger.warn({ err: error, section }, 'a snapshot was broken off; it is tried again');
    }
  }
}
