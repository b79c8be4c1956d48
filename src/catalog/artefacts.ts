import { InvariantError, StatefoldError } from '../core/errors.js';
import { Gathered } from '../core/gathered.js';
import { chunksOf } from '../core/parts.js';
import { READ_BYTES } from '../core/reads.js';
import { readBelow, recordsAt } from '../log/journal/known-end.js';
import { AppendTooLargeError, type Log, type LogRecord, type NewRecord } from '../log/log.js';
import { CHUNK_BYTES, decodeChunk, splitChunks } from './artefact-chunk.js';
import type { ArtefactPart, ArtefactStore } from './catalog.js';

export const ARTEFACTS_TOPIC = 'statefold.artefacts';

export interface LogArtefactStoreOptions {
  readonly log: Log;
  /** Bytes of assemblies that are kept in memory. */
  readonly cacheBytes?: number;
}

type Part = ArtefactPart;

/** Where the chunks of a part lie; complete when there are `count` of them. */
interface Located {
  readonly count: number;
  readonly offsets: Map<number, number>;
}

const PARTITION = { topic: ARTEFACTS_TOPIC, partition: 0 };
/** Records of one append stay below the 1 MiB that a broker takes by default. */
const CHUNKS_PER_APPEND = 3;
const CACHE_BYTES = 64 * 1024 * 1024;

/**
 * Sources and assemblies on `statefold.artefacts`. What an id and part hold never changes, so a chunk that was written twice
 * is the same chunk. In memory are offsets only, read from the log at the first use and again when an id is not known: another
 * process may have written it since.
 */
export class LogArtefactStore implements ArtefactStore {
  readonly #log: Log;
  readonly #cacheBytes: number;
  readonly #located = new Map<string, Located>();
  readonly #cache = new Map<string, Buffer>();
  #cached = 0;
  #position = 0;
  readonly #reading = new Gathered(() => this.#readToEnd());

  private constructor(options: LogArtefactStoreOptions) {
    this.#log = options.log;
    this.#cacheBytes = options.cacheBytes ?? CACHE_BYTES;
  }

  static async open(options: LogArtefactStoreOptions): Promise<LogArtefactStore> {
    await options.log.ensureTopics([{ topic: ARTEFACTS_TOPIC, partitions: 1, cleanup: { policy: 'tombstones' } }]);
    return new LogArtefactStore(options);
  }

  /**
   * @throws StatefoldError UNAVAILABLE when the log takes it not, or perhaps: the same put may be repeated; PAYLOAD_TOO_LARGE when the log
   * takes no record of that size
   */
  async put(artefactId: string, part: Part, bytes: Buffer): Promise<void> {
    const chunks = splitChunks(bytes).map((value, n) => ({ key: Buffer.from(`${artefactId}/${part}/${n}`), value }));
    for (const some of chunksOf(chunks, CHUNKS_PER_APPEND)) await this.#append(some);
    if (part === 'assembly') this.#remember(artefactId, bytes);
  }

  /** Undefined when it was never put, or not to its end. @throws InvariantError when the log's copy is damaged */
  async get(artefactId: string, part: Part): Promise<Buffer | undefined> {
    const cached = part === 'assembly' ? this.#cache.get(artefactId) : undefined;
    if (cached !== undefined) {
      this.#remember(artefactId, cached);
      return cached;
    }
    const name = `${artefactId}/${part}`;
    if (this.#complete(name) === undefined) await this.#reading.asked();
    const bytes = await this.#assemble(name);
    if (bytes !== undefined && part === 'assembly') this.#remember(artefactId, bytes);
    return bytes;
  }

  async delete(artefactId: string): Promise<void> {
    await this.#reading.asked();
    this.#forget(artefactId);
    for (const part of ['sources', 'assembly', 'types'] as const) {
      const located = this.#located.get(`${artefactId}/${part}`);
      if (located !== undefined)
        await this.#append(
          [...located.offsets.keys()].map((n) => ({ key: Buffer.from(`${artefactId}/${part}/${n}`), value: null })),
        );
    }
  }

  #complete(name: string): Located | undefined {
    const located = this.#located.get(name);
    return located?.offsets.size === located?.count ? located : undefined;
  }

  async #append(records: readonly NewRecord[]): Promise<void> {
    try {
      const { baseOffset } = await this.#log.append(PARTITION, records);
      records.forEach(({ key, value }, i) => this.#index(key, value, baseOffset + i));
    } catch (cause) {
      if (cause instanceof AppendTooLargeError) throw new StatefoldError('PAYLOAD_TOO_LARGE', cause.message, { cause });
      throw new StatefoldError('UNAVAILABLE', 'the log takes no writes now; send the request again', { cause });
    }
  }

  async #readToEnd(): Promise<void> {
    const end = await this.#log.endOffset(PARTITION);
    while (this.#position < end) {
      const { records, next } = await readBelow(this.#log, PARTITION, this.#position, end, READ_BYTES);
      for (const { key, value, offset } of records) this.#index(key, value, offset);
      this.#position = next;
    }
  }

  #index(key: Buffer, value: Buffer | null, offset: number): void {
    const text = key.toString();
    const name = text.slice(0, text.lastIndexOf('/'));
    const n = Number(text.slice(name.length + 1));
    if (value === null) {
      const located = this.#located.get(name);
      located?.offsets.delete(n);
      if (located?.offsets.size === 0) this.#located.delete(name);
      return;
    }
    const chunk = decodeChunk(value);
    if (chunk === undefined)
      throw new InvariantError(`the chunk ${text} at offset ${offset} of ${ARTEFACTS_TOPIC} is damaged`);
    const located = this.#located.get(name);
    if (located === undefined) this.#located.set(name, { count: chunk.count, offsets: new Map([[n, offset]]) });
    else located.offsets.set(n, offset);
  }

  async #assemble(name: string): Promise<Buffer | undefined> {
    const located = this.#complete(name);
    if (located === undefined) return undefined;
    const ascending = [...located.offsets.values()].sort((a, b) => a - b);
    const contents = new Map<number, Buffer>();
    for (const some of chunksOf(ascending, READ_BYTES / CHUNK_BYTES))
      for (const record of await recordsAt(this.#log, PARTITION, some)) contents.set(...contentOf(record));
    const parts = Array.from({ length: located.count }, (_, n) => contents.get(n)).filter((part) => part !== undefined);
    if (parts.length === located.count) return Buffer.concat(parts);
    // Gone from the log: right when it was deleted meanwhile, by another process perhaps.
    await this.#reading.asked();
    if (this.#complete(name) !== undefined)
      throw new InvariantError(`chunks of ${name} are missing from ${ARTEFACTS_TOPIC}`);
    return undefined;
  }

  #remember(artefactId: string, bytes: Buffer): void {
    this.#forget(artefactId);
    this.#cache.set(artefactId, bytes);
    this.#cached += bytes.length;
    for (const oldest of this.#cache.keys()) {
      if (this.#cached <= this.#cacheBytes) break;
      this.#forget(oldest);
    }
  }

  #forget(artefactId: string): void {
    this.#cached -= this.#cache.get(artefactId)?.length ?? 0;
    this.#cache.delete(artefactId);
  }
}

function contentOf({ key, value, offset }: LogRecord): [number, Buffer] {
  const text = key.toString();
  const chunk = value === null ? undefined : decodeChunk(value);
  if (chunk === undefined)
    throw new InvariantError(`the chunk ${text} at offset ${offset} of ${ARTEFACTS_TOPIC} is damaged`);
  return [Number(text.slice(text.lastIndexOf('/') + 1)), chunk.content];
}
