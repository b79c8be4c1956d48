import { backOff } from '../../core/back-off.js';
import { InvariantError, StatefoldError } from '../../core/errors.js';
import type { Log, LogPage, LogRecord, PartitionRef } from '../log.js';
import { pause } from '../../core/pause.js';
import { LOG_BACK_OFF_MS } from '../../core/retries.js';

/** About a minute: past an election, and past a replica that lags and is given up on by its leader (30 seconds). */
const ATTEMPTS = 90;

/** How a read of records that are known to be, or to have been, in the log came out. */
export interface KnownRead {
  readonly records: readonly LogRecord[];
  /** Where to go on: all before it that is not among the records was dropped. */
  readonly next: number;
}

/**
 * Reads from `from` on in a partition that is known to go to `end`, since it was acknowledged there, or said so. Every reader
 * comes here: an answer of a leader that does not know so much yet says nothing of what lies between, and is asked again.
 *
 * @param stopped The reader wants no answer any more.
 * @throws InvariantError when the log stays behind: it lost data
 * @throws StatefoldError UNAVAILABLE when the reader has stopped
 */
export async function readBelow(
  log: Log,
  of: PartitionRef,
  from: number,
  end: number,
  maxBytes: number,
  stopped?: () => boolean,
): Promise<KnownRead> {
  const answer = await reaching(log, of, end, stopped, () => log.read(of, from, maxBytes));
  return { records: answer.records, next: (answer.records.at(-1)?.offset ?? end - 1) + 1 };
}

/**
 * The records at these ascending offsets of a partition that is known to go past the last of them: what is not among them was
 * dropped. @throws as `readBelow`
 */
export async function recordsAt(
  log: Log,
  of: PartitionRef,
  offsets: readonly number[],
  stopped?: () => boolean,
): Promise<readonly LogRecord[]> {
  return (await someRecordsAt(log, of, offsets, Infinity, stopped)).records;
}

/** Of those the first ones, up to about so many bytes: `looked` of the offsets were looked at, at least one where there is one. */
export async function someRecordsAt(
  log: Log,
  of: PartitionRef,
  offsets: readonly number[],
  maxBytes: number,
  stopped?: () => boolean,
): Promise<{ readonly records: readonly LogRecord[]; readonly looked: number }> {
  const last = offsets.at(-1);
  if (last === undefined) return { records: [], looked: 0 };
  const { records, looked = offsets.length } = await reaching(log, of, last + 1, stopped, async () => {
    const page = await log.readAt(of, offsets, maxBytes);
    const asked = page.looked ?? offsets.length;
    return page.records.length === asked ? page : { ...page, behind: page.end <= (offsets[asked - 1] ?? last) };
  });
  return { records, looked };
}

/** The first answer that isn't behind: one with no record, or with some left out, must reach `end`. */
async function reaching<T extends LogPage & { readonly behind?: boolean }>(
  log: Log,
  of: PartitionRef,
  end: number,
  stopped: (() => boolean) | undefined,
  ask: () => Promise<T>,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    const page = await ask();
    if (page.behind ?? (page.records.length === 0 && page.end < end)) {
      if (attempt === ATTEMPTS)
        throw new InvariantError(
          `${of.topic}-${of.partition}: the log goes to ${page.end}, and held records up to ${end}: the log lost data`,
        );
      log.doubt(of);
      await pause(backOff(attempt, LOG_BACK_OFF_MS));
      if (stopped?.() !== true) continue;
      throw new StatefoldError(
        'UNAVAILABLE',
        'this process does not serve the tenant any more; send the request again',
      );
    }
    return page;
  }
}
