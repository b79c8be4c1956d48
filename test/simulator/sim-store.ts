import { deserialize, serialize } from 'node:v8';
import { asBinary, type RootDatabase } from 'lmdb';
import { silentLogger } from '../../src/core/logger.js';
import { tenantOfKey } from '../../src/core/slots.js';
import { StoreSection } from '../../src/store/store-section.js';
import { OpenRanges } from '../../src/store/open-ranges.js';
import { realImmediate, type Action, type Scheduler, type SimProcess } from './scheduler.js';

interface Bounds {
  readonly start: string;
  readonly end: string;
  readonly reverse?: boolean;
  readonly exclusiveStart?: boolean;
}

/** Under which a value says that it is encoded. */
const [BINARY = ''] = Object.keys(asBinary(Buffer.alloc(0)));

/** What the disk keeps of a value: as with lmdb, who reads it gets a copy, and who wrote it may change its own. */
function encoded(value: unknown): Buffer {
  const already =
    typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[BINARY] : undefined;
  return Buffer.isBuffer(already) ? already : serialize(value);
}

/** The disk of one machine: what was committed survives its processes. The part of lmdb that a section uses, and no more. */
export class SimDisk {
  readonly #scheduler: Scheduler;
  readonly #stored = new Map<string, Buffer>();
  #sorted: string[] | undefined;
  #committing: Action[] = [];
  /** Of 100 writes so many fail. */
  failing = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  get size(): number {
    return this.#stored.size;
  }

  /** The store as a process on this machine opens it. */
  open(owner: SimProcess, flushEntries: number): { section(name: string): StoreSection } {
    let writes: [string, Buffer | undefined][] = [];
    const db = {
      encoder: { encode: serialize },
      get: (key: string): unknown => {
        const value = this.#stored.get(key);
        return value === undefined ? undefined : deserialize(value);
      },
      put: (key: string, value: unknown) => void writes.push([key, encoded(value)]),
      remove: (key: string) => void writes.push([key, undefined]),
      getRange: (bounds: Bounds) => this.#range(bounds),
      getKeys: (bounds: Bounds) => this.#keys(bounds),
      batch: (work: () => void) => {
        writes = [];
        work();
        return this.#commit(owner, writes);
      },
    };
    // Between two steps, and none of them: where ranges are closed is nobody's choice.
    const ranges = new OpenRanges((work) => void realImmediate(work));
    return {
      section: (name) =>
        new StoreSection({
          db: db as unknown as RootDatabase<unknown, string>,
          tenantId: tenantOfKey(name),
          prefix: `${name}\u0002`,
          logger: silentLogger,
          flushEntries,
          untilFlush: () => 250,
          ranges,
        }),
    };
  }

  /** The process is gone: what it had asked to be committed came to the disk before, or never. */
  crash(): void {
    const landed = this.#scheduler.random.below(this.#committing.length + 1);
    this.#committing.forEach((commit, i) => {
      this.#scheduler.cancel(commit);
      if (i < landed) commit.run();
    });
    this.#committing = [];
  }

  /** All that is on it: what a snapshot holds. */
  image(): ReadonlyMap<string, Buffer> {
    return new Map(this.#stored);
  }

  /** Nothing runs on the machine: it has this from now on, and no more. */
  load(image: ReadonlyMap<string, Buffer>): void {
    this.#stored.clear();
    for (const [key, value] of image) this.#stored.set(key, value);
    this.#sorted = undefined;
  }

  #commit(owner: SimProcess, writes: readonly [string, Buffer | undefined][]): Promise<void> {
    const scheduler = this.#scheduler;
    return new Promise((resolve, reject) => {
      const fails = scheduler.random.chance(this.failing / 100);
      const commit = scheduler.add({
        label: `(${owner.id}) the store ${fails ? 'cannot commit' : 'commits'} ${writes.length} entries`,
        weight: 1,
        run: () => {
          this.#committing = this.#committing.filter((one) => one !== commit);
          if (fails) {
            scheduler.add({
              owner,
              label: 'the store has failed',
              weight: 1,
              run: () => reject(new Error('the disk is full')),
            });
            return;
          }
          this.#sorted = undefined;
          for (const [key, value] of writes)
            if (value === undefined) this.#stored.delete(key);
            else this.#stored.set(key, value);
          scheduler.add({ owner, label: 'the store has committed', weight: 1, run: resolve });
        },
      });
      this.#committing.push(commit);
    });
  }

  #keys({ start, end, reverse, exclusiveStart }: Bounds): string[] {
    const sorted = (this.#sorted ??= [...this.#stored.keys()].sort());
    const [low, high] = reverse ? [end, start] : [start, end];
    const isBehind = (key: string): boolean => (exclusiveStart === true && reverse !== true ? key > low : key >= low);
    const keys = sorted.filter((key) => isBehind(key) && key < high);
    return reverse ? keys.reverse() : keys;
  }

  *#range(bounds: Bounds): Generator<{ key: string; value: unknown }> {
    for (const key of this.#keys(bounds)) {
      const value = this.#stored.get(key);
      if (value !== undefined) yield { key, value: deserialize(value) };
    }
  }
}
