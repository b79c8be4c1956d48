import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/core/clock.js';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { KEPT_ATTEMPTS } from '../../src/webhooks/attempt-store.js';
import { LogAttemptStore } from '../../src/webhooks/log-attempt-store.js';
import { ManualTimers } from '../support/notifier-world.js';

async function openLog(t: TestContext): Promise<LmdbLog> {
  const path = await mkdtemp(join(tmpdir(), 'statefold-attempts-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    await rm(path, { recursive: true, force: true });
  });
  return log;
}

test('the latest attempts are listed, newest first, however many there were, before and after they are written', async (t) => {
  const log = await openLog(t);
  const timers = new ManualTimers();
  let store = await LogAttemptStore.open(log, silentLogger, systemClock, timers);
  let last = 0;
  const add = (count: number): void => {
    for (let i = 0; i < count; i++)
      store.add('t1/p1', { messageId: `msg_${++last}`, attempt: 1, at: '2026-01-01T00:00:00.000Z', durationMs: 1 });
  };
  const listed = async (): Promise<void> => {
    const kept = Array.from({ length: Math.min(last, KEPT_ATTEMPTS) }, (_, i) => `msg_${last - i}`);
    assert.deepEqual(
      (await store.list('t1/p1')).map(({ messageId }) => messageId),
      kept,
    );
  };
  const partition = { topic: 'statefold.attempts', partition: 0 };
  for (const count of [1, KEPT_ATTEMPTS, 2 * KEPT_ATTEMPTS + 7, 3, KEPT_ATTEMPTS + 1, 2 * KEPT_ATTEMPTS]) {
    add(count);
    await listed();
    const end = await log.endOffset(partition);
    timers.advance(1_000);
    while ((await log.endOffset(partition)) === end) await new Promise((resolve) => setImmediate(resolve));
    add(2);
    await listed();
    if (count % 2 === 0) continue;
    await store.close();
    store = await LogAttemptStore.open(log, silentLogger, systemClock, timers);
    await listed();
  }
});

test('an endpoint that stops while its attempts are written keeps them', async (t) => {
  const log = await openLog(t);
  const timers = new ManualTimers();
  const store = await LogAttemptStore.open(log, silentLogger, systemClock, timers);
  const add = (n: number): void =>
    store.add('t1/p1', { messageId: `msg_${n}`, attempt: 1, at: '2026-01-01T00:00:00.000Z', durationMs: 1 });
  const append = log.append.bind(log);
  let appends = 0;
  log.append = async (partition, records) => {
    // The first is under way.
    if (++appends === 1) {
      add(2);
      store.release('t1/p1');
    }
    return append(partition, records);
  };
  add(1);
  for (let writes = 1; writes <= 2; writes++) {
    timers.advance(1_000);
    while (appends < writes) await new Promise((resolve) => setImmediate(resolve));
    while ((await log.endOffset({ topic: 'statefold.attempts', partition: 0 })) < writes)
      await new Promise((resolve) => setImmediate(resolve));
    if (writes === 1) while (timers.nextAt === undefined) await new Promise((resolve) => setImmediate(resolve));
  }
  const ids = async (): Promise<(string | undefined)[]> =>
    (await store.list('t1/p1')).map(({ messageId }) => messageId);
  assert.deepEqual(await ids(), ['msg_2', 'msg_1']);
  await store.close();
  assert.deepEqual(
    (await (await LogAttemptStore.open(log, silentLogger, systemClock, new ManualTimers())).list('t1/p1')).map(
      ({ messageId }) => messageId,
    ),
    ['msg_2', 'msg_1'],
  );
});

test('of many busy endpoints the attempts are written some at a time, and no more than a megabyte a second', async (t) => {
  const log = await openLog(t);
  const timers = new ManualTimers();
  const store = await LogAttemptStore.open(log, silentLogger, systemClock, timers);
  const partition = { topic: 'statefold.attempts', partition: 0 };
  const endpoints = 300;
  const attempt = { attempt: 1, at: '2026-01-01T00:00:00.000Z', durationMs: 1, status: 500 };
  const busy = (): void => {
    for (let endpoint = 0; endpoint < endpoints; endpoint++)
      for (let n = 0; n < KEPT_ATTEMPTS; n++)
        store.add(`t1/${endpoint}`, {
          ...{ ...attempt, messageId: `msg_${n}`, error: 'e'.repeat(300), responseExcerpt: 'x'.repeat(256) },
        });
  };
  let from = 0;
  const written = async (): Promise<{ keys: string[]; bytes: number }> => {
    while ((await log.endOffset(partition)) === from || timers.nextAt === undefined)
      await new Promise((resolve) => setImmediate(resolve));
    const keys: string[] = [];
    let bytes = 0;
    for (const end = await log.endOffset(partition); from < end;) {
      const { records } = await log.read(partition, from, 1);
      for (const { key, value, offset } of records) {
        keys.push(key.toString());
        bytes += value?.length ?? 0;
        from = offset + 1;
      }
    }
    return { keys, bytes };
  };
  busy();
  timers.advance(1_000);
  const first = await written();
  assert.equal(first.keys.length, 256);
  busy();
  const wait = (timers.nextAt ?? 0) - timers.now();
  assert.ok(wait >= (1000 * first.bytes) / (1024 * 1024), `${wait} ms for ${first.bytes} bytes`);
  timers.advance(wait);
  const second = await written();
  assert.deepEqual(
    second.keys.slice(0, endpoints - 256).map((key) => key.split('/')[1]),
    Array.from({ length: endpoints - 256 }, (_, i) => String(256 + i)),
    'those that were not written come first',
  );
  await store.close();
  const fresh = await LogAttemptStore.open(log, silentLogger, systemClock, timers);
  for (const endpoint of [0, 255, 256, 299]) assert.equal((await fresh.list(`t1/${endpoint}`)).length, KEPT_ATTEMPTS);
});
