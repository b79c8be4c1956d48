import type { Logger } from '../../core/logger.js';
import { pause } from '../../core/pause.js';
import type { LogRecord, PartitionRef } from '../log.js';
import { Retries } from '../../core/retries.js';
import { isFinal } from './retry.js';

export interface Following {
  readonly ref: PartitionRef;
  readonly logger: Logger;
  /** What is past the place that was taken, waiting up to so long for the first record. */
  readonly read: (waitMs: number) => Promise<readonly LogRecord[]>;
  readonly take: (records: readonly LogRecord[]) => void | Promise<void>;
  /** False: it is not followed any more, or not now. */
  readonly follows: () => boolean;
  /** Trying again changes nothing. It goes on where `follows` still says so. Without it whatever fails is tried again. */
  readonly failed?: (error: Error) => void;
  /** For the log, of the first failure and of the recovery. */
  readonly messages: { readonly away: string; readonly back: string };
}

/** How long a read waits for what comes, milliseconds. */
const WAIT_MS = 5000;
/** Between reads that brought nothing: an adapter need not wait. */
const PAUSE_MS = 20;

/** Takes what comes to a partition as long as it is followed. A log that can't be reached is waited for. */
export async function follow({ ref, logger, read, take, follows, failed, messages }: Following): Promise<void> {
  const retries = new Retries(logger, { partition: ref });
  while (follows()) {
    try {
      const records = await read(WAIT_MS);
      if (!follows()) return;
      await take(records);
      retries.worked(messages.back);
      if (records.length === 0) await pause(PAUSE_MS);
    } catch (error) {
      if (failed !== undefined && isFinal(error)) failed(error as Error);
      else {
        if (follows()) retries.failed(error, messages.away);
        await pause(retries.delay);
      }
    }
  }
}
