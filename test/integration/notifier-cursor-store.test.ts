import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { appendBytes, AppendRefusedError, tooLarge } from '../../src/log/log.js';
import { LogCursorStore } from '../../src/webhooks/log-cursor-store.js';
import { ManualTimers, until } from '../support/notifier-world.js';

async function openStore(t: TestContext): Promise<{ readonly log: LmdbLog; readonly store: LogCursorStore }> {
  const path = await mkdtemp(join(tmpdir(), 'statefold-cursors-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  return { log, store: await LogCursorStore.open(log, silentLogger, new ManualTimers()) };
}

test('the latest save of each endpoint is there after a restart, in few appends, also when appends failed meanwhile', async (t) => {
  const path = await mkdtemp(join(tmpdir(), 'statefold-cursors-'));
  let log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  const partition = { topic: 'statefold.cursors', partition: 0 };
  const timers = new ManualTimers();
  let store = await LogCursorStore.open(log, silentLogger, timers);
  const deadLetters = [{ position: 3, key: 'ä', at: '2026-01-01T00:00:00.000Z', attempts: 11, reason: 'answered 500' }];
  for (let i = 1; i <= 1_000; i++) store.save('t1/p1', { end: i + 1, pending: [[i, 2]], deadLetters });
  store.save('t1/p2', { end: 6, pending: [], deadLetters: [] });
  assert.equal(store.load('t1/p1')?.end, 1_001, 'a save is seen at once');
  timers.advance(250);
  await until(() => timers.nextAt === undefined, 'nothing more to write');
  while ((await log.endOffset(partition)) < 2) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await log.endOffset(partition), 2, 'one record an endpoint');

  const append = log.append.bind(log);
  log.append = () => Promise.reject(new AppendRefusedError('the disk is full'));
  store.save('t1/p1', { end: 1_002, pending: [], deadLetters });
  store.delete('t1/p2');
  timers.advance(250);
  await until(() => timers.nextAt !== undefined, 'it is tried again');
  log.append = append;
  await store.close();
  await log.close();

  log = new LmdbLog({ path });
  store = await LogCursorStore.open(log, silentLogger, timers);
  assert.deepEqual(store.load('t1/p1'), { end: 1_002, pending: [], deadLetters });
  assert.equal(store.load('t1/p2'), undefined);
  await store.close();
});

test('what is asked to be written at once is, whatever changes meanwhile, and is refused while the log takes nothing', async (t) => {
  const { log, store } = await openStore(t);
  const append = log.append.bind(log);
  const place = (end: number) => ({ end, pending: [], deadLetters: [] });
  log.append = (partition, records) => {
    store.save('t1/p2', place(7)); // another one goes on while the first is written
    return append(partition, records);
  };
  store.save('t1/p1', place(2));
  await store.flush('t1/p1');
  log.append = () => Promise.reject(new AppendRefusedError('the disk is full'));
  store.save('t1/p1', place(3));
  await Promise.all([1, 2].map(() => assert.rejects(store.flush('t1/p1'), { code: 'UNAVAILABLE' })));
  log.append = append;
  await store.flush('t1/p1');
  await store.close();
});

test('a checkpoint that is too large for the log is told of once, and keeps no other from being saved', async (t) => {
  const path = await mkdtemp(join(tmpdir(), 'statefold-cursors-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  const told: unknown[] = [];
  const logger = {
    ...silentLogger,
    warn: (...line: unknown[]) => told.push(line),
    error: (fields: { key?: string }) => told.push(fields.key),
  };
  const store = await LogCursorStore.open(log, logger, new ManualTimers());
  const append = log.append.bind(log);
  // As a broker does whose topic takes less than this service was told.
  log.append = (partition, records) => {
    const bytes = appendBytes(records);
    return bytes > 1_000 ? Promise.reject(tooLarge(records.length, bytes, 1_000)) : append(partition, records);
  };
  const place = (end: number, pending = 0) => ({
    end,
    pending: Array.from({ length: pending }, (_, i) => [2 * i, 1] as [number, number]),
    deadLetters: [],
  });
  const save = (end: number, pending: number): void => {
    for (let i = 0; i < 5; i++) store.save(`t1/p${i}`, place(end, i === 3 ? pending : 0));
  };
  for (const end of [1_001, 1_002]) {
    save(end, 500);
    await store.flush('t1/p0');
    await assert.rejects(store.flush('t1/p3'), { code: 'UNAVAILABLE' });
  }
  assert.deepEqual(told, ['t1/p3']);
  const other = await LogCursorStore.open(log, silentLogger, new ManualTimers());
  const ends = () => [0, 1, 2, 3, 4].map((i) => other.load(`t1/p${i}`)?.end);
  assert.deepEqual(ends(), [1_002, 1_002, 1_002, undefined, 1_002]);

  // Another process goes on with the endpoint.
  other.save('t1/p3', place(5_000));
  await other.flush('t1/p3');
  await store.caughtUp();
  assert.equal(store.load('t1/p3')?.end, 5_000);

  // What this one wrote itself before, and has not read yet, is no news.
  other.save('t1/p0', place(6_000));
  await other.flush('t1/p0');
  store.save('t1/p3', place(6_001));
  await store.flush('t1/p3');
  store.save('t1/p3', place(6_002, 500));
  await assert.rejects(store.flush('t1/p3'), { code: 'UNAVAILABLE' });
  await store.caughtUp();
  assert.deepEqual([store.load('t1/p3')?.end, store.load('t1/p0')?.end], [6_002, 6_000]);

  save(1_003, 1);
  await store.flush('t1/p3');
  await other.caughtUp();
  assert.deepEqual(ends(), [1_003, 1_003, 1_003, 1_003, 1_003]);
  assert.deepEqual(told, ['t1/p3', 't1/p3'], 'again once one was saved between');
  await Promise.all([store.close(), other.close()]);
});

test('checkpoints of many endpoints are put together in slices, between which others have their turn', async (t) => {
  const { store } = await openStore(t);
  const turnsBefore: number[] = [];
  let turns = 0;
  let ended = false;
  const turn = (): unknown => ended || (turns++, setImmediate(turn));
  for (let i = 0; i < 20; i++)
    store.save(`t1/p${i}`, () => {
      turnsBefore.push(turns);
      // Longer than a slice.
      for (const began = performance.now(); performance.now() < began + 3;);
      return { end: i + 2, pending: [], deadLetters: [] };
    });
  turn();
  await store.flush('t1/p1');
  ended = true;
  assert.equal(new Set(turnsBefore).size, 20, 'each on a turn of its own');
  await store.close();
});

test('what was saved here stays, whatever older is read of it, and while it is written; what another wrote later counts', async (t) => {
  const { log, store } = await openStore(t);
  const place = (end: number) => ({ end, pending: [], deadLetters: [] });
  const other = await LogCursorStore.open(log, silentLogger, new ManualTimers());
  const ends = (of: LogCursorStore) => ['t1/p1', 't1/p2'].map((id) => of.load(id)?.end);
  other.save('t1/p2', place(100));
  await other.flush('t1/p2');
  for (const end of [2, 3]) {
    store.save('t1/p1', place(end));
    await store.flush('t1/p1');
  }
  await store.caughtUp();
  assert.deepEqual(ends(store), [3, 100]);

  // While the next is on its way, all that is there is read again, by one that has not read it yet too.
  const append = log.append.bind(log);
  let before: (() => Promise<unknown>) | undefined;
  let after: (() => Promise<unknown>) | undefined;
  log.append = async (partition, records) => {
    const [first, last] = [before, after];
    before = after = undefined;
    await first?.();
    const appended = await append(partition, records);
    await last?.();
    return appended;
  };
  other.save('t1/p1', place(5));
  before = () => other.caughtUp();
  await other.flush('t1/p1');
  assert.deepEqual(ends(other), [5, 100], 'what was read while it was written is older');
  await other.caughtUp();
  assert.deepEqual(ends(other), [5, 100]);
  store.save('t1/p1', place(6));
  after = () => store.caughtUp();
  await store.flush('t1/p1');
  await store.caughtUp();
  assert.deepEqual(ends(store), [6, 100]);

  // Another writes after ours, and we read that before our append was answered.
  store.save('t1/p1', place(7));
  after = async () => {
    other.save('t1/p1', place(8));
    await other.flush('t1/p1');
    await store.caughtUp();
  };
  await store.flush('t1/p1');
  assert.deepEqual(
    [ends(store), ends(other)],
    [
      [8, 100],
      [8, 100],
    ],
    'the last in the log, everywhere',
  );
  await Promise.all([store.close(), other.close()]);
});

test('what lies in the log keeps the words of the first release: records of it are read, and it reads ours', async (t) => {
  const path = await mkdtemp(join(tmpdir(), 'statefold-cursors-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  const partition = { topic: 'statefold.cursors', partition: 0 };
  const letter = { key: 'k', at: '2026-01-01T00:00:00.000Z', attempts: 11, reason: 'answered 500' };
  const stored = { through: 7, pending: [[5, 1]], parked: [{ sequence: 3, ...letter }] };
  await log.ensureTopics([{ topic: 'statefold.cursors', partitions: 1, cleanup: { policy: 'latest' } }]);
  await log.append(partition, [{ key: Buffer.from('t1/p1'), value: Buffer.from(JSON.stringify(stored)) }]);
  const store = await LogCursorStore.open(log, silentLogger, new ManualTimers());
  const checkpoint = store.load('t1/p1');
  assert.deepEqual(checkpoint, { end: 8, pending: [[5, 1]], deadLetters: [{ position: 3, ...letter }] });
  store.save('t1/p2', checkpoint);
  await store.close();
  const [, written] = (await log.read(partition, 0, 1024 * 1024, 0)).records;
  assert.deepEqual(JSON.parse(written?.value?.toString() ?? ''), stored);
});

test('large checkpoints of a tenant that go on are written at a pace of its own, and those of others beside them', async (t) => {
  const path = await mkdtemp(join(tmpdir(), 'statefold-cursors-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  const timers = new ManualTimers();
  const store = await LogCursorStore.open(log, silentLogger, timers);
  const append = log.append.bind(log);
  const written = new Map<string, number>();
  let underWay = 0;
  log.append = async (partition, records) => {
    underWay++;
    for (const { key, value } of records) {
      const [tenant = ''] = key.toString().split('/');
      written.set(tenant, (written.get(tenant) ?? 0) + (value?.length ?? 0));
    }
    return append(partition, records).finally(() => underWay--);
  };
  const pending = Array.from({ length: 4_000 }, (_, i) => [i, 0] as const);
  let end = 5_000;
  const deliver = (): void => {
    end++;
    for (let i = 0; i < 20; i++) store.save(`large/p${i}`, { end, pending, deadLetters: [] });
    store.save('small/p', { end, pending: [], deadLetters: [] });
  };
  let smallWrites = 0;
  for (let tick = 0; tick < 40; tick++) {
    deliver();
    const before = written.get('small') ?? 0;
    timers.advance(250);
    for (let turns = 0; turns < 50 || underWay > 0; turns++) await new Promise((resolve) => setImmediate(resolve));
    if ((written.get('small') ?? 0) > before) smallWrites++;
  }
  const large = written.get('large') ?? 0;
  assert.ok(large > 0 && large < 8 * 1024 * 1024, `${large} bytes in ten seconds`);
  assert.ok(smallWrites >= 35, `${smallWrites} of 40`);
  // What somebody waits for is written now.
  deliver();
  const before = written.get('large') ?? 0;
  await store.flush('large/p3');
  assert.ok((written.get('large') ?? 0) > before);
  await store.close();
  const other = await LogCursorStore.open(log, silentLogger, new ManualTimers());
  for (let i = 0; i < 20; i++) assert.equal(other.load(`large/p${i}`)?.end, end);
  await other.close();
});
