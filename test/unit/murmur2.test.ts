import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Partitioners } from 'kafkajs';
import { murmur2, partitionOf } from '../../src/core/murmur2.js';

// Of Kafka's own UtilsTest.testMurmur2.
const KNOWN: readonly (readonly [string, number])[] = [
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
  ['abc', 479470107],
];

test('the hash is that of Kafka', () => {
  for (const [text, hash] of KNOWN) assert.equal(murmur2(Buffer.from(text)), hash, text);
});

test('an aggregate is in the partition that kafkajs gives its id as a key', () => {
  const kafkajs = Partitioners.DefaultPartitioner();
  for (let i = 0; i < 5000; i++) {
    const id =
      i % 3 === 0
        ? randomBytes(i % 41).toString('latin1')
        : i % 3 === 1
          ? `account-${i}`
          : `ключ-${i}-🔑`.slice(0, 1 + (i % 9));
    const partitions = 2 + (i % 31);
    const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({
      partitionErrorCode: 0,
      partitionId,
      leader: 0,
      replicas: [],
      isr: [],
    }));
    assert.equal(
      partitionOf(id, partitions),
      kafkajs({ topic: 't', partitionMetadata, message: { key: id, value: '' } }),
      JSON.stringify(id),
    );
  }
  assert.equal(partitionOf('whatever', 1), 0);
});
