import { createHash } from 'node:crypto';
import { constants } from 'node:os';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { open, type Database } from 'lmdb';
import { requireSpace, STORE_RESERVE_BYTES } from '../core/disk-space.js';
import { threadGivesWay } from '../core/priority.js';
import { AFTER_SECTION, loadingKey, SECTION, STORE_TUNING } from '../store/local-store.js';
import { CHECKPOINT_KEY, type StoredCheckpoint } from '../store/partition-tables.js';
import { decodeRecord, encodeChunk, EntryPacker, EntryParser, inflateChunk } from './snapshot-format.js';

/*
 * A thread that reads or loads one section of the local store, so that a snapshot of millions of entries takes nothing of the event
 * loop. It ends with its one job.
 *
 *   save   ─► begun {checkpoint}, chunk…, saved {…}     ◄─ more, once a chunk beyond the first two; stop
 *   load   ◄─ chunk…, end                               ─► more, once a chunk; loaded
 *   either ─► failed {message}
 */
export type Job =
  | { readonly kind: 'save'; readonly path: string; readonly section: string }
  | { readonly kind: 'load'; readonly path: string; readonly section: string; readonly sha256: string };

export type ToWorker =
  | { readonly kind: 'more' }
  | { readonly kind: 'chunk'; readonly value: Uint8Array }
  | { readonly kind: 'end' }
  | { readonly kind: 'stop' };

export interface Saved {
  readonly entries: number;
  readonly bytes: number;
  readonly sha256: string;
}

export type FromWorker =
  | { readonly kind: 'begun'; readonly checkpoint: StoredCheckpoint }
  | { readonly kind: 'chunk'; readonly value: Uint8Array }
  | ({ readonly kind: 'saved' } & Saved)
  | { readonly kind: 'more' }
  | { readonly kind: 'loaded' }
  | { readonly kind: 'failed'; readonly message: string; readonly damaged: boolean };

/** The snapshot is not what its manifest says. */
class DamagedError extends Error {}

const AHEAD = 2;
const REMOVED_AT_ONCE = 5000;

class Stopped extends Error {}

function inbox(port: MessagePort): () => Promise<ToWorker> {
  const messages: ToWorker[] = [];
  let wake: (() => void) | undefined;
  port.on('message', (message: ToWorker) => {
    messages.push(message);
    wake?.();
  });
  return async () => {
    for (;;) {
      const message = messages.shift();
      if (message?.kind === 'stop') throw new Stopped();
      if (message !== undefined) return message;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
}

type Entries = Database<Buffer, Buffer>;
const bounds = (section: string): { start: Buffer; end: Buffer } => ({
  start: Buffer.from(section + SECTION),
  end: Buffer.from(section + AFTER_SECTION),
});

/** All of the section as of one transaction: a section is written whole, with its checkpoint, so it is the fold of one position. */
async function save(
  job: Job & { kind: 'save' },
  next: () => Promise<ToWorker>,
  tell: (message: FromWorker) => void,
): Promise<void> {
  // Nobody waits for a snapshot.
  threadGivesWay(constants.priority.PRIORITY_BELOW_NORMAL);
  const values = open<StoredCheckpoint, string>({ path: job.path, encoding: 'msgpack', ...STORE_TUNING });
  const entries = open<Buffer, Buffer>({ path: job.path, encoding: 'binary', keyEncoding: 'binary', ...STORE_TUNING });
  const transaction = entries.useReadTransaction();
  try {
    const { start, end } = bounds(job.section);
    const checkpoint = values.get(job.section + SECTION + CHECKPOINT_KEY, { transaction });
    if (checkpoint === undefined) throw new Error('the section has no checkpoint yet');
    tell({ kind: 'begun', checkpoint });
    const packer = new EntryPacker();
    const hash = createHash('sha256');
    let [count, bytes, ahead] = [0, 0, 0];
    const pass = async (blocks: readonly Buffer[]): Promise<void> => {
      for (const block of blocks) {
        if (ahead++ >= AHEAD) await next();
        bytes += block.length;
        hash.update(block);
        tell({ kind: 'chunk', value: encodeChunk(block) });
      }
    };
    for (const { key, value } of entries.getRange({ start, end, transaction })) {
      packer.add(key.subarray(start.length), value);
      count++;
      const blocks = packer.take();
      if (blocks.length > 0) await pass(blocks);
    }
    await pass(packer.take(true));
    tell({ kind: 'saved', entries: count, bytes, sha256: hash.digest('hex') });
  } finally {
    transaction.done();
    await entries.close();
    await values.close();
  }
}

/** Puts the entries in the section, which counts for nothing until all is there: what a crash leaves is removed at the next start. */
async function load(
  job: Job & { kind: 'load' },
  next: () => Promise<ToWorker>,
  tell: (message: FromWorker) => void,
): Promise<void> {
  const marks = open<number, string>({ path: job.path, encoding: 'msgpack', ...STORE_TUNING });
  const entries: Entries = open<Buffer, Buffer>({
    path: job.path,
    encoding: 'binary',
    keyEncoding: 'binary',
    ...STORE_TUNING,
  });
  const prefix = bounds(job.section).start;
  const put = (block: Buffer, parser: EntryParser): void => {
    requireSpace(job.path, 2 * block.length, STORE_RESERVE_BYTES);
    entries.transactionSync(() => {
      for (const [key, value] of parser.add(block)) entries.putSync(Buffer.concat([prefix, key]), value);
    });
  };
  try {
    marks.putSync(loadingKey(job.section), 1);
    try {
      clear(entries, job.section);
      const parser = new EntryParser();
      const hash = createHash('sha256');
      for (let message = await next(); message.kind === 'chunk'; message = await next()) {
        const block = blockOf(message.value);
        hash.update(block);
        put(block, parser);
        tell({ kind: 'more' });
      }
      if (!parser.complete || hash.digest('hex') !== job.sha256)
        throw new DamagedError('the entries have another SHA-256 than the manifest says');
    } catch (error) {
      clear(entries, job.section);
      marks.removeSync(loadingKey(job.section));
      throw error;
    }
    marks.removeSync(loadingKey(job.section));
    tell({ kind: 'loaded' });
  } finally {
    await entries.close();
    await marks.close();
  }
}

function blockOf(value: Uint8Array): Buffer {
  const content = decodeRecord(Buffer.from(value.buffer, value.byteOffset, value.byteLength))?.content;
  if (content === undefined) throw new DamagedError('a chunk has a wrong checksum');
  try {
    return inflateChunk(content);
  } catch (error) {
    throw new DamagedError(`a chunk can not be inflated: ${(error as Error).message}`);
  }
}

/** In slices: other sections are written meanwhile. */
function clear(entries: Entries, section: string): void {
  for (;;) {
    const keys = [...entries.getKeys({ ...bounds(section), limit: REMOVED_AT_ONCE })].map((key) => Buffer.from(key));
    if (keys.length === 0) return;
    entries.transactionSync(() => {
      for (const key of keys) entries.removeSync(key);
    });
  }
}

const port = parentPort;
if (port !== null) {
  const job = workerData as Job;
  const tell = (message: FromWorker): void =>
    port.postMessage(message, message.kind === 'chunk' ? [message.value.buffer as ArrayBuffer] : []);
  const next = inbox(port);
  try {
    await (job.kind === 'save' ? save(job, next, tell) : load(job, next, tell));
  } catch (error) {
    if (!(error instanceof Stopped))
      tell({ kind: 'failed', message: (error as Error).message, damaged: error instanceof DamagedError });
  } finally {
    port.close();
  }
}
