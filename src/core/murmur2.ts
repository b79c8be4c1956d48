const SEED = 0x9747b28c;
const M = 0x5bd1e995;

/** Kafka's hash of keys: what its own producers choose a partition by. 32 bits, signed. */
export function murmur2(data: Buffer): number {
  const { length } = data;
  const whole = length & ~3;
  let h = SEED ^ length;
  for (let i = 0; i < whole; i += 4) {
    let k = Math.imul(data.readInt32LE(i), M);
    k = Math.imul(k ^ (k >>> 24), M);
    h = Math.imul(h, M) ^ k;
  }
  if (whole < length) {
    for (let i = length - 1; i >= whole; i--) h ^= (data[i] ?? 0) << (8 * (i - whole));
    h = Math.imul(h, M);
  }
  h = Math.imul(h ^ (h >>> 13), M);
  return h ^ (h >>> 15);
}

/** The partition of an aggregate among so many, the same for ever: the one that Kafka's default partitioner gives its id as a key. */
export const partitionOf = (aggregateId: string, partitions: number): number =>
  partitions === 1 ? 0 : (murmur2(Buffer.from(aggregateId)) & 0x7fffffff) % partitions;
