import type { Clock } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import type { Timers } from '../feed/timers.js';
import type { Log } from '../log/log.js';
import { KEPT_ATTEMPTS, type Attempt, type AttemptStore } from './attempt-store.js';
import { LatestRecords } from './latest-records.js';

const TOPIC = 'statefold.attempts';
const GATHER_MS = 1_000;
/** A record has all that is kept of an endpoint, up to 80 KiB, and is written again for each further attempt. */
const PACE = { keys: 256, bytesPerSecond: 1024 * 1024 };

/** Delivered and failed ones are records of their own: an endpoint that takes hundreds a second has its failures not written each time. */
type Kind = 'delivered' | 'failed';
const KINDS: readonly Kind[] = ['delivered', 'failed'];
const kindOf = ({ error }: Pick<Attempt, 'error'>): Kind => (error === undefined ? 'delivered' : 'failed');
const recordKey = (id: string, kind: Kind): string => `${id}/${kind}`;

/** Newest first. */
const latest = (attempts: readonly Attempt[]): Attempt[] =>
  [...new Map(attempts.map((attempt) => [attempt.n, attempt])).values()]
    .sort((a, b) => b.n - a.n)
    .slice(0, KEPT_ATTEMPTS);

/** Attempts in the topic `statefold.attempts`: two records an endpoint, of JSON. In memory are those of endpoints that have had some here. */
export class LogAttemptStore implements AttemptStore {
  /** Oldest first. */
  readonly #held: Map<string, Attempt[]>;
  readonly #offsets: Map<string, number>;
  readonly #records: LatestRecords;
  readonly #clock: Clock;
  /** Released while they were to be written. */
  readonly #released: Set<string>;
  #n = 0;

  private constructor(
    held: Map<string, Attempt[]>,
    offsets: Map<string, number>,
    released: Set<string>,
    records: LatestRecords,
    clock: Clock,
  ) {
    this.#held = held;
    this.#offsets = offsets;
    this.#released = released;
    this.#records = records;
    this.#clock = clock;
  }

  /** Creates the topic where it is missing, and learns where the records lie. */
  static async open(log: Log, logger: Logger, clock: Clock, timers?: Timers): Promise<LogAttemptStore> {
    const held = new Map<string, Attempt[]>();
    const offsets = new Map<string, number>();
    const released = new Set<string>();
    const options = { log, topic: TOPIC, gatherMs: GATHER_MS, pace: PACE, what: 'webhook attempts', logger };
    const place = (key: string, value: Buffer | null, offset: number): void => {
      if (value === null) offsets.delete(key);
      else offsets.set(key, offset);
    };
    const records: LatestRecords = await LatestRecords.open(timers === undefined ? options : { ...options, timers }, {
      restored: place,
      valueOf: async (key) => {
        const attempts = held.get(key);
        if (attempts === undefined) return null;
        const all = latest([...attempts, ...(await stored(records, offsets, key))]);
        if (held.has(key)) held.set(key, latest([...(held.get(key) ?? []), ...all]).reverse());
        return Buffer.from(JSON.stringify(all));
      },
      written: (key, value, offset) => {
        place(key, value, offset);
        // What was released while it was written is written once more, as it is then.
        if (released.has(key) && !records.isTouched(key) && released.delete(key)) held.delete(key);
      },
      // They are for a look at what went wrong lately: the next ones begin anew.
      refused: (key) => {
        released.delete(key);
        held.delete(key);
      },
    });
    return new LogAttemptStore(held, offsets, released, records, clock);
  }

  add(id: string, attempt: Omit<Attempt, 'n'>): void {
    const key = recordKey(id, kindOf(attempt));
    // Also past those that another process gave, and those of an earlier second.
    this.#n = Math.max(this.#n + 1, this.#clock.now() * 1_000);
    let held = this.#held.get(key);
    // Copied now and then, not each time; what is listed is cut to the latest.
    if (held === undefined || held.length >= 2 * KEPT_ATTEMPTS)
      this.#held.set(key, (held = held?.slice(-KEPT_ATTEMPTS) ?? []));
    held.push({ n: this.#n, ...attempt });
    this.#released.delete(key);
    this.#records.touch(key);
  }

  async list(id: string): Promise<readonly Attempt[]> {
    await this.#records.caughtUp();
    const kinds = await Promise.all(
      KINDS.map(async (kind) => {
        const key = recordKey(id, kind);
        return latest([...(this.#held.get(key) ?? []), ...(await stored(this.#records, this.#offsets, key))]);
      }),
    );
    return kinds.flat().sort((a, b) => b.n - a.n);
  }

  release(id: string): void {
    for (const kind of KINDS) {
      const key = recordKey(id, kind);
      if (!this.#held.has(key)) continue;
      this.#released.add(key);
      this.#records.touch(key);
    }
  }

  delete(id: string): void {
    for (const kind of KINDS) {
      const key = recordKey(id, kind);
      this.#released.delete(key);
      if (this.#held.delete(key) || this.#offsets.has(key)) this.#records.touch(key);
    }
  }

  async close(): Promise<void> {
    await this.#records.close();
  }
}

/** What the log has of the key. */
async function stored(
  records: LatestRecords,
  offsets: ReadonlyMap<string, number>,
  key: string,
): Promise<readonly Attempt[]> {
  for (let tries = 0; tries < 3; tries++) {
    const offset = offsets.get(key);
    if (offset === undefined) return [];
    const value = await records.at(offset);
    if (value !== undefined) return JSON.parse(value.toString('utf8')) as readonly Attempt[];
    // Another process has written it since, and the log has dropped what was there.
    await records.caughtUp();
  }
  return [];
}
