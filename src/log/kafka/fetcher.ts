import { InvariantError } from '../../core/errors.js';
import { pause } from '../../core/pause.js';
import type { LogPage, LogRecord, PartitionRef, PickedPage } from '../log.js';
import type { Broker } from '../../kafka/broker.js';
import { fetchCall, type Fetched } from '../../kafka/calls.js';
import type { Cluster } from '../../kafka/cluster.js';
import { CODE, KafkaCodeError } from '../../kafka/kafka-error.js';
import type { OffsetQuery } from './offset-query.js';
import { decodeRecordBatch, firstBatchBytes, splitRecordSet, type RawBatch } from './record-batch.js';

const CONNECTIONS = 2;
/** Of one answer: larger reads come in parts. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Asked for where an answer is cut before it says how large its batch is; and what no batch exceeds, of whatever a broker takes. */
const CUT_BYTES = 64 * 1024;
const LARGEST_BATCH_BYTES = 256 * 1024 * 1024;
/** Offsets no further apart than this are read as one range. */
const NEAR = 32;
const RANGE_BYTES_AN_OFFSET = 1024;
const RANGE_BYTES = 1024 * 1024;
const WORKERS = 16;
/** Leaders that don't agree where a partition begins and ends: one was elected a moment ago. */
const RANGE_DELAYS_MS = [20, 100, 400];
const CACHE = { batches: 64, bytes: 16 * 1024 * 1024, batchBytes: 2 * 1024 * 1024, milliseconds: 60_000 };

interface Cached {
  readonly name: string;
  readonly batch: RawBatch;
  readonly until: number;
}

/** What a leader gave, and its high watermark. */
interface Fetch {
  readonly batches: readonly RawBatch[];
  readonly end: number;
}

/** Reads by position, which don't wait. */
export class Fetcher {
  readonly #cluster: Cluster;
  readonly #offsets: OffsetQuery;
  readonly #timeoutMs: number;
  /** Batches of single records, the last used at the end: neighbours are often asked for next. */
  #cache: Cached[] = [];
  #cacheBytes = 0;

  constructor(cluster: Cluster, offsets: OffsetQuery, timeoutMs: number) {
    this.#cluster = cluster;
    this.#offsets = offsets;
    this.#timeoutMs = timeoutMs;
  }

  async read(of: PartitionRef, from: number, maxBytes: number): Promise<LogPage> {
    for (let at = from; ;) {
      const { batches, end } = await this.#batches(of, at, maxBytes);
      const records = await recordsOf(batches, at);
      const next = batches.at(-1)?.end;
      // What was passed on the way stays passed, also where the next answer is another leader's.
      if (records.length > 0 || next === undefined)
        return { records, end: Math.max(end, next ?? (at > from ? at : end)) };
      if (next <= at)
        throw new InvariantError(
          `${of.topic}-${of.partition}: asked from offset ${at}, the log answered with what ends at ${next}`,
        );
      at = next; // compaction took all records of these batches
    }
  }

  async readAt(of: PartitionRef, offsets: readonly number[], maxBytes = Infinity): Promise<PickedPage> {
    const runs: number[][] = [];
    for (const offset of offsets) {
      const run = runs.at(-1);
      const last = run?.at(-1);
      if (run === undefined || last === undefined || offset - last > NEAR) runs.push([offset]);
      else run.push(offset);
    }
    // Neighbours go to one worker: they are often in one batch, which it then has already.
    const share = Math.max(1, Math.ceil(runs.length / WORKERS));
    let end = (offsets.at(-1) ?? -1) + 1;
    const picked = { left: maxBytes };
    const found = await Promise.all(
      Array.from({ length: Math.ceil(runs.length / share) }, async (_, worker) => {
        const records: LogRecord[] = [];
        for (const run of runs.slice(worker * share, (worker + 1) * share)) {
          // The first one has something to tell whatever the others found.
          if (picked.left <= 0 && records.length > 0) return { records, isCutAt: run[0] };
          const { known, isCutAt } = await this.#readRun(of, run, records, picked);
          end = Math.min(end, known);
          if (isCutAt !== undefined) return { records, isCutAt };
        }
        return { records, isCutAt: undefined };
      }),
    );
    const cutAt = found.find(({ isCutAt }) => isCutAt !== undefined)?.isCutAt;
    const records = found.flatMap((part) => part.records);
    if (cutAt === undefined) return { records, end };
    return { records: records.filter(({ offset }) => offset < cutAt), end, looked: offsets.indexOf(cutAt) };
  }

  /** Forgets what is held of the topic. */
  forget(topic: string): void {
    const left = this.#cache.filter(({ name }) => !name.startsWith(`${topic}/`));
    this.#cacheBytes = left.reduce((sum, { batch }) => sum + batch.bytes.length, 0);
    this.#cache = left;
  }

  /** Adds what is there to `out`. Of what isn't, all below `known` is dropped. `isCutAt`: nothing from there on was looked at. */
  async #readRun(
    of: PartitionRef,
    offsets: readonly number[],
    out: LogRecord[],
    picked: { left: number },
  ): Promise<{ readonly known: number; readonly isCutAt: number | undefined }> {
    const name = `${of.topic}/${of.partition}`;
    const last = offsets.at(-1) ?? -1;
    let wanted = 0;
    while (wanted < offsets.length) {
      const at = offsets[wanted] ?? 0;
      if (picked.left <= 0 && out.length > 0) return { known: Infinity, isCutAt: at };
      const cached = this.#cached(name, at);
      // One byte is enough for the batch that holds it: a broker gives at least one.
      const maxBytes = last === at ? 1 : Math.min(RANGE_BYTES, (last - at + 1) * RANGE_BYTES_AN_OFFSET);
      const { batches, end: known } =
        cached === undefined ? await this.#batches(of, at, maxBytes) : { batches: [cached], end: cached.end };
      if (batches.length === 0) return { known, isCutAt: undefined };
      for (const batch of batches) {
        const [first, from] = [offsets[wanted] ?? Infinity, wanted];
        if (first >= batch.end) continue;
        while ((offsets[wanted] ?? Infinity) < batch.end) wanted++;
        const asked = new Set(offsets.slice(from, wanted));
        for (const record of await decodeRecordBatch(
          batch,
          first,
          (offsets[wanted - 1] ?? 0) + 1,
          cached !== undefined,
        ))
          if (asked.has(record.offset)) {
            out.push(copyOf(record));
            picked.left -= record.value?.length ?? 0;
          }
        if (cached === undefined) this.#keep(name, batch);
      }
      const end = batches.at(-1)?.end ?? 0;
      if (end <= at)
        throw new InvariantError(`${name}: asked for offset ${at}, the log answered with what ends at ${end}`);
    }
    return { known: Infinity, isCutAt: undefined };
  }

  #cached(name: string, offset: number): RawBatch | undefined {
    const i = this.#cache.findLastIndex(
      (cached) => cached.name === name && cached.batch.base <= offset && offset < cached.batch.end,
    );
    const [hit] = i < 0 ? [] : this.#cache.splice(i, 1);
    if (hit === undefined) return undefined;
    if (hit.until < performance.now()) {
      this.#cacheBytes -= hit.batch.bytes.length; // the log may have erased from it
      return undefined;
    }
    this.#cache.push(hit);
    return hit.batch;
  }

  #keep(name: string, { base, end, bytes }: RawBatch): void {
    // A batch of one record is asked for again as seldom as any.
    if (end - base === 1 || bytes.length > CACHE.batchBytes) return;
    this.#cache.push({
      name,
      batch: { base, end, bytes: Buffer.from(bytes) },
      until: performance.now() + CACHE.milliseconds,
    });
    this.#cacheBytes += bytes.length;
    while (this.#cache.length > CACHE.batches || this.#cacheBytes > CACHE.bytes)
      this.#cacheBytes -= this.#cache.shift()?.batch.bytes.length ?? 0;
  }

  /** The batches from that which holds the offset; none at the end. */
  async #batches(of: PartitionRef, from: number, maxBytes: number): Promise<Fetch> {
    let most = Math.max(1, Math.min(maxBytes, MOST_BYTES));
    for (let at = from, attempt = 0; ; attempt++) {
      const { code, end, records } = await this.#cluster.routed(of, async (leader) => {
        const answer = await this.#fetch(leader, of, at, most);
        if (answer.code !== 0 && answer.code !== CODE.OFFSET_OUT_OF_RANGE)
          throw new KafkaCodeError(answer.code, `${of.topic}-${of.partition}`);
        return answer;
      });
      if (code === 0) {
        const batches = splitRecordSet(records);
        if (batches.length > 0 || records.length === 0) return { batches, end };
        // Not that there is nothing: the answer is cut within its first batch.
        const needed = firstBatchBytes(records) ?? Math.max(most * 2, CUT_BYTES);
        if (needed <= most || needed > LARGEST_BATCH_BYTES)
          throw new Error(
            `${of.topic}-${of.partition} from offset ${at}: asked for ${most} bytes, the log gave ${records.length} of a batch of ${needed}`,
          );
        most = needed;
        continue;
      }
      const start = await this.#offsets.offset(of, 'start');
      if (at < start) {
        at = start; // what lay before it was dropped
        continue;
      }
      const last = await this.#offsets.offset(of, 'end');
      if (at >= last) return { batches: [], end: last };
      // One says that it ends before, another that it goes on: neither says that there is nothing.
      const delay = RANGE_DELAYS_MS[attempt];
      if (delay === undefined) throw new KafkaCodeError(code, `${of.topic}-${of.partition} from offset ${at}`);
      this.#cluster.invalidate(of.topic);
      await pause(delay);
    }
  }

  /** One answer of the leader. However long its quotas hold this client back, they are waited for. */
  async #fetch(leader: Broker, { topic, partition }: PartitionRef, from: number, maxBytes: number): Promise<Fetched> {
    for (;;) {
      const connection = await this.#connection(leader);
      await connection.unmuted();
      const call = fetchCall([{ topic, partition, from, maxBytes }], 0, maxBytes);
      const [answer] = await leader.sendOn(connection, call, this.#timeoutMs);
      if (answer === undefined) throw new Error(`the answer says nothing of ${topic}-${partition}`);
      if (answer.code !== CODE.THROTTLING_QUOTA_EXCEEDED) return answer;
    }
  }

  /** The less busy one. */
  async #connection(leader: Broker): ReturnType<Broker['connection']> {
    let best = 0;
    for (let index = 0, least = Infinity; index < CONNECTIONS && least > 0; index++) {
      const inFlight = leader.current('fetch', index)?.inFlight ?? 0;
      if (inFlight < least) [best, least] = [index, inFlight];
    }
    return leader.connection('fetch', best);
  }
}

/** The records from the offset on, as views of the batches. */
export async function recordsOf(batches: readonly RawBatch[], from: number): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for (const batch of batches) {
    if (batch.end <= from) continue;
    const decoded = decodeRecordBatch(batch, from);
    for (const record of decoded instanceof Promise ? await decoded : decoded) out.push(record);
  }
  return out;
}

/** So that one record doesn't hold the memory of its batch. */
const copyOf = ({ offset, timestamp, key, value }: LogRecord): LogRecord => ({
  offset,
  timestamp,
  key: Buffer.from(key),
  value: value === null ? null : Buffer.from(value),
});
