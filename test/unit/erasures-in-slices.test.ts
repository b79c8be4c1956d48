// An aggregate may have a million records: to gather them, others have their turn in between.
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
            // Some several times, and not in order.
            for (const offset of [...Array.from({ length: RECORDS }, (_, i) => i), 7, 5]) {
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
