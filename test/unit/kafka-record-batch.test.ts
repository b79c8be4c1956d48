import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { InvariantError } from '../../src/core/errors.js';
import { decodeRecordBatch, encodeRecordBatch, splitRecordSet } from '../../src/log/kafka/record-batch.js';
import type { LogRecord, NewRecord } from '../../src/log/log.js';

// kafkajs's own codec, to hold ours against.
interface Theirs {
  readonly records: readonly {
    readonly offset: string;
    readonly timestamp: string;
    readonly key: Buffer;
    readonly value: Buffer | null;
  }[];
}
const require = createRequire(import.meta.url);
const Decoder = require('kafkajs/src/protocol/decoder') as new (bytes: Buffer) => unknown;
const decodeTheirs = require('kafkajs/src/protocol/recordBatch/v0/decoder') as (decoder: unknown) => Promise<Theirs>;
const { RecordBatch: encodeTheirs } = require('kafkajs/src/protocol/recordBatch/v0') as {
  readonly RecordBatch: (of: object) => Promise<{ buffer: Buffer }>;
};
const encodeTheirRecord = require('kafkajs/src/protocol/recordBatch/record/v0') as (of: object) => unknown;

const GZIP = 1;
const record = fc.record({
  key: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  value: fc.option(fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))),
});
const shape = (records: readonly (LogRecord | Theirs['records'][number])[]): unknown[] =>
  records.map(({ offset, timestamp, key, value }) => [
    Number(offset),
    Number(timestamp),
    key.toString('hex'),
    value?.toString('hex') ?? null,
  ]);
const at = (batch: Buffer, base: number): Buffer => {
  const copy = Buffer.from(batch);
  copy.writeBigInt64BE(BigInt(base), 0);
  return copy;
};

async function decodeAll(set: Buffer, from = 0): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for (const batch of splitRecordSet(set)) out.push(...(await decodeRecordBatch(batch, from)));
  return out;
}

describe("Kafka's record batch", () => {
  it('has the bytes that it always had', () => {
    const batch = encodeRecordBatch(
      [
        { key: Buffer.from('k'), value: Buffer.from('value') },
        { key: Buffer.from('gone'), value: null },
      ],
      1_700_000_000_000,
    );
    assert.equal(
      batch.toString('hex'),
      '000000000000000000000049ffffffff0275452a1a0000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000218000000026b0a76616c7565001400000208676f6e650100',
    );
  });

  it('is read by kafkajs as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(record, { minLength: 1, maxLength: 300 }),
        fc.nat(2 ** 40),
        async (records: NewRecord[], timestamp) => {
          const theirs = await decodeTheirs(new Decoder(encodeRecordBatch(records, timestamp)));
          assert.deepEqual(
            shape(theirs.records),
            records.map(({ key, value }, i) => [i, timestamp, key.toString('hex'), value?.toString('hex') ?? null]),
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  it('is read by us as kafkajs wrote it, compressed too', async () => {
    for (const compression of [0, GZIP]) {
      const deltas = [0, 3, 400_000, 3_000_000_000];
      const records = deltas.map((timestampDelta, i) =>
        encodeTheirRecord({
          offsetDelta: i * 70,
          timestampDelta,
          key: `k${i}`,
          value: i === 2 ? null : `v${i}`,
          headers: { h: 'x' },
        }),
      );
      const { buffer } = await encodeTheirs({
        compression,
        records,
        firstTimestamp: 1000,
        maxTimestamp: 2000,
        lastOffsetDelta: 210,
      });
      const [batch] = splitRecordSet(at(buffer, 5000));
      assert.deepEqual([batch?.base, batch?.end], [5000, 5211]);
      assert.deepEqual(
        shape(await decodeAll(at(buffer, 5000))),
        deltas.map((delta, i) => [
          5000 + i * 70,
          1000 + delta,
          Buffer.from(`k${i}`).toString('hex'),
          i === 2 ? null : Buffer.from(`v${i}`).toString('hex'),
        ]),
      );
    }
  });

  it('gives what lies at and past an offset, and leaves out a batch that is cut', async () => {
    const records = Array.from({ length: 100 }, (_, i) => ({ key: Buffer.from(`${i}`), value: Buffer.alloc(i) }));
    const set = Buffer.concat([at(encodeRecordBatch(records, 1), 10), at(encodeRecordBatch(records, 1), 110)]);
    assert.deepEqual(
      (await decodeAll(set, 60)).map(({ offset }) => offset),
      Array.from({ length: 150 }, (_, i) => 60 + i),
    );
    for (const cut of [set.length - 1, set.length / 2 + 70, set.length / 2 + 3])
      assert.equal((await decodeAll(set.subarray(0, cut))).length, 100);
    assert.deepEqual(splitRecordSet(set.subarray(0, 50)), []);
  });

  it('is refused when any of its bytes has changed, or its format is not known', async () => {
    const whole = encodeRecordBatch([{ key: Buffer.from('key'), value: Buffer.from('value') }], 1);
    for (let i = 17; i < whole.length; i++) {
      const damaged = Buffer.from(whole);
      damaged[i] = (damaged[i] ?? 0) ^ 0x10;
      await assert.rejects(() => decodeAll(damaged), InvariantError, `byte ${i}`);
    }
    const old = Buffer.from(whole);
    old[16] = 1;
    assert.throws(() => splitRecordSet(old), /format \(magic 1\)/);
    // A codec that is not there: kafkajs has gzip alone.
    const { buffer } = await encodeTheirs({
      compression: GZIP,
      records: [encodeTheirRecord({ offsetDelta: 0, timestampDelta: 0, key: 'k', value: 'v' })],
    });
    const zstd = Buffer.from(buffer);
    zstd.writeInt16BE(4, 21);
    zstd.writeUInt32BE(
      (require('kafkajs/src/protocol/recordBatch/crc32C') as (bytes: Buffer) => number)(zstd.subarray(21)),
      17,
    );
    await assert.rejects(() => decodeAll(zstd), /offset 0 is compressed with/);
  });

  it('passes over the marks of transactions', async () => {
    const marks = Buffer.from(encodeRecordBatch([{ key: Buffer.alloc(4), value: Buffer.alloc(6) }], 1));
    marks.writeInt16BE(0x30, 21);
    marks.writeUInt32BE(
      (require('kafkajs/src/protocol/recordBatch/crc32C') as (bytes: Buffer) => number)(marks.subarray(21)),
      17,
    );
    const after = at(encodeRecordBatch([{ key: Buffer.from('k'), value: null }], 1), 1);
    assert.deepEqual(
      (await decodeAll(Buffer.concat([marks, after]))).map(({ offset }) => offset),
      [1],
    );
  });
});
