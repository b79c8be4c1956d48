import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  appendBytes,
  AppendRefusedError,
  MAX_APPEND_BYTES,
  type Log,
  type LogRecord,
  type NewRecord,
  type PartitionRef,
  type TopicSpec,
} from '../../src/log/log.js';

/** What a run of the suite needs of an adapter. */
export interface LogUnderTest {
  readonly log: Log;
  /** Closes the log and opens it again on what it left behind. */
  reopen(): Promise<Log>;
  /** Where clean-up can be asked for, and time can be moved. */
  readonly upkeep?: { advance(milliseconds: number): void; clean(): Promise<void> };
  dispose(): Promise<void>;
}

const HOUR = 3_600_000;
const ALL = 64 * 1024 * 1024;

const record = (key: string, value: string | Buffer | null): NewRecord => ({
  key: Buffer.from(key),
  value: value === null ? null : Buffer.from(value),
});
const shape = (records: readonly LogRecord[]): string[] =>
  records.map(({ offset, key, value }) => `${offset} ${key.toString()}=${value?.toString() ?? 'null'}`);

async function readAll(log: Log, ref: PartitionRef, from = 0, maxBytes = ALL): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for (let next = from; ;) {
    const records = (await log.read(ref, next, maxBytes)).records;
    const last = records.at(-1);
    if (last === undefined) return out;
    out.push(...records);
    next = last.offset + 1;
  }
}

/**
 * The suite of the log port: what an adapter must do for everything that stands on it to be right.
 * Without `upkeep` the cases of clean-up are skipped, by name.
 */
export function logContract(name: string, open: () => Promise<LogUnderTest>, { upkeep }: { upkeep: boolean }): void {
  describe(`log contract: ${name}`, () => {
    let under: LogUnderTest;
    let log: Log;
    const kept: TopicSpec = { topic: 'statefold.kept', partitions: 2, cleanup: { policy: 'tombstones' } };
    const latest: TopicSpec = { topic: 'statefold.latest', partitions: 1, cleanup: { policy: 'latest' } };
    const expiring: TopicSpec = {
      topic: 'statefold.expiring',
      partitions: 1,
      cleanup: { policy: 'delete', retentionMs: HOUR },
    };
    const ref: PartitionRef = { topic: 'statefold.kept', partition: 0 };

    beforeEach(async () => {
      under = await open();
      log = under.log;
      await log.ensureTopics([kept, latest, expiring]);
    });
    afterEach(() => under.dispose());

    const skip = upkeep ? false : 'this adapter cleans up by itself, at times that a test can not choose';
    const upkeepOf = (): NonNullable<LogUnderTest['upkeep']> => {
      assert.ok(under.upkeep !== undefined);
      return under.upkeep;
    };

    it('gives dense offsets from 0, a partition each, in the order of the calls', async () => {
      assert.equal(await log.endOffset(ref), 0);
      assert.equal(await log.startOffset(ref), 0);
      const appends = Array.from({ length: 50 }, (_, i) =>
        log.append(
          ref,
          Array.from({ length: 1 + (i % 3) }, (_unused, j) => record(`k${i}.${j}`, `${i}`)),
        ),
      );
      const bases = (await Promise.all(appends)).map(({ baseOffset }) => baseOffset);
      let next = 0;
      bases.forEach((base, i) => {
        assert.equal(base, next);
        next += 1 + (i % 3);
      });
      assert.equal(await log.endOffset(ref), next);
      assert.equal(await log.endOffset({ topic: 'statefold.kept', partition: 1 }), 0);
      const records = await readAll(log, ref);
      assert.deepEqual(
        records.map(({ offset }) => offset),
        Array.from({ length: next }, (_, i) => i),
      );
      assert.deepEqual(
        records.map(({ key }) => key.toString()),
        Array.from({ length: 50 }, (_, i) => Array.from({ length: 1 + (i % 3) }, (_unused, j) => `k${i}.${j}`)).flat(),
      );
    });

    it('appends all records of a call together, with one timestamp that never goes back', async () => {
      const first = await log.append(ref, [record('a', '1'), record('b', '2'), record('c', null)]);
      const second = await log.append(ref, [record('d', '')]);
      assert.ok(second.timestamp >= first.timestamp);
      const records = await readAll(log, ref);
      assert.deepEqual(shape(records), ['0 a=1', '1 b=2', '2 c=null', '3 d=']);
      assert.deepEqual(
        records.map(({ timestamp }) => timestamp),
        [first.timestamp, first.timestamp, first.timestamp, second.timestamp],
      );
      await assert.rejects(log.append(ref, []), AppendRefusedError);
      assert.equal(await log.endOffset(ref), 4);
    });

    it('reads from any offset, at least one record however few bytes are asked for', async () => {
      const calls = [
        [record('a', 'x'.repeat(100))],
        [record('b', 'y'.repeat(100)), record('c', 'z')],
        [record('d', 'w')],
      ];
      for (const records of calls) await log.append(ref, records);
      assert.deepEqual(
        (await readAll(log, ref, 0, 1)).map(({ offset }) => offset),
        [0, 1, 2, 3],
      );
      assert.equal((await log.read(ref, 2, 1)).records[0]?.offset, 2);
      assert.equal((await log.read(ref, 3, ALL)).records.length, 1);
      assert.deepEqual((await log.read(ref, 4, ALL)).records, []);
      assert.deepEqual((await log.read(ref, 400, ALL)).records, []);
      assert.deepEqual(shape((await log.readAt(ref, [1, 2, 3, 9])).records), [
        `1 b=${'y'.repeat(100)}`,
        '2 c=z',
        '3 d=w',
      ]);
      assert.deepEqual((await log.readAt(ref, [])).records, []);
    });

    it('reads records at offsets up to some bytes, and says how many were looked at', async () => {
      // Near and far ones, in batches of one and of several.
      for (let i = 0; i < 60; i++) await log.append(ref, [record(`k${i}`, 'x'.repeat(1000)), record(`s${i}`, 's')]);
      const wanted = Array.from({ length: 60 }, (_, i) => 2 * i);
      for (const maxBytes of [1, 999, 1000, 1001, 5500, 59_000, ALL]) {
        const found: number[] = [];
        for (let left = wanted; left.length > 0;) {
          const { records, end, looked = left.length } = await log.readAt(ref, left, maxBytes);
          assert.ok(looked >= 1 && looked <= left.length);
          assert.ok(end > (left[looked - 1] ?? 0));
          const bytes = records.reduce((sum, { value }) => sum + (value?.length ?? 0), 0);
          assert.ok(looked === left.length || bytes >= Math.min(maxBytes, 1000), `${bytes} of ${maxBytes}`);
          found.push(...records.map(({ offset }) => offset));
          left = left.slice(looked);
        }
        assert.deepEqual(found, wanted);
      }
      const { records, looked = wanted.length } = await log.readAt(ref, wanted, 3000);
      assert.ok(looked < wanted.length, 'the rest is not looked at');
      assert.equal(records.length, looked);
    });

    it('tells with each answer how far the log goes', async () => {
      const other = { topic: 'statefold.kept', partition: 1 };
      assert.deepEqual(await log.read(other, 0, ALL), { records: [], end: 0 });
      assert.deepEqual(await log.readAt(other, [3]), { records: [], end: 0 });
      await log.append(ref, [record('a', 'x'.repeat(100)), record('b', 'y')]);
      await log.append(ref, [record('c', 'z')]);
      assert.equal((await log.read(ref, 0, ALL)).end, 3);
      assert.equal((await log.read(ref, 0, 1)).end, 3, 'also where it gives a part');
      assert.deepEqual(await log.read(ref, 3, ALL), { records: [], end: 3 });
      assert.deepEqual(await log.read(ref, 400, ALL), { records: [], end: 3 }, 'asked past the end');
      const [waited, at] = [await log.read(ref, 3, ALL, 20), await log.readAt(ref, [2, 400])];
      assert.deepEqual(waited.records, []);
      assert.ok(waited.end <= 3, 'never more than is there');
      assert.deepEqual([shape(at.records), at.end], [['2 c=z'], 3]);
      assert.ok((await log.readAt(ref, [0, 2])).end >= 3, 'what was found is below the end');
      log.doubt(ref);
      assert.equal((await log.read(ref, 1, ALL)).end, 3);
    });

    it('takes an append of its limit, and refuses a larger one whole', async () => {
      assert.equal(log.maxAppendBytes, MAX_APPEND_BYTES);
      const key = Buffer.from('k');
      const fits = (records: number): NewRecord[] => {
        const share = Math.floor((log.maxAppendBytes - appendBytes([])) / records);
        const value = Buffer.alloc(share - appendBytes([{ key, value: null }]) + appendBytes([]), 'v');
        return Array.from({ length: records }, () => ({ key, value }));
      };
      for (const records of [1, 1000]) {
        const most = fits(records);
        const left = log.maxAppendBytes - appendBytes(most);
        assert.ok(left >= 0 && left < records);
        const { baseOffset } = await log.append(ref, most);
        const more = [...most.slice(1), { key, value: Buffer.alloc((most[0]?.value?.length ?? 0) + left + 1) }];
        await assert.rejects(
          log.append(ref, more),
          (error) =>
            error instanceof AppendRefusedError && /bytes together; the log takes 16777216 at once/.test(error.message),
        );
        assert.equal(await log.endOffset(ref), baseOffset + records);
      }
    });

    it('waits at the end for the first record, and hands it out as soon as it is there', async () => {
      const waiting = log.read(ref, 0, ALL, 30_000);
      const other = log.read({ topic: 'statefold.kept', partition: 1 }, 0, ALL, 30_000);
      const started = performance.now();
      await log.append(ref, [record('a', '1'), record('b', '2')]);
      assert.deepEqual(shape((await waiting).records), ['0 a=1', '1 b=2']);
      assert.ok(performance.now() - started < 10_000, 'long before the time is over');
      // What is there already is not waited for, and neither is what came while nobody asked.
      assert.deepEqual(shape((await log.read(ref, 1, ALL, 30_000)).records), ['1 b=2']);
      await log.append(ref, [record('c', '3')]);
      assert.deepEqual(shape((await log.read(ref, 2, ALL, 30_000)).records), ['2 c=3']);
      await log.append({ topic: 'statefold.kept', partition: 1 }, [record('d', '4')]);
      assert.deepEqual(shape((await other).records), ['0 d=4']);
    });

    it('gives each of several that wait all that they have not read, once and in order', async () => {
      const follow = async (from: number): Promise<string[]> => {
        const out: LogRecord[] = [];
        for (let next = from; next < 60; next = (out.at(-1)?.offset ?? next - 1) + 1)
          out.push(...(await log.read(ref, next, 1024, 30_000)).records);
        return shape(out);
      };
      const followers = [follow(0), follow(0), follow(25)];
      const all: string[] = [];
      for (let i = 0; i < 60; i++) {
        all.push(`${i} k${i}=v`);
        await log.append(ref, [record(`k${i}`, 'v')]);
        if (i === 30) followers.push(follow(10), follow(31));
      }
      assert.deepEqual(
        await Promise.all(followers),
        [0, 0, 25, 10, 31].map((from) => all.slice(from)),
      );
    });

    it('answers with nothing when the time to wait is over', async () => {
      await log.append(ref, [record('a', '1')]);
      assert.deepEqual((await log.read(ref, 1, ALL, 20)).records, []);
      assert.deepEqual((await log.read(ref, 1, ALL, 20)).records, [], 'also for who comes back');
      assert.deepEqual(shape((await log.read(ref, 0, ALL, 20)).records), ['0 a=1']);
    });

    it('hands out records that stay as they are while more is written', async () => {
      await log.append(ref, [record('a', 'first')]);
      const [held] = (await log.read(ref, 0, ALL)).records;
      const [heldAt] = (await log.readAt(ref, [0])).records;
      for (let i = 0; i < 50; i++) await log.append(ref, [record(`k${i}`, 'q'.repeat(5000))]);
      assert.equal(held?.value?.toString(), 'first');
      assert.equal(heldAt?.value?.toString(), 'first');
    });

    it('holds what it acknowledged when it is opened again', async () => {
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => log.append(ref, [record(`k${i}`, `v${i}`), record(`t${i}`, null)])),
      );
      const before = shape(await readAll(log, ref));
      log = await under.reopen();
      await log.ensureTopics([kept, latest, expiring]);
      assert.equal(await log.endOffset(ref), 40);
      assert.deepEqual(shape(await readAll(log, ref)), before);
      assert.equal((await log.append(ref, [record('next', '1')])).baseOffset, 40);
    });

    it('carries records of more than 1 MiB, alone and beside small ones', async () => {
      const big = Buffer.alloc(3 * 1024 * 1024, 'ab');
      await log.append(ref, [record('small', 's'), record('big', big), record('last', 'l')]);
      const records = await readAll(log, ref, 0, 1024);
      assert.deepEqual(
        records.map(({ key }) => key.toString()),
        ['small', 'big', 'last'],
      );
      assert.ok(records[1]?.value?.equals(big));
    });

    it('appends to many partitions at once', async () => {
      const wide: TopicSpec = { topic: 'statefold.wide', partitions: 40, cleanup: { policy: 'tombstones' } };
      await log.ensureTopics([wide]);
      const partitions = Array.from({ length: 40 }, (_, partition) => ({ topic: 'statefold.wide', partition }));
      await Promise.all(
        partitions.flatMap((to) => [1, 2, 3].map((n) => log.append(to, [record(`p${to.partition}`, `${n}`)]))),
      );
      for (const of of partitions)
        assert.deepEqual(
          shape(await readAll(log, of)),
          [1, 2, 3].map((n) => `${n - 1} p${of.partition}=${n}`),
        );
    });

    it('refuses what it has no place for', async () => {
      for (const missing of [
        { topic: 'statefold.none', partition: 0 },
        { topic: 'statefold.kept', partition: 2 },
        { topic: 'statefold.kept', partition: -1 },
      ]) {
        await assert.rejects(async () => log.append(missing, [record('a', '1')]), AppendRefusedError);
        await assert.rejects(async () => log.endOffset(missing));
        await assert.rejects(async () => log.read(missing, 0, ALL));
      }
    });

    it('creates a topic once, and names what differs', async () => {
      await log.append(ref, [record('a', '1')]);
      await log.ensureTopics([kept, latest]);
      assert.equal(await log.endOffset(ref), 1);
      await assert.rejects(log.ensureTopics([{ ...kept, partitions: 3 }]), /kept.*2 partitions.*not 3/);
      await assert.rejects(log.ensureTopics([{ ...kept, cleanup: { policy: 'latest' } }]), /kept.*tombstones.*latest/);
      await log.ensureTopics([{ ...expiring, cleanup: { policy: 'delete', retentionMs: 2 * HOUR } }]);
      assert.equal(await log.endOffset(ref), 1);
    });

    it('drops a topic with all it holds: made again, it starts from 0', async () => {
      await log.append(ref, [record('old', '1'), record('old2', '2')]);
      await log.append({ topic: 'statefold.latest', partition: 0 }, [record('other', '1')]);
      const late = log.append(ref, [record('late', '1')]).catch((error: unknown) => error);
      await log.deleteTopic('statefold.kept');
      await late;
      await log.deleteTopic('statefold.kept');
      await assert.rejects(async () => log.endOffset(ref));
      await log.ensureTopics([kept]);
      assert.equal(await log.endOffset(ref), 0);
      log = await under.reopen();
      await log.ensureTopics([kept, latest]);
      assert.deepEqual(shape(await readAll(log, ref)), []);
      assert.equal((await log.append(ref, [record('new', '1')])).baseOffset, 0);
      assert.equal(await log.endOffset({ topic: 'statefold.latest', partition: 0 }), 1);
    });

    it('erases what a tombstone names, earlier records of the key alone, and moves no offset', { skip }, async () => {
      const upkeep = upkeepOf();
      await log.append(ref, [record('a', '1'), record('b', '1')]);
      await log.append(ref, [record('b', '2'), record('a', null)]);
      await log.append(ref, [record('a', '3'), record('c', '1')]);
      await upkeep.clean();
      assert.deepEqual(shape(await readAll(log, ref)), ['1 b=1', '2 b=2', '3 a=null', '4 a=3', '5 c=1']);
      assert.equal(await log.endOffset(ref), 6);
      assert.equal((await log.append(ref, [record('d', '1')])).baseOffset, 6);
      log = await under.reopen();
      await log.ensureTopics([kept, latest, expiring]);
      assert.deepEqual(shape((await log.readAt(ref, [0, 1, 4])).records), ['1 b=1', '4 a=3']);
      assert.equal(await log.endOffset(ref), 7);
    });

    it("keeps the last record of each key where the policy is 'latest'", { skip }, async () => {
      const upkeep = upkeepOf();
      const of = { topic: 'statefold.latest', partition: 0 };
      for (let i = 0; i < 6; i++) await log.append(of, [record(`k${i % 2}`, `${i}`)]);
      await log.append(of, [record('x', '1')]);
      await upkeep.clean();
      assert.deepEqual(shape(await readAll(log, of)), ['4 k0=4', '5 k1=5', '6 x=1']);
      assert.equal(await log.endOffset(of), 7);
    });

    it(
      "drops records past their retention where the policy is 'delete', and never gives an offset again",
      { skip },
      async () => {
        const upkeep = upkeepOf();
        const of = { topic: 'statefold.expiring', partition: 0 };
        await log.append(of, [record('a', '1'), record('b', '1')]);
        upkeep.advance(HOUR / 2);
        await log.append(of, [record('c', '1')]);
        upkeep.advance(HOUR / 2 + 1000);
        await upkeep.clean();
        assert.equal(await log.startOffset(of), 2);
        assert.deepEqual(shape(await readAll(log, of)), ['2 c=1']);
        upkeep.advance(2 * HOUR);
        await upkeep.clean();
        assert.deepEqual((await readAll(log, ref)).length, 0);
        assert.equal(await log.endOffset(of), 3, 'the end stays when all has expired');
        log = await under.reopen();
        await log.ensureTopics([kept, latest, expiring]);
        assert.equal(await log.endOffset(of), 3);
        assert.equal((await log.append(of, [record('d', '1')])).baseOffset, 3);
      },
    );

    it('takes nothing once it is closed', async () => {
      await log.append(ref, [record('a', '1')]);
      await log.close();
      await assert.rejects(async () => log.append(ref, [record('b', '1')]), AppendRefusedError);
      await log.close();
    });
  });
}
