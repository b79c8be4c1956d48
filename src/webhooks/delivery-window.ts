/** What has to be known of a message to deliver it in order. */
export interface Deliverable {
  /** Of its item in the feed. */
  readonly position: number;
  readonly key: string;
}

/** How far an endpoint has got: all before `end` is done with, but for `pending`. */
export interface WindowCheckpoint {
  readonly end: number;
  /** Ascending by position, with the failed attempts of each, and the time before which there is no other, where there is one. */
  readonly pending: readonly PendingMessage[];
}

export type PendingMessage = readonly [position: number, attempts: number, dueAt?: number];

interface Entry<T> {
  readonly item: T;
  readonly bytes: number;
  attempts: number;
  /** Not before; in the caller's milliseconds. */
  dueAt: number;
  /** By its schedule, where an attempt was asked for before. */
  scheduledAt: number | undefined;
  /** Since its last attempt of the schedule. */
  wasHurried: boolean;
  inFlight: boolean;
}

/**
 * The messages of one endpoint that are taken and not yet done with (delivered, or given up). Order is kept a key: only the oldest of
 * a key is ever offered, so one that fails holds back its own key alone, until the window is full of what waits behind it.
 * Pure: time comes as an argument, in any unit that only grows.
 */
export class DeliveryWindow<T extends Deliverable> {
  #end: number;
  #bytes = 0;
  /** In the order of position. */
  readonly #pending = new Map<number, Entry<T>>();
  /** Oldest first; never empty. */
  readonly #keys = new Map<string, Entry<T>[]>();
  /** Oldest entries of their keys that wait for an attempt, in the order in which they came to be so. */
  readonly #waiting = new Set<Entry<T>>();

  constructor(
    end: number,
    private readonly capacity: { readonly count: number; readonly bytes: number },
  ) {
    this.#end = end;
  }

  get size(): number {
    return this.#pending.size;
  }

  get hasRoom(): boolean {
    return this.#pending.size < this.capacity.count && this.#bytes < this.capacity.bytes;
  }

  /** Of what it holds. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Past the highest position taken. */
  get end(): number {
    return this.#end;
  }

  /** Everything before it is done with. */
  get cursor(): number {
    const [first] = this.#pending.keys();
    return first ?? this.#end;
  }

  /** Takes the next message. Positions ascend; only `restored` ones lie before `end`, and come before all others. */
  add(item: T, bytes: number, restored?: { readonly attempts: number; readonly dueAt?: number | undefined }): void {
    if (restored === undefined) {
      if (item.position < this.#end) throw new RangeError(`message ${item.position} comes before ${this.#end}`);
      this.#end = item.position + 1;
    }
    const entry: Entry<T> = {
      item,
      bytes,
      attempts: restored?.attempts ?? 0,
      dueAt: restored?.dueAt ?? Number.NEGATIVE_INFINITY,
      scheduledAt: undefined,
      wasHurried: false,
      inFlight: false,
    };
    this.#pending.set(item.position, entry);
    this.#bytes += bytes;
    const ofKey = this.#keys.get(item.key);
    if (ofKey === undefined) {
      this.#keys.set(item.key, [entry]);
      this.#waiting.add(entry);
    } else ofKey.push(entry);
  }

  /** All before it that was not added is none of the endpoint's. True: it is further than before. */
  advance(end: number): boolean {
    if (end <= this.#end) return false;
    this.#end = end;
    return true;
  }

  /**
   * A message to attempt now, marked as in flight; undefined: none is due. `probe`: of those that are due one that failed least, which tells
   * most of the endpoint.
   */
  take(now: number, probe = false): T | undefined {
    let taken: Entry<T> | undefined;
    for (const entry of this.#waiting) {
      if (entry.dueAt > now || (taken !== undefined && entry.attempts >= taken.attempts)) continue;
      taken = entry;
      if (!probe) break;
    }
    if (taken === undefined) return undefined;
    this.#waiting.delete(taken);
    taken.inFlight = true;
    return taken.item;
  }

  /**
   * The message whose turn it is and that has this, whatever its time, marked as in flight; undefined: there is none, it is in flight,
   * or it waits behind another of its key.
   */
  takeNow(now: number, is: (item: T) => boolean): T | undefined {
    for (const entry of this.#waiting) {
      if (!is(entry.item)) continue;
      if (entry.dueAt > now) entry.scheduledAt ??= entry.dueAt;
      this.#waiting.delete(entry);
      entry.inFlight = true;
      return entry.item;
    }
    return undefined;
  }

  /** When `take` will have something next; undefined: not before something else happens. */
  nextDue(): number | undefined {
    let next: number | undefined;
    for (const { dueAt } of this.#waiting) if (next === undefined || dueAt < next) next = dueAt;
    return next;
  }

  /** Failed attempts so far of a message in the window. */
  attempts(position: number): number {
    return this.#inFlight(position).attempts;
  }

  /** The attempt is one before its time: where it fails it does not count, and the next one begins then. */
  isEarly(position: number, now: number): boolean {
    return (this.#inFlight(position).scheduledAt ?? Number.NEGATIVE_INFINITY) > now;
  }

  /** The attempt failed; another may begin at `dueAt`. */
  failed(position: number, dueAt: number): void {
    const entry = this.#inFlight(position);
    entry.inFlight = false;
    entry.attempts++;
    entry.dueAt = dueAt;
    entry.scheduledAt = undefined;
    entry.wasHurried = false;
    this.#waiting.add(entry);
  }

  /** An early attempt failed: it is due by its schedule, and not before `notBefore`. */
  failedEarly(position: number, notBefore: number): void {
    const entry = this.#inFlight(position);
    entry.inFlight = false;
    entry.dueAt = Math.max(entry.scheduledAt ?? entry.dueAt, notBefore);
    entry.scheduledAt = undefined;
    this.#waiting.add(entry);
  }

  /** The attempt was called off before it told anything. */
  released(position: number): void {
    const entry = this.#inFlight(position);
    entry.inFlight = false;
    this.#waiting.add(entry);
  }

  /** Delivered or given up: the key goes on with its next. */
  finish(position: number): void {
    const entry = this.#inFlight(position);
    this.#pending.delete(position);
    this.#bytes -= entry.bytes;
    const ofKey = this.#keys.get(entry.item.key) as Entry<T>[];
    ofKey.shift();
    const next = ofKey[0];
    if (next === undefined) this.#keys.delete(entry.item.key);
    else this.#waiting.add(next);
  }

  /**
   * The endpoint answers again: what waits for its next attempt is due now, once before that one. `again`: it is another endpoint, of which
   * that says nothing.
   */
  hurry(again = false): void {
    for (const entry of this.#waiting) {
      if (entry.wasHurried && !again) continue;
      entry.scheduledAt ??= entry.dueAt;
      entry.dueAt = Number.NEGATIVE_INFINITY;
      entry.wasHurried = true;
    }
  }

  checkpoint(): WindowCheckpoint {
    return {
      end: this.#end,
      pending: Array.from(this.#pending, ([position, { attempts, dueAt, scheduledAt }]) => {
        const at = scheduledAt ?? dueAt;
        return attempts > 0 && at > Number.NEGATIVE_INFINITY
          ? ([position, attempts, at] as const)
          : ([position, attempts] as const);
      }),
    };
  }

  #inFlight(position: number): Entry<T> {
    const entry = this.#pending.get(position);
    if (entry === undefined || !entry.inFlight) throw new RangeError(`message ${position} is not in flight`);
    return entry;
  }
}
