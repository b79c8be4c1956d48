import type { Log, LogRecord, PartitionRef } from '../../log/log.js';
import { snapshotsTopic } from '../topics.js';
import { decodeManifest, decodeRecord, readKey, type Manifest } from './snapshot-format.js';

/** A manifest where it stands in the topic. */
export interface Placed {
  readonly offset: number;
  /** Offset of the newest manifest before; -1: there is none. */
  readonly previous: number;
  readonly manifest: Manifest;
}

export const snapshotsRef = (tenantId: string): PartitionRef => ({ topic: snapshotsTopic(tenantId), partition: 0 });

/** Records that are looked at one by one; past that the topic is taken for empty, and the log is folded. */
const MOST_HOPS = 1000;
const READ_BYTES = 2 * 1024 * 1024;

/**
 * The newest manifest below `end` that this version can read. It is the last record unless a writer was broken off; then each
 * record tells where to look next: a chunk knows the manifest before its snapshot, a tombstone where the run of its kind began.
 */
export async function newestManifest(log: Log, tenantId: string, end: number): Promise<Placed | undefined> {
  const ref = snapshotsRef(tenantId);
  const start = await log.startOffset(ref);
  let at = end - 1;
  for (let hops = 0; at >= start && hops < MOST_HOPS; hops++) {
    const [record] = await log.readAt(ref, [at]);
    const placed = record === undefined ? undefined : placedManifest(record);
    if (placed !== undefined) return placed;
    at = record === undefined ? at - 1 : before(record);
  }
  return undefined;
}

function placedManifest({ offset, value }: LogRecord): Placed | undefined {
  const record = value === null ? undefined : decodeRecord(value);
  const manifest = decodeManifest(record);
  return record === undefined || manifest === undefined ? undefined : { offset, previous: record.previous, manifest };
}

function before({ key, offset, value }: LogRecord): number {
  if (value === null) return offset - (readKey(key).n ?? 0) - 1;
  return Math.min(offset - 1, decodeRecord(value)?.previous ?? offset - 1);
}

/** The values of a snapshot's chunks, in their order, those that are there. */
export async function* chunksOf(log: Log, tenantId: string, { id, first, chunks }: Manifest): AsyncGenerator<Buffer> {
  const ref = snapshotsRef(tenantId);
  let n = 0;
  for (let from = first; n < chunks; ) {
    const records = await log.read(ref, from, READ_BYTES);
    for (const { key, value, offset } of records) {
      if (offset >= first + chunks) return;
      const { id: its, n: number } = readKey(key);
      if (its !== id || number !== n || value === null) continue;
      yield value;
      n++;
    }
    const last = records.at(-1);
    if (last === undefined) return;
    from = last.offset + 1;
  }
}

/** Keys of the records in [from, to) that hold something. */
export async function keysBetween(log: Log, tenantId: string, from: number, to: number): Promise<Buffer[]> {
  const keys: Buffer[] = [];
  for (let at = from; at < to; ) {
    const records = await log.read(snapshotsRef(tenantId), at, READ_BYTES);
    for (const { key, value, offset } of records) if (offset < to && value !== null) keys.push(key);
    at = (records.at(-1)?.offset ?? to) + 1;
  }
  return keys;
}
