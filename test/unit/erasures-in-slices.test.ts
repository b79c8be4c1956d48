// An aggregate may have a million records: others have their turn in between, and no list of them is held.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Erasures, type ErasuresOptions } from '../../src/aggregates/erasures.js';
import { silentLogger } from '../../src/core/logger.js';

const RECORDS = 20_000;

test(
  'the records of an erased aggregate are gathered in slices, and each is looked at once',
  { timeout: 20_000 },
  async () => {
    let turn = 0;
    const count = (): void => {
      turn++;
      ticking = setImmediate(count);
    };
    let ticking = setImmediate(count);
    const onTurn = new Map<number, number>();
    const looked: number[] = [];
    const row = { aggregateType: 'a', offset: RECORDS, timestamp: 1, status: 'erasing' as const };
    const erased = await new Promise((resolve) => {
      const options = {
        log: {
          refresh: () => Promise.resolve(),
          redactedOf: () => [3, 2],
          erasedFrom: () => Promise.resolve(new Map()),
          isRedactedOf: () => false,
          readAt: (_of: unknown, offsets: readonly number[]) => {
            looked.push(...offsets);
            return Promise.resolve({ records: [], end: RECORDS });
          },
          tidy: () => Promise.resolve(),
        },
        ref: { topic: 'events', partition: 0 },
        tables: {
          hasErasures: true,
          erasures: () => [['a-1', row]],
          erasure: () => row,
          *recordsOf() {
            for (let offset = RECORDS; offset-- > 0;) {
              onTurn.set(turn, (onTurn.get(turn) ?? 0) + 1);
              yield offset;
            }
          },
          voids: () => [5, RECORDS - 1],
        },
        clock: { now: () => 1 },
        partition: {
          owned: true,
          caughtUpAsOwner: () => Promise.resolve(),
          propose: (control: unknown) => {
            resolve(control);
            return Promise.resolve(1);
          },
        },
        logger: silentLogger,
      };
      new Erasures(options as unknown as ErasuresOptions).start();
    });
    clearImmediate(ticking);
    assert.deepEqual(erased, { kind: 'Erased', value: { aggregateId: 'a-1', timestamp: 1 } });
    assert.deepEqual(
      looked.sort((a, b) => a - b),
      Array.from({ length: RECORDS }, (_, i) => i),
    );
    const most = Math.max(...onTurn.values());
    assert.ok(most <= RECORDS / 4, `${most} of ${RECORDS} records were gathered on one turn`);
  },
);

test('of an aggregate with more records than are held each is tombstoned, once all that is redacted is', async () => {
  const told: string[] = [];
  const tombstoned = new Set<string>();
  let read = 0;
  // Each hundredth is a transaction with another aggregate.
  const isTransaction = (offset: number): boolean => offset % 100 === 0;
  const redacted = new Set<number>();
  await new Promise((resolve) => {
    const options = {
      log: {
        refresh: () => Promise.resolve(),
        redactedOf: () => [...redacted],
        erasedFrom: (offsets: readonly number[]) =>
          Promise.resolve(new Map(offsets.filter((one) => redacted.has(one)).map((one) => [one, ['a-1']]))),
        isRedactedOf: (_: string, offset: number) => redacted.has(offset),
        readAt: (_: unknown, offsets: readonly number[]) => {
          read += offsets.length;
          const records = offsets.map((offset) => ({
            ...{ offset, key: Buffer.from(`key-${offset}`), timestamp: 1 },
            value: Buffer.from(String(offset)),
          }));
          return Promise.resolve({ records, end: RECORDS });
        },
        redact: ({ offset }: { offset: number }) => {
          redacted.add(offset);
          told.push(`redacted ${offset}`);
          return Promise.resolve();
        },
        append: (_: unknown, records: readonly { key: Buffer; value: null }[]) => {
          assert.ok(records.length <= 256);
          for (const { key } of records) tombstoned.add(key.toString());
          told.push('tombstoned');
          return Promise.resolve();
        },
        tidy: () => Promise.resolve(),
      },
      ref: { topic: 'events', partition: 0 },
      codec: {
        decode: (value: Buffer) => {
          const offset = Number(value.toString());
          const part = (aggregateId: string): object => ({ aggregateId, baseVersion: 1, events: [] });
          if (!isTransaction(offset)) return { fence: {}, body: { kind: 'Commit', value: part('a-1') } };
          const left = redacted.has(offset) ? [part('a-2')] : [part('a-1'), part('a-2')];
          return { fence: {}, body: { kind: 'Transaction', value: { parts: left } } };
        },
        encode: () => Buffer.from('left'),
      },
      tables: {
        hasErasures: true,
        erasures: () => [],
        erasure: () => ({ status: 'erasing' }),
        *recordsOf() {
          for (let offset = RECORDS; offset-- > 0;) yield offset;
        },
        voids: () => [],
      },
      clock: { now: () => 1 },
      partition: {
        owned: true,
        caughtUpAsOwner: () => Promise.resolve(),
        propose: () => Promise.resolve(resolve(undefined)),
      },
      logger: silentLogger,
    };
    new Erasures(options as unknown as ErasuresOptions).straggled('a-1');
  });
  const transactions = Array.from({ length: RECORDS / 100 }, (_, i) => `redacted ${RECORDS - 100 * (i + 1)}`);
  assert.deepEqual(told.slice(0, transactions.length), transactions, 'the last one first, and before any tombstone');
  assert.ok(told.slice(transactions.length).every((one) => one === 'tombstoned'));
  assert.equal(tombstoned.size, RECORDS);
  assert.equal(read, 2 * RECORDS, 'once for what is redacted, once for the keys');
});
