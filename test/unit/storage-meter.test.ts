import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StatefoldError } from '../../src/core/errors.js';
import { StoredBytes } from '../../src/store/stored-bytes.js';
import { StorageMeter } from '../../src/tenancy/storage-meter.js';

const DAY = 86_400_000;

describe('what a tenant stores', () => {
  it('counts commits for good, and changes until their day is past the retention', () => {
    const bytes = new StoredBytes();
    bytes.addCommit(100);
    bytes.addChange(10, 3 * DAY + 5);
    bytes.addChange(20, 4 * DAY - 1);
    bytes.addChange(40, 4 * DAY);
    assert.equal(bytes.total(0), 170);
    assert.equal(bytes.total(3 * DAY), 170);
    assert.equal(bytes.total(4 * DAY - 1), 170);
    assert.equal(bytes.total(4 * DAY), 140);
    assert.equal(bytes.total(9 * DAY), 100);
  });

  it('is the same again from its row', () => {
    const bytes = new StoredBytes();
    bytes.addCommit(7);
    bytes.changeState(0, 50);
    bytes.changeState(50, 30);
    bytes.addChange(2, 9 * DAY);
    bytes.addChange(1, 8 * DAY);
    const again = new StoredBytes(structuredClone(bytes.row));
    assert.deepEqual(again.row, {
      commits: 7,
      states: 30,
      changes: [
        [8, 1],
        [9, 2],
      ],
    });
    assert.equal(again.total(0), 40);
    again.addChange(5, 9 * DAY + 1);
    assert.deepEqual(again.row.changes, [
      [8, 1],
      [9, 7],
    ]);
  });

  it('is all partitions that are here and the code, against the quota of the moment', () => {
    let [quota, code, idle] = [100, 30, 0];
    const meter = new StorageMeter({
      quota: () => quota,
      definitionBytes: () => code,
      changesRetentionMs: DAY,
      now: () => 10 * DAY,
      idle: () => idle++,
    });
    const refusal = (): StatefoldError | undefined => meter.refusal;
    const [first, second] = [new StoredBytes(), new StoredBytes()];
    const ends = [meter.add(first), meter.add(second)];
    first.addCommit(40);
    second.addChange(29, 10 * DAY);
    second.addChange(1_000, 8 * DAY);
    assert.deepEqual([meter.usage, refusal()], [99, undefined]);
    second.addCommit(1);
    assert.equal(refusal()?.code, 'QUOTA_EXCEEDED');
    assert.deepEqual(refusal()?.details, { quota: 'storageBytes', usage: 100, limit: 100 });
    code = 0;
    assert.equal(refusal(), undefined);
    quota = 70;
    assert.equal(refusal()?.code, 'QUOTA_EXCEEDED');
    ends[1]?.();
    assert.deepEqual([meter.usage, refusal(), idle], [40, undefined, 0]);
    ends[0]?.();
    ends[0]?.();
    assert.equal(idle, 1);
  });
});
