import { READ_BYTES } from '../core/reads.js';
import { nextTurn } from '../core/slices.js';
import type { AggregatePartition } from '../aggregates/partition.js';
import type { Budget, Page } from '../feed/feed.js';
import { Signal, type Advanced } from '../feed/signal.js';
import { commitInput, inputBytes, inputOffset, type Input, type InputFeed } from '../feed/inputs.js';
import { commitAt } from '../log/codec/commit-of-view.js';
import type { TenantOrder } from './tenant-order.js';

/** The partitions of a tenant that this process has. */
export interface PartitionsHere {
  /** Undefined while this process does not have it. */
  partition(partition: number): AggregatePartition | undefined;
}

const INPUTS_PER_READ = 4096;
/** Read in one turn of the event loop: where partitions are busy side by side a page is of as many spans as it has records. */
const SPANS_AT_ONCE = 64;

/**
 * The accepted records of all partitions of a tenant in its one order. The offset of each is its place there; so for whoever reads
 * it a tenant of several partitions looks like one of a single partition. It ends before what is placed and not folded here yet.
 */
export class MergedFeed implements InputFeed {
  readonly #order: Pick<TenantOrder, 'spanAt' | 'end'>;
  readonly #partitions: PartitionsHere;
  readonly #signal = new Signal();

  constructor(order: Pick<TenantOrder, 'spanAt' | 'end'>, partitions: PartitionsHere) {
    this.#order = order;
    this.#partitions = partitions;
  }

  get head(): number {
    return this.#order.end;
  }

  /** What is in memory of several partitions is seldom all that is asked for. */
  recent(): undefined {
    return undefined;
  }

  subscribe(advanced: Advanced): () => void {
    return this.#signal.subscribe(advanced);
  }

  /** The order has grown, or what it places has come here. */
  advanced(): void {
    this.#signal.raise();
  }

  async read(from: number, { bytes: maxBytes = READ_BYTES }: Budget): Promise<Page<Input>> {
    const items: Input[] = [];
    let place = from;
    for (let bytes = 0, spans = 1; bytes < maxBytes && items.length < INPUTS_PER_READ; spans++) {
      if (spans % SPANS_AT_ONCE === 0) await nextTurn();
      const span = this.#order.spanAt(place);
      const partition = span === undefined ? undefined : this.#partitions.partition(span.partition);
      if (span === undefined || partition === undefined) break;
      const ahead = span.from - span.base;
      const offset = place + ahead;
      const end = Math.min(span.end, partition.position, offset + INPUTS_PER_READ);
      if (offset >= end) break;
      const page = await partition.inputs.read(offset, { bytes: maxBytes - bytes, items: end - offset });
      let next = Math.min(page.end, end);
      for (const input of page.items) {
        const at = inputOffset(input);
        if (at >= end) break;
        if (bytes >= maxBytes) {
          next = at;
          break;
        }
        items.push(placed(input, at - ahead));
        bytes += inputBytes(input);
      }
      if (next === offset) break;
      place = next - ahead;
    }
    return { items, end: place };
  }
}

const placed = (input: Input, place: number): Input =>
  input.kind === 'commit' ? commitInput(commitAt(input.commit, place)) : { ...input, offset: place };
