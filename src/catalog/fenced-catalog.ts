import { hasCode, StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { chunksOf } from '../core/parts.js';
import type { CatalogBody } from '../core/records.js';
import type { RecordCodec } from '../log/codec/codec.js';
import { FencedPartition } from '../log/journal/fenced-partition.js';
import { appendBytes, type Log } from '../log/log.js';
import { recordsAt } from '../log/journal/known-end.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import type { ArtefactStore, Catalog, CatalogChange, Entities, EntityKind, Entry, KeyEntity } from './catalog.js';
import { EntityStore, isKind } from './entity-store.js';

export const CATALOG_TOPIC = 'statefold.catalog';

export interface FencedCatalogOptions {
  readonly log: Log;
  readonly codec: RecordCodec<CatalogBody>;
  readonly artefacts: ArtefactStore;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly logger: Logger;
  /** Other processes write the catalog too: it is followed, and claimed when there is something to write. Else it is this process's alone. */
  readonly shared?: boolean;
  /** Superseded records that gather before they are tombstoned. */
  readonly sweepAfter?: number;
  /** The catalog takes no more writes: the log is broken (an InvariantError), or another process has it and it is not shared. Not called by `close`. */
  readonly onStopped?: (error: Error) => void;
}

interface Write {
  readonly draft: Draft<CatalogBody>;
  /** Of its record in an append, at most. */
  readonly bytes: number;
  resolve(): void;
  reject(error: Error): void;
}

const PARTITION = { topic: CATALOG_TOPIC, partition: 0 };
const SWEEP_AFTER = 256;
/** What a record has besides its key and its value, and more: ids, the fence, the framing. */
const RECORD_BYTES = 1024;
/** Superseded records whose tombstones are due, in memory: who only follows writes none, and those of the oldest were mostly written by others. */
const MOST_DEAD = 100_000;
/** Writes that wait for the log: a change has its answer in milliseconds, so they only gather while the log is away. */
const MOST_WAITING_BYTES = 64 * 1024 * 1024;
/** Tombstones of one append, so that a produce stays small. */
const SWEEP_BATCH = 1_000;

/**
 * The catalog as a fold over the one partition of `statefold.catalog`. A write says which version it replaces, and resolves
 * when its record is durable and folded. Reads are from memory: of a shared catalog that is all that this process has seen, and
 * what others wrote comes within milliseconds; `caughtUp` waits for it.
 *
 * Superseded records are tombstoned in the background by who wrote last, by the key of the very record: keys are unique to an attempt, so a
 * tombstone never removes a record that counts. Records of deletions and claims stay: they make older records void.
 */
export class FencedCatalog implements Catalog, PartitionHandler<CatalogBody> {
  readonly artefacts: ArtefactStore;
  readonly #options: FencedCatalogOptions;
  readonly #partition: FencedPartition<CatalogBody>;
  readonly #entities = new EntityStore();
  readonly #listeners: ((change: CatalogChange) => void)[] = [];
  #queue: Write[] = [];
  readonly #inFlight = new Map<Draft<CatalogBody>, Write>();
  /** Of records that were passed over, since a newer version wrote them. */
  readonly #unknownKinds = new Set<string>();
  /** Bytes of the writes that were not answered yet, in whatever stage. */
  #waiting = 0;
  #dead: number[] = [];
  #sweeping: Promise<void> | undefined;
  #closing = false;

  private constructor(options: FencedCatalogOptions) {
    this.#options = options;
    this.artefacts = options.artefacts;
    const { log, codec, owner, logger, shared = false } = options;
    this.#partition = new FencedPartition({ log, codec, owner, logger, shared, ref: PARTITION, handler: this });
  }

  /** Makes the topic, folds it, and takes it unless it is shared. @throws InvariantError when the log is damaged */
  static async open(options: FencedCatalogOptions): Promise<FencedCatalog> {
    await options.log.ensureTopics([{ topic: CATALOG_TOPIC, partitions: 1, cleanup: { policy: 'tombstones' } }]);
    const catalog = new FencedCatalog(options);
    await catalog.#partition.open({ claim: options.shared !== true });
    catalog.#sweepWhenDue();
    return catalog;
  }

  get<K extends EntityKind>(kind: K, id: string): Entry<K> | undefined {
    return this.#entities.get(kind, id);
  }

  versionOf(kind: EntityKind, id: string): number {
    return this.#entities.versionOf(kind, id);
  }

  list<K extends EntityKind>(kind: K, tenantId: string | undefined): readonly Entry<K>[] {
    return this.#entities.list(kind, tenantId);
  }

  past<K extends EntityKind>(kind: K, tenantId: string | undefined, after: string): Iterable<Entry<K>> {
    return this.#entities.past(kind, tenantId, after);
  }

  count(kind: EntityKind, tenantId: string | undefined): number {
    return this.#entities.count(kind, tenantId);
  }

  bytesOf(tenantId: string): number {
    return this.#entities.bytesOf(tenantId);
  }

  keyByHash(hash: string): KeyEntity | undefined {
    return this.#entities.keyByHash(hash);
  }

  onChange(listener: (change: CatalogChange) => void): void {
    this.#listeners.push(listener);
  }

  caughtUp(): Promise<void> {
    return this.#options.shared === true ? this.#partition.caughtUp() : Promise.resolve();
  }

  put<K extends EntityKind>(kind: K, id: string, expected: number, value: Entities[K]): Promise<void> {
    return this.#write(kind, id, expected, JSON.stringify(value));
  }

  async delete(kind: EntityKind, id: string, expected: number): Promise<void> {
    if (expected === 0) throw new StatefoldError('NOT_FOUND', `there is no ${kind} ${id}`);
    await this.#write(kind, id, expected, null);
  }

  async remove(kind: EntityKind, id: string): Promise<void> {
    for (;;) {
      const entry = this.get(kind, id);
      if (entry === undefined) return;
      try {
        return await this.delete(kind, id, entry.version);
      } catch (error) {
        if (!hasCode(error, 'ALREADY_EXISTS')) throw error;
      }
    }
  }

  async upsert<K extends EntityKind>(
    kind: K,
    id: string,
    change: (had: Entities[K] | undefined) => Entities[K] | undefined,
  ): Promise<Entry<K> | undefined> {
    for (;;) {
      const entry = this.get(kind, id);
      const value = change(entry?.value);
      if (value === undefined) return entry;
      const version = this.versionOf(kind, id);
      try {
        await this.put(kind, id, version, value);
        return { id, version: version + 1, value };
      } catch (error) {
        if (!hasCode(error, 'ALREADY_EXISTS')) throw error;
      }
    }
  }

  async update<K extends EntityKind>(
    kind: K,
    id: string,
    change: (value: Entities[K]) => Entities[K] | undefined,
  ): Promise<Entities[K]> {
    const entry = await this.upsert(kind, id, (had) => had && change(had));
    if (entry === undefined) throw new StatefoldError('NOT_FOUND', `there is no ${kind} ${id}`);
    return entry.value;
  }

  /** Waits for the write in flight; what waits behind it is refused. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#partition.close();
    await this.#sweeping;
  }

  #write(kind: EntityKind, id: string, replaces: number, value: string | null): Promise<void> {
    if (this.#closing || this.#partition.status === 'STOPPED') return Promise.reject(unavailable());
    const bytes = RECORD_BYTES + 2 * Buffer.byteLength(`${kind}/${id}`) + Buffer.byteLength(value ?? '');
    const most = this.#options.log.maxAppendBytes - appendBytes([]);
    if (bytes > most)
      return Promise.reject(
        new StatefoldError(
          'PAYLOAD_TOO_LARGE',
          `${kind} ${id} has ${bytes} bytes; the log takes ${most} of one change`,
        ),
      );
    if (this.#waiting > 0 && this.#waiting + bytes > MOST_WAITING_BYTES)
      return Promise.reject(
        new StatefoldError('UNAVAILABLE', 'too many changes of the catalog wait for the log; send the request again'),
      );
    this.#waiting += bytes;
    return new Promise<void>((resolve, reject) => {
      const draft: Draft<CatalogBody> = {
        body: { kind: 'Entity', value: { kind, id, replaces, value } },
        keyPrefix: `${kind}/${id}`,
      };
      this.#queue.push({ draft, bytes, resolve, reject });
      this.#partition.kick();
    }).finally(() => (this.#waiting -= bytes));
  }

  judge({ value }: CatalogBody): boolean {
    return this.#entities.accepts(value);
  }

  fold({ body, offset, accepted }: Folded<CatalogBody>, draft: Draft<CatalogBody> | undefined): void {
    if (!isKind(body.value.kind)) return this.#passOver(body.value.kind);
    if (!accepted) {
      this.#died(offset);
      return;
    }
    const { change, superseded } = this.#entities.apply(body.value, offset);
    if (superseded !== undefined) this.#died(superseded);
    for (const listener of this.#listeners) listener(change);
    if (draft !== undefined) this.#take(draft)?.resolve();
    this.#sweepWhenDue();
  }

  /** Processes that know the kind fold the record, and tombstone it once it is superseded. */
  #passOver(kind: string): void {
    if (this.#unknownKinds.has(kind)) return;
    this.#unknownKinds.add(kind);
    this.#options.logger.warn(
      { kind },
      'the catalog has entities of a kind that this version of the service does not know: a newer one wrote them; they are passed over, and stay',
    );
  }

  /** What waits, up to what the log takes at once; one write an entity: a second one is decided when the first is known to be in the log. */
  gather(most = Infinity): Draft<CatalogBody>[] {
    const touched = new Set<string>();
    const later: Write[] = [];
    let room = Math.min(this.#options.log.maxAppendBytes - appendBytes([]), most);
    for (const [i, write] of this.#queue.entries()) {
      if (room < 0) {
        later.push(...this.#queue.slice(i));
        break;
      }
      const { keyPrefix, body } = write.draft;
      if (touched.has(keyPrefix)) later.push(write);
      else if (this.#version(body) !== body.value.replaces) this.#refuse(write);
      else {
        touched.add(keyPrefix);
        // What is left for the next produce waits behind this one's, also where it would be small enough itself.
        room -= write.bytes;
        if (room < 0 && this.#inFlight.size > 0) later.push(write);
        else this.#inFlight.set(write.draft, write);
      }
    }
    this.#queue = later;
    return [...this.#inFlight.keys()];
  }

  undecided(drafts: readonly Draft<CatalogBody>[]): void {
    this.#queue.unshift(...drafts.map((draft) => this.#take(draft)).filter((write) => write !== undefined));
    this.#partition.kick();
  }

  refused(drafts: readonly Draft<CatalogBody>[], error: Error): void {
    for (const draft of drafts) this.#take(draft)?.reject(unavailable('the log takes no writes now', error));
  }

  unknown(drafts: readonly Draft<CatalogBody>[], error: Error): void {
    const answer = new StatefoldError(
      'UNAVAILABLE',
      'the log can not be reached, and the change may have been stored; look before you send the request again',
      { cause: error },
    );
    for (const draft of drafts) this.#take(draft)?.reject(answer);
  }

  stopped(error: Error): void {
    const failure = error instanceof StatefoldError ? error : unavailable('the catalog has stopped', error);
    for (const write of [...this.#inFlight.values(), ...this.#queue]) write.reject(failure);
    this.#inFlight.clear();
    this.#queue = [];
    if (!this.#closing) this.#options.onStopped?.(error);
  }

  #take(draft: Draft<CatalogBody>): Write | undefined {
    const write = this.#inFlight.get(draft);
    this.#inFlight.delete(draft);
    return write;
  }

  #version({ value: { kind, id } }: CatalogBody): number {
    return this.#entities.versionOf(kind as EntityKind, id);
  }

  /** A refusal is an answer too: it must rest on all that was in the log when it was asked. */
  #refuse(write: Write): void {
    const { kind, id, replaces } = write.draft.body.value;
    this.#partition.caughtUp().then(
      () => {
        const found = this.#version(write.draft.body);
        if (found === replaces) {
          this.#queue.push(write);
          this.#partition.kick();
          return;
        }
        const message =
          replaces === 0
            ? `${kind} ${id} already exists`
            : `${kind} ${id} is not at version ${replaces} any more, but at ${found}`;
        write.reject(new StatefoldError('ALREADY_EXISTS', message));
      },
      (error: Error) => write.reject(error),
    );
  }

  #died(offset: number): void {
    this.#dead.push(offset);
    if (this.#dead.length > MOST_DEAD) this.#dead.splice(0, MOST_DEAD / 2);
  }

  #sweepWhenDue(): void {
    if (this.#partition.status !== 'RUNNING' || this.#closing || this.#sweeping !== undefined) return;
    if (this.#dead.length < (this.#options.sweepAfter ?? SWEEP_AFTER)) return;
    this.#sweeping = this.#sweep().finally(() => (this.#sweeping = undefined));
  }

  async #sweep(): Promise<void> {
    const { log, logger } = this.#options;
    const offsets = this.#dead.sort((a, b) => a - b);
    this.#dead = [];
    try {
      for (const some of chunksOf(offsets, SWEEP_BATCH)) {
        const records = await recordsAt(log, PARTITION, some);
        if (records.length > 0)
          await log.append(
            PARTITION,
            records.map(({ key }) => ({ key, value: null })),
          );
      }
    } catch (error) {
      // They only take room. The next start finds them again.
      logger.warn({ err: error }, 'superseded records of the catalog could not be removed');
    }
  }
}

const unavailable = (message = 'the service is shutting down', cause?: Error): StatefoldError =>
  new StatefoldError('UNAVAILABLE', `${message}; send the request again`, cause === undefined ? {} : { cause });
