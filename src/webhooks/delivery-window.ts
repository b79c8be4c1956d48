/** What has to be known of a change to deliver it in order. */
export interface Deliverable {
  readonly sequence: number;
  readonly key: string;
}

/** How far an endpoint has got: all up to `through` is settled, but for `pending`. */
export interface WindowCheckpoint {
  readonly through: number;
  /** Ascending by sequence, with the failed attempts of each. */
  readonly pending: readonly (readonly [sequence: number, attempts: number])[];
}

interface Entry<T> {
  readonly item: T;
  readonly bytes: number;
  attempts: number;
  /** Not before; in the caller's milliseconds. */
  dueAt: number;
  inFlight: boolean;
}

/**
 * The changes of one endpoint that are taken but not yet settled (delivered or given up). Order is kept a key: only the oldest of
 * a key is ever offered, so one that fails holds back its own key alone, until the window is full of what waits behind it.
 * Pure: time comes as an argument, in any unit that only grows.
 */
export class DeliveryWindow<T extends Deliverable> {
  #through: number;
  #bytes = 0;
  /** In the order of sequence. */
  readonly #pending = new Map<number, Entry<T>>();
  /** Oldest first; never empty. */
  readonly #keys = new Map<string, Entry<T>[]>();
  /** Oldest entries of their keys that wait for an attempt, in the order in which they came to be so. */
  readonly #waiting = new Set<Entry<T>>();

  constructor(
    through: number,
    private readonly capacity: { readonly count: number; readonly bytes: number },
  ) {
    this.#through = through;
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

  /** The highest sequence taken. */
  get through(): number {
    return this.#through;
  }

  /** Everything up to here is settled. */
  get cursor(): number {
    const [first] = this.#pending.keys();
    return first === undefined ? this.#through : first - 1;
  }

  /** Takes the next change. Sequences ascend; only `restored` ones lie below `through`, and come before all others. */
  add(item: T, bytes: number, restored?: { readonly attempts: number }): void {
    if (restored === undefined) {
      if (item.sequence <= this.#through) throw new RangeError(`change ${item.sequence} comes after ${this.#through}`);
      this.#through = item.sequence;
    }
    const entry: Entry<T> = {
      item,
      bytes,
      attempts: restored?.attempts ?? 0,
      dueAt: Number.NEGATIVE_INFINITY,
      inFlight: false,
    };
    this.#pending.set(item.sequence, entry);
    this.#bytes += bytes;
    const ofKey = this.#keys.get(item.key);
    if (ofKey === undefined) {
      this.#keys.set(item.key, [entry]);
      this.#waiting.add(entry);
    } else ofKey.push(entry);
  }

  /** A change to attempt now, marked as in flight; undefined: none is due. */
  take(now: number): T | undefined {
    for (const entry of this.#waiting) {
      if (entry.dueAt > now) continue;
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

  /** Failed attempts so far of a change in the window. */
  attempts(sequence: number): number {
    return this.#inFlight(sequence).attempts;
  }

  /** The attempt failed; another may begin at `dueAt`. */
  failed(sequence: number, dueAt: number): void {
    const entry = this.#inFlight(sequence);
    entry.inFlight = false;
    entry.attempts++;
    entry.dueAt = dueAt;
    this.#waiting.add(entry);
  }

  /** The attempt was called off before it told anything. */
  released(sequence: number): void {
    const entry = this.#inFlight(sequence);
    entry.inFlight = false;
    this.#waiting.add(entry);
  }

  /** Delivered or given up: the key goes on with its next. */
  settled(sequence: number): void {
    const entry = this.#inFlight(sequence);
    this.#pending.delete(sequence);
    this.#bytes -= entry.bytes;
    const ofKey = this.#keys.get(entry.item.key) as Entry<T>[];
    ofKey.shift();
    const next = ofKey[0];
    if (next === undefined) this.#keys.delete(entry.item.key);
    else this.#waiting.add(next);
  }

  /** The endpoint answers again: what waits for its next attempt is due now. */
  hurry(): void {
    for (const entry of this.#waiting) entry.dueAt = Number.NEGATIVE_INFINITY;
  }

  checkpoint(): WindowCheckpoint {
    return {
      through: this.#through,
      pending: Array.from(this.#pending, ([sequence, { attempts }]) => [sequence, attempts] as const),
    };
  }

  #inFlight(sequence: number): Entry<T> {
    const entry = this.#pending.get(sequence);
    if (entry === undefined || !entry.inFlight) throw new RangeError(`change ${sequence} is not in flight`);
    return entry;
  }
}
