/** What is counted together, and forgotten together. */
const BUCKET_MS = 5_000;
/** A rate is of so many of them, the one under way included: of 55 to 60 seconds. */
const BUCKETS = 12;
/** Of so many names at a time. */
const MOST_NAMES = 1_000;

interface Meter {
  /** The newest bucket that has events. */
  newest: number;
  /** By the number of the bucket, modulo how many there are. */
  readonly events: number[];
}

/**
 * How many events a second each of some names had over the last minute, in memory. Times are the caller's, in milliseconds: who counts
 * and who asks take them from the same clock, or from clocks that agree. A name without events takes nothing.
 */
export class Rates {
  readonly #from: number;
  readonly #most: number;
  readonly #meters = new Map<string, Meter>();
  /** In which names were last looked for that had no events of late. */
  #sweptIn = Number.NEGATIVE_INFINITY;
  /** In which a name was not counted the last time. */
  #crowdedIn = Number.NEGATIVE_INFINITY;

  /** All events from that time on are told; earlier ones are not counted. */
  constructor(from: number, most = MOST_NAMES) {
    this.#from = from;
    this.#most = most;
  }

  add(name: string, events: number, at: number): void {
    if (at < this.#from) return;
    const bucket = Math.floor(at / BUCKET_MS);
    const meter = this.#meters.get(name) ?? this.#begin(name, bucket);
    if (meter !== undefined) count(meter, bucket, events);
  }

  /** Events a second. Undefined: nobody knows, since too many names had events within the minute. */
  of(name: string, now: number): number | undefined {
    const oldest = Math.floor(now / BUCKET_MS) - BUCKETS + 1;
    if (this.#crowdedIn >= oldest) return undefined;
    const meter = this.#meters.get(name);
    if (meter === undefined) return 0;
    let events = 0;
    for (let bucket = Math.max(oldest, meter.newest - BUCKETS + 1); bucket <= meter.newest; bucket++)
      events += meter.events[bucket % BUCKETS] ?? 0;
    const seconds = (now - Math.max(this.#from, oldest * BUCKET_MS)) / 1000;
    return events / Math.max(1, seconds);
  }

  #begin(name: string, bucket: number): Meter | undefined {
    if (this.#meters.size >= this.#most) this.#sweep(bucket);
    if (this.#meters.size >= this.#most) {
      this.#crowdedIn = bucket;
      return undefined;
    }
    const meter: Meter = { newest: bucket, events: new Array<number>(BUCKETS).fill(0) };
    this.#meters.set(name, meter);
    return meter;
  }

  /** Once a bucket at most: what comes in between would find no more. */
  #sweep(bucket: number): void {
    if (this.#sweptIn === bucket) return;
    this.#sweptIn = bucket;
    for (const [name, { newest }] of this.#meters) if (Math.abs(bucket - newest) >= BUCKETS) this.#meters.delete(name);
  }
}

function count(meter: Meter, bucket: number, events: number): void {
  // Past all that it has, or the clock was set back.
  if (Math.abs(bucket - meter.newest) >= BUCKETS) {
    meter.events.fill(0);
    meter.newest = bucket;
  }
  while (meter.newest < bucket) meter.events[++meter.newest % BUCKETS] = 0;
  meter.events[bucket % BUCKETS] = (meter.events[bucket % BUCKETS] ?? 0) + events;
}
