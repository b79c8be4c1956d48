/** Kafka's protocol primitives, and a request with its answer. Big endian; lengths and counts are signed. */

export interface Call<T> {
  readonly name: string;
  readonly apiKey: number;
  readonly apiVersion: number;
  /** Written to the socket one after the other. */
  readonly body: readonly Buffer[];
  /** Where the answer says for how long a quota holds the client back; without it that is not looked for. */
  readonly throttleAt?: 'start' | 'end';
  decode(payload: Buffer): T | Promise<T>;
}

export class WireWriter {
  #bytes: Buffer;
  #at = 0;

  constructor(size = 256) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  /** What was written so far. */
  take(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  int8(value: number): this {
    this.#at = this.#room(1).writeInt8(value, this.#at);
    return this;
  }

  int16(value: number): this {
    this.#at = this.#room(2).writeInt16BE(value, this.#at);
    return this;
  }

  int32(value: number): this {
    this.#at = this.#room(4).writeInt32BE(value, this.#at);
    return this;
  }

  int64(value: number): this {
    this.#at = this.#room(8).writeBigInt64BE(BigInt(value), this.#at);
    return this;
  }

  string(value: string | null): this {
    if (value === null) return this.int16(-1);
    const length = Buffer.byteLength(value);
    this.int16(length);
    this.#at += this.#room(length).write(value, this.#at);
    return this;
  }

  /** What a request says of partitions, topic by topic. */
  partitions<T extends { readonly topic: string }>(parts: readonly T[], write: (part: T) => void): this {
    const topics = byTopic(parts);
    this.int32(topics.length);
    for (const [topic, partitions] of topics) {
      this.string(topic).int32(partitions.length);
      partitions.forEach(write);
    }
    return this;
  }

  #room(bytes: number): Buffer {
    if (this.#at + bytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes));
      this.#bytes.copy(larger, 0, 0, this.#at);
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}

/** Reads from the start of an answer. @throws RangeError past its end. */
export class WireReader {
  #at = 0;

  constructor(readonly bytes: Buffer) {}

  int8(): number {
    return this.bytes.readInt8((this.#at += 1) - 1);
  }

  int16(): number {
    return this.bytes.readInt16BE((this.#at += 2) - 2);
  }

  int32(): number {
    return this.bytes.readInt32BE((this.#at += 4) - 4);
  }

  int64(): number {
    return Number(this.bytes.readBigInt64BE((this.#at += 8) - 8));
  }

  string(): string | null {
    const length = this.int16();
    return length < 0 ? null : this.#take(length).toString('utf8');
  }

  /** A view of the answer; empty for null. */
  blob(): Buffer {
    return this.#take(Math.max(0, this.int32()));
  }

  array<T>(read: () => T): T[] {
    const count = this.int32();
    const out: T[] = [];
    for (let i = 0; i < count; i++) out.push(read());
    return out;
  }

  /** What an answer says of partitions, topic by topic. */
  partitions<T>(read: (topic: string) => T): T[] {
    return this.array(() => {
      const topic = this.string() ?? '';
      return this.array(() => read(topic));
    }).flat();
  }

  #take(length: number): Buffer {
    if (this.#at + length > this.bytes.length) throw new RangeError('the answer is shorter than it says');
    return this.bytes.subarray(this.#at, (this.#at += length));
  }
}

/** Groups what concerns partitions by topic, as Kafka's requests want it. */
export function byTopic<T extends { readonly topic: string }>(items: Iterable<T>): [topic: string, items: T[]][] {
  const topics = new Map<string, T[]>();
  for (const item of items) {
    const of = topics.get(item.topic);
    if (of === undefined) topics.set(item.topic, [item]);
    else of.push(item);
  }
  return [...topics];
}
