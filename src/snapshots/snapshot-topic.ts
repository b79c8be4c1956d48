import { readBelow, recordsAt } from '../log/journal/known-end.js';
import type { Log } from '../log/log.js';
import { snapshotsRef } from '../log/topics.js';
import { decodeManifest, decodeRecord, readKey, type Manifest } from './snapshot-format.js';

/** A manifest where it stands in the topic. */
export interface Placed {
  readonly offset: number;
  readonly manifest: Manifest;
}

/** Records that are looked at one by one; past that the topic is taken for empty, and the log is folded. */
const MOST_HOPS = 1000;
const NO_KEY = Buffer.alloc(0);
const READ_BYTES = 2 * 1024 * 1024;

/**
 * The newest manifest below `end` that this version can read. It is the last record unless a writer was broken off; then chunks or
 * tombstones follow it, in runs by their number: two of one run tell where it began. (One may stand alone, of a writer that came
 * upon another.)
 */
export async function newestManifest(log: Log, section: string, end: number): Promise<Placed | undefined> {
  const ref = snapshotsRef(section);
  const start = await log.startOffset(ref);
  let run: { readonly id: string; readonly n: number } | undefined;
  let at = end - 1;
  for (let hops = 0; at >= start && hops < MOST_HOPS; hops++) {
    const [record] = await recordsAt(log, ref, [at]);
    const manifest = record?.value ? decodeManifest(decodeRecord(record.value)) : undefined;
    if (manifest !== undefined) return { offset: at, manifest };
    const { id, n } = readKey(record?.key ?? NO_KEY);
    const goesOn = n !== undefined && run?.id === id && run.n === n + 1;
    at -= goesOn ? n + 1 : 1;
    run = n === undefined ? undefined : { id, n };
  }
  return undefined;
}

/** The values of a snapshot's chunks, in their order, those that are there. */
export async function* chunksOf(log: Log, section: string, { id, first, chunks }: Manifest): AsyncGenerator<Buffer> {
  const ref = snapshotsRef(section);
  let n = 0;
  const end = first + chunks;
  for (let from = first; from < end && n < chunks;) {
    const { records, next } = await readBelow(log, ref, from, end, READ_BYTES);
    for (const { key, value, offset } of records) {
      if (offset >= end) return;
      const { id: its, n: number } = readKey(key);
      if (its !== id || number !== n || value === null) continue;
      yield value;
      n++;
    }
    from = next;
  }
}

/** Keys of the records in [from, to) that hold something. */
export async function keysBetween(log: Log, section: string, from: number, to: number): Promise<Buffer[]> {
  const keys: Buffer[] = [];
  for (let at = from; at < to;) {
    const { records, next } = await readBelow(log, snapshotsRef(section), at, to, READ_BYTES);
    for (const { key, value, offset } of records) if (offset < to && value !== null) keys.push(key);
    at = next;
  }
  return keys;
}
