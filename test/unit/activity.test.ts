import assert from 'node:assert/strict';
import test, { mock } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { appendBytes, PRODUCE_BYTES, type Log, type LogRecord, type NewRecord } from '../../src/log/log.js';
import { Activity } from '../../src/tenancy/activity.js';
import { until } from '../support/service.js';

/** A log of the one partition, in memory. */
class NotesLog implements Partial<Log> {
  readonly appends: (readonly NewRecord[])[] = [];
  readonly records: LogRecord[] = [];

  ensureTopics(): Promise<void> {
    return Promise.resolve();
  }
  startOffset(): Promise<number> {
    return Promise.resolve(0);
  }
  endOffset(): Promise<number> {
    return Promise.resolve(this.records.length);
  }
  append(_of: unknown, records: readonly NewRecord[]): Promise<{ baseOffset: number; timestamp: number }> {
    const [baseOffset, timestamp] = [this.records.length, Date.now()];
    this.appends.push(records);
    for (const { key, value } of records) this.records.push({ key, value, timestamp, offset: this.records.length });
    return Promise.resolve({ baseOffset, timestamp });
  }
  read(_of: unknown, from: number): Promise<{ records: LogRecord[]; end: number; startOffset: number }> {
    return Promise.resolve({ records: this.records.slice(from), end: this.records.length, startOffset: 0 });
  }
}

const open = async (t: test.TestContext, log: NotesLog): Promise<Activity> => {
  const activity = await Activity.open({ log: log as unknown as Log, logger: silentLogger });
  t.after(() => activity.close());
  return activity;
};
const NOBODY = { active: { activeKeys: [] }, notified: { wanted: [] }, listener: { consider: () => undefined } };

test('what is active is noted in appends that the log takes, however many tenants there are', async (t) => {
  const log = new NotesLog();
  const activity = await open(t, log);
  const keys = Array.from({ length: 100_000 }, (_, i) => `tenant-${i}`);
  for (const key of keys) activity.note(key, 'active');
  await until(() => log.records.length >= keys.length);
  assert.ok(log.appends.every((records) => appendBytes(records) <= PRODUCE_BYTES));
  const elsewhere = await open(t, log);
  assert.deepEqual([...elsewhere.keys()].toSorted(), keys.toSorted());
});

test('what a process noted that is gone is forgotten', async (t) => {
  mock.timers.enable({ apis: ['Date', 'setInterval'], now: 1_800_000_000_000 });
  t.after(() => mock.timers.reset());
  const log = new NotesLog();
  await log.append(undefined, [{ key: Buffer.from('acme'), value: Buffer.from('active') }]);
  const activity = await open(t, log);
  activity.follow(NOBODY);
  assert.deepEqual([activity.has('acme'), activity.keys()], [true, ['acme']]);
  mock.timers.tick(241_000);
  assert.deepEqual([activity.has('acme'), activity.keys()], [false, []]);
  mock.timers.tick(120_000);
  mock.timers.setTime(1_800_000_000_000);
  assert.equal(activity.has('acme'), false, 'it is not held any more');
});
