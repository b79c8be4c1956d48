// What is left of transactions of an erased aggregate stays in the log: 48 MiB of it are not in memory.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { EventsLog } from '../../src/log/journal/events-log.js';
import type { LogRecord } from '../../src/log/log.js';
import { redactionsRef } from '../../src/log/topics.js';
import { temporaryDirectory } from '../support/service.js';

const MIB = 1024 * 1024;
const RECORDS = 48;
const REF = { topic: 'statefold.acme.events', partition: 0 };

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes of buffers that something holds: what is behind them goes on a later turn than they do. */
async function held(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect();
    await setImmediate();
  }
  return process.memoryUsage().arrayBuffers;
}

async function opened(t: TestContext): Promise<LmdbLog> {
  const log = new LmdbLog({ path: temporaryDirectory(t) });
  t.after(() => log.close());
  await log.ensureTopics([{ topic: REF.topic, partitions: 1, cleanup: { policy: 'tombstones' } }]);
  return log;
}

const keyOf = (offset: number): Buffer => Buffer.from(`record-${offset}`);
const leftOf = (offset: number): Buffer => Buffer.alloc(MIB, offset);
const places = (records: readonly LogRecord[]): (readonly [number, number | undefined, number | undefined])[] =>
  records.map(({ offset, value }) => [offset, value?.[0], value?.length]);
const expected = (offset: number): readonly [number, number, number] => [offset, offset, MIB];

test('what is left of redacted records is read from the log, a bounded amount at a time', async (t) => {
  const log = await opened(t);
  const events = new EventsLog(log, REF, 1);
  for (let offset = 0; offset < RECORDS; offset++)
    await log.append(REF, [{ key: keyOf(offset), value: Buffer.from(`whole ${offset}`) }]);
  const before = await held();
  for (let offset = 0; offset < RECORDS; offset++)
    await events.redact({ offset, key: keyOf(offset), timestamp: 1, erased: ['a'], value: leftOf(offset) });
  const kept = (await held()) - before;
  assert.ok(kept < 8 * MIB, `${kept} bytes are held of ${RECORDS} MiB`);

  const read: (readonly [number, number | undefined, number | undefined])[] = [];
  for (let from = 0; from < RECORDS;) {
    const { records, end } = await events.read(REF, from, 4 * MIB);
    assert.equal(end, RECORDS);
    assert.ok(records.length > 0 && records.length <= 4, `${records.length} MiB in a page of 4`);
    read.push(...places(records));
    from = (records.at(-1)?.offset ?? assert.fail()) + 1;
  }
  assert.deepEqual(
    read,
    Array.from({ length: RECORDS }, (_, offset) => expected(offset)),
  );
  assert.deepEqual(places((await events.readAt(REF, [3, 40])).records), [expected(3), expected(40)]);
  assert.equal(events.redactedOf('a').length, RECORDS);

  // By their offsets, too, however little the log itself has of them.
  const picked: (readonly [number, number | undefined, number | undefined])[] = [];
  for (let left = Array.from({ length: RECORDS }, (_, offset) => offset); left.length > 0;) {
    const { records, looked = left.length } = await events.readAt(REF, left, 4 * MIB);
    assert.ok(looked >= 1 && looked <= 4, `${looked} MiB of 4`);
    picked.push(...places(records));
    left = left.slice(looked);
  }
  assert.deepEqual(picked, read);
});

test('a redaction that another owner has replaced and tombstoned is not missed', async (t) => {
  const log = await opened(t);
  const [reader, owner] = [new EventsLog(log, REF, 1), new EventsLog(log, REF, 1)];
  await log.append(REF, [{ key: keyOf(0), value: Buffer.from('whole') }]);
  const redaction = { offset: 0, key: keyOf(0), timestamp: 1 };
  await reader.redact({ ...redaction, erased: ['a'], value: Buffer.from('without a') });
  await owner.redact({ ...redaction, erased: ['a', 'b'], value: Buffer.from('without a and b') });
  await owner.tidy();
  await log.clean();
  const { records } = await reader.read(REF, 0, MIB);
  assert.deepEqual(
    records.map(({ value }) => value?.toString()),
    ['without a and b'],
  );
  await owner.redact({ ...redaction, erased: ['a', 'b', 'c'], value: undefined });
  await owner.tidy();
  await log.clean();
  const [gone] = (await reader.readAt(REF, [0])).records;
  assert.deepEqual([gone?.offset, gone?.value], [0, null]);
});

test('what could not be tombstoned of redactions is tombstoned later', async (t) => {
  const log = await opened(t);
  const events = new EventsLog(log, REF, 1);
  await log.append(REF, [{ key: keyOf(0), value: Buffer.from('whole') }]);
  const redaction = { offset: 0, key: keyOf(0), timestamp: 1 };
  await events.redact({ ...redaction, erased: ['a'], value: Buffer.from('without a') });
  await events.redact({ ...redaction, erased: ['a', 'b'], value: Buffer.from('without a and b') });
  const appending = t.mock.method(log, 'append', () => Promise.reject(new Error('away')));
  await assert.rejects(events.tidy(), /away/);
  appending.mock.restore();
  await events.tidy();
  await log.clean();
  const left = (await log.read(redactionsRef(REF), 0, MIB)).records.filter(({ value }) => value !== null);
  assert.deepEqual(
    left.map(({ value }) => value?.includes('without a and b')),
    [true],
  );
  assert.deepEqual(await events.erasedFrom([0, 1]), new Map([[0, ['a', 'b']]]));
});

test('a page past records of which nothing is left is as large as any other', async (t) => {
  const log = await opened(t);
  const events = new EventsLog(log, REF, 1);
  const erased = Array.from({ length: 100 }, (_, i) => `aggregate-${i}`.padEnd(250, '.'));
  await log.append(
    REF,
    Array.from({ length: RECORDS }, (_, offset) => ({ key: keyOf(offset), value: Buffer.from('whole') })),
  );
  for (let offset = RECORDS - 2; offset >= 0; offset--)
    await events.redact({ offset, key: keyOf(offset), timestamp: 1, erased, value: undefined });
  for (let offset = 0; offset < RECORDS - 1; offset++) await log.append(REF, [{ key: keyOf(offset), value: null }]);
  await log.clean();
  const read: number[] = [];
  const most = 4;
  for (let from = 0; from < RECORDS;) {
    const { records } = await events.read(REF, from, most * 25_000);
    const page = records.map(({ offset }) => offset).filter((offset) => offset < RECORDS);
    assert.ok(page.length > 0 && page.length <= most + 1, `${page.length} records in a page of ${most}`);
    read.push(...page);
    from = (page.at(-1) ?? assert.fail()) + 1;
  }
  assert.deepEqual(
    read,
    Array.from({ length: RECORDS }, (_, offset) => offset),
  );
});

test('a page that is cut off before its first redacted record has nothing behind the cut', async (t) => {
  const log = await opened(t);
  const events = new EventsLog(log, REF, 1);
  // One batch, which the log gives whole however little is asked for.
  const whole = Array.from({ length: 8 }, (_, offset) => ({ key: keyOf(offset), value: leftOf(offset) }));
  await log.append(REF, whole);
  const redacted = 5;
  await events.redact({
    offset: redacted,
    key: keyOf(redacted),
    timestamp: 1,
    erased: ['a'],
    value: Buffer.from('left'),
  });
  const read = async (): Promise<string[]> => {
    const found: string[] = [];
    for (let from = 0; from < whole.length;) {
      const { records } = await events.read(REF, from, 2 * MIB);
      for (const { offset, value } of records)
        if (offset < whole.length) found.push(`${offset}: ${value?.length === MIB ? 'whole' : String(value)}`);
      from = (records.at(-1)?.offset ?? assert.fail()) + 1;
    }
    return found;
  };
  const expected = whole.map((_, offset) => `${offset}: ${offset === redacted ? 'left' : 'whole'}`);
  assert.deepEqual(await read(), expected);
  await log.append(REF, [{ key: keyOf(redacted), value: null }]);
  await log.clean();
  assert.deepEqual(await read(), expected);
});
