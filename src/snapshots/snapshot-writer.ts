import { randomUUID } from 'node:crypto';
import type { Log, NewRecord } from '../log/log.js';
import { STORE_FORMAT } from '../store/local-store.js';
import { recordsOf } from '../store/partition-tables.js';
import { snapshotsRef } from '../log/topics.js';
import type { SectionArchive } from './section-archive.js';
import { chunkKey, encodeManifest, manifestKey, type Manifest } from './snapshot-format.js';
import { keysBetween, newestManifest, type Placed } from './snapshot-topic.js';

const TOMBSTONES_AT_ONCE = 1000;

/**
 * Writes a snapshot of the tenant's section: chunks, tombstones for the snapshot before the last and for what was broken off since,
 * the manifest. So the topic holds two whole snapshots, and ends with a manifest.
 *
 * Nothing fences it, and nothing needs to: a snapshot is a fold of accepted records alone, as they are for every reader, under keys
 * of its own. A former owner writes one that is right, only older. It may erase what others write beside it, so whoever finds a
 * foreign record among its own leaves the topic alone.
 *
 * @throws Error when it was broken off; the next one clears up what it left.
 */
export async function writeSnapshot(
  log: Log,
  archive: SectionArchive,
  section: string,
  stopped: () => boolean,
): Promise<Manifest> {
  const ref = snapshotsRef(section);
  let end = await log.endOffset(ref);
  const append = async (records: readonly NewRecord[]): Promise<void> => {
    if (stopped()) throw new Error('the tenant is not served here any more');
    const { baseOffset } = await log.append(ref, records);
    if (baseOffset !== end)
      throw new Error(
        `a record landed at ${baseOffset}, not at ${end}: another process writes snapshots of the tenant`,
      );
    end += records.length;
  };
  const newest = await newestManifest(log, section, end);
  const first = end;
  const { checkpoint, chunks } = await archive.save(section);
  try {
    if (newest?.manifest.storeFormat === STORE_FORMAT && recordsOf(newest.manifest.checkpoint) >= recordsOf(checkpoint))
      throw new Error(
        `there is one at ${newest.manifest.checkpoint.events.position} already, and this one would be at ${checkpoint.events.position}`,
      );
    const id = randomUUID();
    for (let n = 0; ; n++) {
      const next = await chunks.next();
      if (next.done === true) {
        const { entries, bytes, sha256 } = next.value;
        const manifest = { id, storeFormat: STORE_FORMAT, checkpoint, first, chunks: n, entries, bytes, sha256 };
        const dead = [
          ...(await older(log, section, newest)),
          ...(await keysBetween(log, section, (newest?.offset ?? -1) + 1, first)),
        ];
        while (dead.length > 0) await append(dead.splice(0, TOMBSTONES_AT_ONCE).map((key) => ({ key, value: null })));
        await append([{ key: manifestKey(id), value: encodeManifest(manifest) }]);
        return manifest;
      }
      await append([{ key: chunkKey(id, n), value: next.value }]);
    }
  } finally {
    await chunks.return({ entries: 0, bytes: 0, sha256: '' });
  }
}

/** The keys of the snapshot before the newest. What lies between the two was erased with the newest. */
async function older(log: Log, section: string, newest: Placed | undefined): Promise<Buffer[]> {
  const before = newest === undefined ? undefined : await newestManifest(log, section, newest.manifest.first);
  return before === undefined
    ? []
    : [
        ...Array.from({ length: before.manifest.chunks }, (_, n) => chunkKey(before.manifest.id, n)),
        manifestKey(before.manifest.id),
      ];
}
