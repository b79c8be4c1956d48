import { commitAt } from '../log/codec/commit-of-view.js';
import { inputBytes, inputOffset, type Input, type InputReader } from '../feed/inputs.js';
import type { TenantOrder } from './tenant-order.js';
import type { AggregatePartition } from '../aggregates/partition.js';

export interface MergedReaderOptions {
  readonly order: Pick<TenantOrder, 'spanAt'>;
  /** Undefined while this process does not have it. */
  readonly partition: (partition: number) => Pick<AggregatePartition, 'position' | 'reader'> | undefined;
}

const INPUTS_A_READ = 4096;

/**
 * The accepted records of all partitions of a tenant in its one order. The offset of each is its place there; so for whoever reads
 * it a tenant of several partitions looks like one of a single partition. It ends before what is placed and not folded here yet.
 */
export class MergedReader implements InputReader {
  readonly #options: MergedReaderOptions;

  constructor(options: MergedReaderOptions) {
    this.#options = options;
  }

  async read(from: number, maxBytes: number): Promise<{ readonly inputs: readonly Input[]; readonly next: number }> {
    const inputs: Input[] = [];
    let place = from;
    for (let bytes = 0; bytes < maxBytes && inputs.length < INPUTS_A_READ;) {
      const span = this.#options.order.spanAt(place);
      const partition = span === undefined ? undefined : this.#options.partition(span.partition);
      if (span === undefined || partition === undefined) break;
      const ahead = span.from - span.base;
      const offset = place + ahead;
      const end = Math.min(span.through, partition.position, offset + INPUTS_A_READ);
      if (offset >= end) break;
      const recent = partition.reader.recent(offset, end);
      const page =
        recent === undefined ? await partition.reader.read(offset, maxBytes - bytes) : { inputs: recent, next: end };
      let next = Math.min(page.next, end);
      for (const input of page.inputs) {
        const at = inputOffset(input);
        if (at >= end) break;
        if (bytes >= maxBytes) {
          next = at;
          break;
        }
        inputs.push(placed(input, at - ahead));
        bytes += inputBytes(input);
      }
      if (next === offset) break;
      place = next - ahead;
    }
    return { inputs, next: place };
  }
}

const placed = (input: Input, place: number): Input =>
  input.kind === 'commit' ? { kind: 'commit', commit: commitAt(input.commit, place) } : { ...input, offset: place };
