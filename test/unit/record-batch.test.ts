import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { decodeBatch, encodeBatch, endOfBatch, firstOffset, pickRecords } from '../../src/log/embedded/record-batch.js';

const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array));
const records = fc.array(fc.record({ key: bytes, value: fc.option(bytes) }), { maxLength: 20 });
const base = fc.integer({ min: 0, max: 2 ** 40 });
const timestamp = fc.integer({ min: 0, max: 4e12 });

it('a batch comes back as it was written', () => {
  fc.assert(
    fc.property(base, timestamp, records, (first, time, written) => {
      const batch = decodeBatch(first, encodeBatch(time, written));
      assert.deepEqual(batch, {
        timestamp: time,
        end: first + written.length,
        records: written.map(({ key, value }, i) => ({ offset: first + i, timestamp: time, key, value })),
      });
    }),
  );
});

it('what compaction keeps of a batch stays at its offsets, and the batch as long as it was', () => {
  fc.assert(
    fc.property(base, timestamp, records, fc.infiniteStream(fc.boolean()), (first, time, written, keep) => {
      const kept = written.map((record, delta) => ({ record, delta })).filter(() => keep.next().value);
      const batch = decodeBatch(
        first,
        encodeBatch(
          time,
          kept.map(({ record }) => record),
          kept.map(({ delta }) => delta),
          written.length,
        ),
      );
      assert.equal(batch.end, first + written.length);
      assert.deepEqual(
        batch.records.map(({ offset, value }) => [offset - first, value]),
        kept.map(({ delta, record }) => [delta, record.value]),
      );
    }),
  );
});

it('single records are found without the others', () => {
  fc.assert(
    fc.property(
      base,
      timestamp,
      records,
      fc.infiniteStream(fc.boolean()),
      fc.infiniteStream(fc.boolean()),
      (first, time, written, keep, want) => {
        const kept = written.map((record, delta) => ({ record, delta })).filter(() => keep.next().value);
        const batch = encodeBatch(
          time,
          kept.map(({ record }) => record),
          kept.map(({ delta }) => delta),
          written.length,
        );
        const wanted = Array.from({ length: written.length + 2 }, (_, i) => first + i).filter(() => want.next().value);
        const all = decodeBatch(first, batch);
        assert.deepEqual(
          pickRecords(first, batch, wanted),
          all.records.filter(({ offset }) => wanted.includes(offset)),
        );
        assert.deepEqual([firstOffset(first, batch), endOfBatch(first, batch)], [all.records[0]?.offset, all.end]);
      },
    ),
  );
});

it('an empty value is no tombstone; the bytes are those of the format', () => {
  const batch = encodeBatch(1_700_000_000_000, [
    { key: Buffer.from('k'), value: Buffer.alloc(0) },
    { key: Buffer.from('ab'), value: null },
  ]);
  assert.equal(
    batch.toString('hex'),
    '0068e5cf8b010000' +
      '02000000' +
      '02000000' +
      '00000000' +
      '01000000' +
      '01000000' +
      '6b' +
      '01000000' +
      '02000000' +
      '00000000' +
      '6162',
  );
  assert.deepEqual(
    decodeBatch(5, batch).records.map(({ offset, value }) => [offset, value?.length ?? null]),
    [
      [5, 0],
      [6, null],
    ],
  );
});
