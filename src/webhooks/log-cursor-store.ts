import type { Logger } from '../core/logger.js';
import type { Log } from '../log/log.js';
import type { CursorStore, DeadLetter, EndpointCheckpoint, Saved } from './cursor-store.js';
import type { Timers } from '../feed/timers.js';
import { LatestRecords } from './latest-records.js';

const TOPIC = 'statefold.cursors';
const GATHER_MS = 250;
/**
 * A record has all that is pending of an endpoint, up to some hundred KiB, and is written again as deliveries go on. Past it a tenant's are
 * written less often.
 */
const PACE = {
  owner: (id: string): string => id.slice(0, id.indexOf('/')),
  bytesAtOnce: 1024 * 1024,
  bytesPerSecond: 512 * 1024,
};

/** A checkpoint as it lies in the log, where it keeps the words of the first release: `through` is inclusive. */
interface StoredCheckpoint {
  readonly through: number;
  readonly pending: EndpointCheckpoint['pending'];
  readonly parked: readonly (Omit<DeadLetter, 'position'> & { readonly sequence: number })[];
  readonly replays?: NonNullable<EndpointCheckpoint['replays']>;
  readonly health?: NonNullable<EndpointCheckpoint['health']>;
}

const storedOf = ({ end, pending, deadLetters, ...more }: EndpointCheckpoint): StoredCheckpoint => ({
  through: end - 1,
  pending,
  parked: deadLetters.map(({ position, ...letter }) => ({ sequence: position, ...letter })),
  ...more,
});

const checkpointOf = ({ through, pending, parked, ...more }: StoredCheckpoint): EndpointCheckpoint => ({
  end: through + 1,
  pending,
  deadLetters: parked.map(({ sequence, ...letter }) => ({ position: sequence, ...letter })),
  ...more,
});

const asked = (checkpoint: Saved | undefined): EndpointCheckpoint | undefined =>
  typeof checkpoint === 'function' ? checkpoint() : checkpoint;

/** Cursors as the last record of each id in the topic `statefold.cursors`; values are JSON, a tombstone deletes. */
export class LogCursorStore implements CursorStore {
  readonly #checkpoints: Map<string, Saved>;
  readonly #records: LatestRecords;
  readonly #logger: Logger;

  private constructor(checkpoints: Map<string, Saved>, records: LatestRecords, logger: Logger) {
    this.#checkpoints = checkpoints;
    this.#records = records;
    this.#logger = logger;
  }

  /** Creates the topic where it is missing and reads all of it. */
  static async open(log: Log, logger: Logger, timers?: Timers): Promise<LogCursorStore> {
    const checkpoints = new Map<string, Saved>();
    const options = { log, topic: TOPIC, gatherMs: GATHER_MS, paceOf: PACE, what: 'webhook cursors', logger };
    const records = await LatestRecords.open(timers === undefined ? options : { ...options, timers }, {
      restored: (id, value) => {
        if (value === null) checkpoints.delete(id);
        else checkpoints.set(id, checkpointOf(JSON.parse(value.toString('utf8')) as StoredCheckpoint));
      },
      // A late copy of an older one only makes deliveries repeat.
      valueOf: (id) => {
        const checkpoint = asked(checkpoints.get(id));
        return checkpoint === undefined ? null : Buffer.from(JSON.stringify(storedOf(checkpoint)));
      },
    });
    return new LogCursorStore(checkpoints, records, logger);
  }

  caughtUp(): Promise<void> {
    return this.#records.caughtUp();
  }

  load(id: string): EndpointCheckpoint | undefined {
    return asked(this.#checkpoints.get(id));
  }

  save(id: string, checkpoint: Saved): void {
    this.#checkpoints.set(id, checkpoint);
    this.#records.touch(id);
  }

  delete(id: string): void {
    if (this.#checkpoints.delete(id)) this.#records.touch(id);
  }

  flush(id: string): Promise<void> {
    return this.#records.flush(id);
  }

  async close(): Promise<void> {
    const unsaved = await this.#records.close();
    if (unsaved > 0)
      this.#logger.warn({ endpoints: unsaved }, 'webhook cursors were not saved: some deliveries will be repeated');
  }
}
