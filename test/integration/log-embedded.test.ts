import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open as openEnvironment } from 'lmdb';
import { environments } from '../../src/app/open-log.js';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { markForRewrite, rewriteIfDue } from '../../src/log/embedded/rewrite-environment.js';
import { AppendRefusedError, type Log, type LogRecord, type PartitionRef } from '../../src/log/log.js';
import { logContract } from '../contracts/log.contract.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';

logContract(
  'lmdb',
  () => {
    const path = mkdtempSync(join(tmpdir(), 'statefold-log-'));
    let now = Date.now();
    const open = (): LmdbLog => new LmdbLog({ path, now: () => now });
    let log = open();
    return Promise.resolve({
      log,
      upkeep: { advance: (milliseconds) => void (now += milliseconds), clean: () => log.clean() },
      reopen: async (): Promise<Log> => {
        await log.close();
        return (log = open());
      },
      dispose: async () => {
        await log.close();
        rmSync(path, { recursive: true, force: true });
      },
    });
  },
  { upkeep: true },
);

const of = (partition: number): PartitionRef => ({ topic: 'events', partition });

async function readAll(log: Log, ref: PartitionRef): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for (;;) {
    const records = (await log.read(ref, (out.at(-1)?.offset ?? -1) + 1, 1024 * 1024)).records;
    if (records.length === 0) return out;
    out.push(...records);
  }
}

it('what was read stays as it was, whatever is read and written after it', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-log-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const log = new LmdbLog({ path });
  t.after(() => log.close());
  await log.ensureTopics([{ topic: 'events', partitions: 2, cleanup: { policy: 'tombstones' } }]);
  // What lmdb answers from memory of its own, and what it makes a buffer for.
  const sizes = [10, 5_000, 20_000, 40_000, 300_000];
  const valueOf = (size: number, i: number): Buffer => Buffer.alloc(size, `${size}-${i};`);
  const fillPartition = async (partition: number): Promise<void> => {
    for (const [i, size] of sizes.entries())
      await log.append(of(partition), [{ key: Buffer.from(`k${i}`), value: valueOf(size, partition) }]);
  };
  await fillPartition(0);
  const first = await readAll(log, of(0));
  await fillPartition(1);
  const others = await readAll(log, of(1));
  await fillPartition(0);
  for (const [partition, records] of [first, others].entries())
    for (const [i, size] of sizes.entries())
      assert.ok(records[i]?.value?.equals(valueOf(size, partition)), `${size} bytes of partition ${partition}`);
});

it('removes a large topic in parts, and goes on with one that was cut off when it is opened again', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-log-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  const topic = { topic: 'events', partitions: 1, cleanup: { policy: 'tombstones' } } as const;
  const open = (): LmdbLog => new LmdbLog({ path });
  const batches = (): number => {
    const root = openEnvironment<Buffer, Buffer>({ path, encoding: 'binary', keyEncoding: 'binary', noSubdir: false });
    const count = [...root.getKeys({ start: Buffer.alloc(16), end: Buffer.alloc(16, 0xff) })].filter(
      (key) => key.length === 16,
    ).length;
    void root.close();
    return count;
  };
  let log = open();
  await log.ensureTopics([topic, { ...topic, topic: 'others' }]);
  await log.append({ topic: 'others', partition: 0 }, [{ key: Buffer.from('k'), value: Buffer.from('other') }]);
  for (let i = 0; i < 700; i++) await log.append(of(0), [{ key: Buffer.from(`k${i}`), value: Buffer.from('v') }]);
  const removing = log.deleteTopic('events');
  removing.catch(() => undefined); // the log is closed under it
  await assert.rejects(log.endOffset(of(0)), 'it is no topic any more');
  await new Promise((resolve) => setImmediate(resolve));
  await log.close();
  await removing.catch(() => undefined);
  log = open();
  // Made again at once: what is left of the former one is not its own.
  await log.ensureTopics([topic]);
  await log.append(of(0), [{ key: Buffer.from('new'), value: Buffer.from('new') }]);
  await log.clean();
  assert.deepEqual(
    (await readAll(log, of(0))).map(({ value }) => value?.toString()),
    ['new'],
  );
  await log.close();
  assert.equal(batches(), 2);
});

it('goes through a partition again when something may be dropped of it, and not at each start', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-log-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  let now = Date.now();
  let cleaned: string[] = [];
  const open = (): LmdbLog =>
    new LmdbLog({
      path,
      now: () => now,
      onCleaned: ({ topic, partition }) => void cleaned.push(`${topic}/${partition}`),
    });
  let log = open();
  t.after(() => log.close());
  const clean = async (): Promise<readonly string[]> => {
    cleaned = [];
    await log.clean();
    return cleaned;
  };
  const again = async (): Promise<void> => {
    await log.close();
    log = open();
  };
  const topic = { partitions: 2, cleanup: { policy: 'tombstones' } } as const;
  await log.ensureTopics([
    { ...topic, topic: 'events' },
    { ...topic, topic: 'latest', partitions: 1, cleanup: { policy: 'latest' } },
  ]);
  const put = (ref: PartitionRef, key: string, value: string | null): Promise<unknown> =>
    log.append(ref, [{ key: Buffer.from(key), value: value === null ? null : Buffer.from(value) }]);
  const latest = { topic: 'latest', partition: 0 };
  for (const key of ['a', 'b', 'c']) await put(of(0), key, 'v');
  await put(latest, 'a', 'first');
  assert.deepEqual(await clean(), ['events/0', 'events/1', 'latest/0']);
  assert.deepEqual(await clean(), []);
  await again();
  assert.deepEqual(await clean(), [], 'what was gone through is known at the next start');
  await put(of(0), 'd', 'v');
  assert.deepEqual(await clean(), [], 'nothing is superseded by another key');
  await put(of(0), 'a', null);
  await put(latest, 'a', 'second');
  await again();
  assert.deepEqual(await clean(), ['events/0', 'latest/0'], 'and so is what came since');
  const keys = async (): Promise<readonly string[]> => (await readAll(log, of(0))).map(({ key }) => key.toString());
  assert.deepEqual(await keys(), ['b', 'c', 'd', 'a']);
  await put(of(0), 'e', 'v');
  assert.deepEqual(await clean(), []);
  await again();
  now += 25 * 3600_000;
  assert.deepEqual(await clean(), ['events/0'], 'the tombstone has outlived its day');
  assert.deepEqual(await keys(), ['b', 'c', 'd', 'e']);
  await again();
  assert.deepEqual(await clean(), []);
  // A topic that takes the id of one that was deleted.
  await log.deleteTopic('latest');
  await log.deleteTopic('events');
  await again();
  await log.ensureTopics([{ ...topic, topic: 'others' }]);
  assert.deepEqual(await clean(), ['others/0', 'others/1']);
});

it('an environment of an earlier release, which kept nothing of what was cleaned, is written anew and opened', async (t) => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'statefold-log-'));
  t.after(() => rmSync(dataDirectory, { recursive: true, force: true }));
  const { log: environment } = environments({ dataDirectory });
  const earlier = new LmdbLog({ path: environment.path });
  await earlier.ensureTopics([{ topic: 'events', partitions: 1, cleanup: { policy: 'tombstones' } }]);
  await earlier.append(of(0), [{ key: Buffer.from('k'), value: Buffer.from('v') }]);
  await earlier.clean();
  await earlier.close();
  // As that had it: of its databases alone.
  markForRewrite(environment);
  await rewriteIfDue({ ...environment, databases: ['topics'] }, silentLogger);
  markForRewrite(environment);
  assert.equal(await rewriteIfDue(environment, silentLogger), true);
  const log = new LmdbLog({ path: environment.path });
  t.after(() => log.close());
  await log.clean();
  assert.deepEqual(
    (await readAll(log, of(0))).map(({ value }) => value?.toString()),
    ['v'],
  );
});

it(
  '2: kill -9 in the middle of appends loses nothing that was acknowledged, and leaves no gap',
  { timeout: 60_000 },
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'statefold-log-'));
    t.after(() => rmSync(path, { recursive: true, force: true }));
    const script = fileURLToPath(new URL('../support/log-appender.js', import.meta.url));
    let acknowledged = 0;
    for (let round = 1; round <= 3; round++) {
      const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
      t.after(() => child.kill('SIGKILL'));
      const exit = once(child, 'exit');
      const lines: string[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        lines.push(line);
        if (lines.length === 150 * round) child.kill('SIGKILL');
      }
      assert.deepEqual((await exit)[1], 'SIGKILL');

      const log = new LmdbLog({ path });
      const stored = [await readAll(log, of(0)), await readAll(log, of(1))];
      stored.forEach((records, partition) => {
        assert.deepEqual(
          records.map(({ offset }) => offset),
          records.map((_, i) => i),
          `partition ${partition} is dense`,
        );
      });
      for (const line of lines) {
        const [partition = 0, base = 0, count = 0] = line.split(' ').map(Number);
        const call = line.split(' ')[3] ?? '';
        for (let j = 0; j < count; j++)
          assert.equal(stored[partition]?.[base + j]?.key.toString(), `${call}.${j}`, `acknowledged: ${line}`);
      }
      assert.ok((stored[0]?.length ?? 0) + (stored[1]?.length ?? 0) > acknowledged);
      acknowledged = (stored[0]?.length ?? 0) + (stored[1]?.length ?? 0);
      for (const partition of [0, 1]) assert.equal(await log.endOffset(of(partition)), stored[partition]?.length);
      await log.close();
    }
  },
);

it(
  '2, 3: a full disk refuses appends, reads go on, and appends go on when there is space again',
  { timeout: 60_000 },
  async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return t.skip(NO_SMALL_DISK);
    const path = join(disk, 'log');
    mkdirSync(path);
    const ballast = join(disk, 'ballast');
    writeFileSync(ballast, Buffer.alloc(3 * 1024 * 1024));
    const log = new LmdbLog({ path, reserveBytes: 1024 * 1024 });
    t.after(() => log.close());
    await log.ensureTopics([{ topic: 'events', partitions: 2, cleanup: { policy: 'tombstones' } }]);

    const value = Buffer.alloc(100_000, 'x');
    const acknowledged: string[] = [];
    let failure: unknown;
    let call = 0;
    for (; failure === undefined; call++) {
      assert.ok(call < 200, 'the disk fills');
      try {
        const { baseOffset } = await log.append(of(0), [{ key: Buffer.from(`k${call}`), value }]);
        assert.equal(baseOffset, acknowledged.length);
        acknowledged.push(`k${call}`);
      } catch (error) {
        failure = error;
      }
    }
    assert.ok(failure instanceof AppendRefusedError, failure instanceof Error ? failure.message : 'no error');
    // More of them, while it is full: on two partitions, and at once.
    const more = await Promise.allSettled(
      [0, 1, 0, 1].map((partition, i) => log.append(of(partition), [{ key: Buffer.from(`m${i}`), value }])),
    );
    assert.ok(more.every(({ status }) => status === 'rejected'));
    // Long after: a disk is full for hours, and each refusal leaves the process as it was.
    for (let i = 0; i < 2000; i++)
      await assert.rejects(log.append(of(0), [{ key: Buffer.from('again'), value }]), AppendRefusedError);
    assert.deepEqual(
      (await readAll(log, of(0))).map(({ key }) => key.toString()),
      acknowledged,
      'what was acknowledged, and nothing that was refused',
    );

    unlinkSync(ballast);
    for (let i = 0; i < 5; i++) {
      const { baseOffset } = await log.append(of(i % 2), [{ key: Buffer.from(`after${i}`), value }]);
      if (i % 2 === 0) acknowledged.push(`after${i}`);
      assert.equal(baseOffset, i % 2 === 0 ? acknowledged.length - 1 : (i - 1) / 2);
    }
    assert.deepEqual(
      (await readAll(log, of(0))).map(({ key }) => key.toString()),
      acknowledged,
    );
  },
);

it(
  '2: a full disk is not written for topics, nor for what is superseded; when there is space again it is',
  { timeout: 60_000 },
  async (t) => {
    const disk = smallDisk(t, 8);
    if (disk === undefined) return t.skip(NO_SMALL_DISK);
    const ballast = join(disk, 'ballast');
    const path = join(disk, 'log');
    mkdirSync(path);
    const log = new LmdbLog({ path, reserveBytes: 1024 * 1024 });
    t.after(() => log.close());
    const topics = ['kept', 'made'].map((topic) => ({
      topic,
      partitions: 1,
      cleanup: { policy: 'latest' } as const,
    }));
    const kept = { topic: 'kept', partition: 0 };
    await log.ensureTopics(topics.slice(0, 1));
    for (let i = 0; i < 20; i++) await log.append(kept, [{ key: Buffer.from('same'), value: Buffer.from(String(i)) }]);
    fill(ballast);
    const isFull = /the disk is full/;
    await assert.rejects(log.ensureTopics(topics), isFull);
    await assert.rejects(log.deleteTopic('kept'), isFull);
    await log.clean();
    assert.equal((await readAll(log, kept)).length, 20);

    unlinkSync(ballast);
    await log.clean();
    assert.deepEqual(
      (await readAll(log, kept)).map(({ value }) => String(value)),
      ['19'],
    );
    await log.ensureTopics(topics);
    await log.deleteTopic('kept');
    await assert.rejects(log.endOffset(kept), /there is no partition/);
  },
);

it('2: a topic that a full disk refused, or kept, is as the disk has it', { timeout: 60_000 }, async (t) => {
  const disk = smallDisk(t, 8);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const path = join(disk, 'log');
  mkdirSync(path);
  const ballast = join(disk, 'ballast');
  let log = new LmdbLog({ path, reserveBytes: 0 });
  t.after(() => log.close());
  const topics = ['kept', 'refused', 'later'].map((topic) => ({
    topic,
    partitions: 1,
    cleanup: { policy: 'tombstones' } as const,
  }));
  const [kept = assert.fail(), refused = assert.fail(), later = assert.fail()] = topics;
  const append = (topic: string): Promise<unknown> =>
    log.append({ topic, partition: 0 }, [{ key: Buffer.from(topic), value: Buffer.from(topic) }]);
  const told = async (topic: string): Promise<string[]> =>
    (await readAll(log, { topic, partition: 0 })).map(({ value }) => String(value));
  await log.ensureTopics([kept]);
  await append('kept');

  fill(ballast);
  // Its file has room for a few small ones still.
  for (let i = 0, isFull = false; !isFull; i++) {
    assert.ok(i < 2000, 'the disk fills');
    isFull = await log
      .append({ topic: 'kept', partition: 0 }, [{ key: Buffer.from('x'), value: Buffer.alloc(4096) }])
      .then(
        () => false,
        () => true,
      );
  }
  const both = await Promise.allSettled([log.ensureTopics([refused]), log.ensureTopics([refused])]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await assert.rejects(append('refused'), /there is no partition/);
  await assert.rejects(log.deleteTopic('kept'));
  await assert.rejects(log.deleteTopic('kept'), 'what was not deleted is not taken for deleted');
  assert.equal((await told('kept'))[0], 'kept');

  unlinkSync(ballast);
  await log.ensureTopics([refused, later]);
  for (const topic of ['refused', 'later', 'refused']) await append(topic);
  await log.deleteTopic('kept');
  await log.close();
  log = new LmdbLog({ path, reserveBytes: 0 });
  await log.ensureTopics(topics);
  assert.deepEqual(await told('refused'), ['refused', 'refused']);
  assert.deepEqual(await told('later'), ['later']);
  assert.deepEqual(await told('kept'), []);
});
