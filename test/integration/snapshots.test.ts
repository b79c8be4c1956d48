// Invariants 4, 9, 11, 12, 13 over a takeover by a machine that has nothing but the log and its snapshots.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import type { Change } from '../../src/core/change.js';
import { pushedInto } from '../support/all-changes.js';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log, LogPage, LogRecord, NewRecord } from '../../src/log/log.js';
import {
  CHUNK_BYTES,
  decodeManifest,
  decodeRecord,
  encodeManifest,
  readKey,
} from '../../src/snapshots/snapshot-format.js';
import { writeSnapshot } from '../../src/snapshots/snapshot-writer.js';
import type { FoldedSoFar } from '../../src/snapshots/snapshots.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { snapshotsTopicSpec } from '../../src/log/topics.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { temporaryDirectory, until } from '../support/service.js';
import {
  append,
  appendAll,
  bank,
  changesRef,
  eventsRef,
  keyOf,
  Machine,
  saving,
  snapshotsRef,
  statesOf,
  TENANT,
} from '../support/snapshot-world.js';

/** So many that a snapshot of them is of several chunks, with more to fold behind it. */
const COMMITS = 20_000;
const TAIL = 700;

const LOGS: readonly {
  readonly name: string;
  readonly skip: string | false;
  readonly open: (t: TestContext) => Promise<Log> | Log;
}[] = [
  { name: 'the embedded log', skip: false, open: (t) => embedded(t) },
  { name: 'Kafka', skip: needsKafka, open: (t) => kafka(t) },
];
const kafka = async (t: TestContext): Promise<Log> => {
  const log = new KafkaLog({ brokers: (await kafkaForTests()).brokers, prefix: freshPrefix() });
  t.after(() => log.close());
  return log;
};
const embedded = (t: TestContext): Log => {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  return log;
};
/** A busy machine takes its time over ten thousand of them. */
const folded = (task: TenantTask): Promise<void> => until(() => task.projectionLag === 0, 120_000);
const records = async (log: Log): Promise<LogRecord[]> => {
  const out: LogRecord[] = [];
  for (let from = 0; ; from = (out.at(-1)?.offset ?? 0) + 1) {
    const read = (await log.read(snapshotsRef, from, 1024 * 1024)).records;
    if (read.length === 0) return out;
    out.push(...read);
  }
};

describe('a machine without a local store', () => {
  for (const { name, skip, open } of LOGS)
    it(`goes on from the snapshot and the tail as the one before it would have, on ${name}`, { skip }, async (t) => {
      const log = await open(t);
      const definitions = await bank(t);
      const former = new Machine(t, definitions);
      const before = await former.open(log);
      const pushed: Change[] = [];
      pushedInto(before, pushed);
      const written: number[] = [];
      const snapshots = former.snapshots(log, {
        afterRecords: 27_000,
        observer: { wrote: (bytes) => void written.push(bytes) },
      });
      snapshots.watch(before);
      const answers = await appendAll(before, 0, COMMITS);
      await folded(before);
      await until(() => written.length > 0, 120_000);
      t.diagnostic(`a snapshot of ${written[0]} bytes`);
      assert.ok((written[0] ?? 0) > CHUNK_BYTES, 'it is more than a chunk');
      await snapshots.close();
      answers.push(...(await appendAll(before, COMMITS, COMMITS + TAIL)));
      await folded(before);
      const left = await statesOf(before);
      const sequences = pushed.map(({ sequence }) => sequence);
      await former.close();
      const changesEnd = await log.endOffset(changesRef);

      const next = new Machine(t, definitions);
      await next.snapshots(log).restore(TENANT);
      const restored = next.checkpoint();
      assert.ok(
        restored !== undefined && restored.events.position > 0 && restored.events.position <= COMMITS + 1,
        'the section was filled',
      );
      const after = await next.open(log);
      const repeated: Change[] = [];
      pushedInto(after, repeated);
      await folded(after);
      assert.deepEqual(await statesOf(after), left);
      assert.ok(after.faults.countOfProjection('p') > 0, 'faults are part of it');
      assert.equal(
        await log.endOffset(changesRef),
        changesEnd + 1,
        'nothing but the claim was written: no change again',
      );
      assert.ok(repeated.every(({ sequence }) => sequence > (sequences.at(-1) ?? 0)));
      assert.deepEqual(
        (await after.changes.of('p').read(1, { items: 100_000, bytes: 64 * 1024 * 1024 })).items.map(
          ({ sequence }) => sequence,
        ),
        pushed.filter(({ fault }) => fault === undefined).map(({ sequence }) => sequence),
      );

      for (const i of [0, 500, 10_000, COMMITS + TAIL - 10]) {
        const again = await append(after, i, keyOf(i));
        assert.deepEqual(
          [again.eventIds, again.startVersion, again.timestamp],
          [answers[i]?.eventIds, answers[i]?.startVersion, answers[i]?.timestamp],
          'the command is known',
        );
      }
      const head = after.changes.lastSequence();
      await append(after, 1);
      await until(() => after.changes.lastSequence() > head);
      const [change] = (await after.changes.of('p').read(head + 1, { items: 10 })).items;
      assert.ok(change !== undefined && change.sequence > changesEnd);
    });

  it('folds all of the log when there is no snapshot, to the same states', async (t) => {
    const log = embedded(t);
    const definitions = await bank(t);
    const former = new Machine(t, definitions);
    const before = await former.open(log);
    await appendAll(before, 0, 600);
    await folded(before);
    const left = await statesOf(before);
    await former.close();
    const next = new Machine(t, definitions);
    await next.snapshots(log).restore(TENANT);
    assert.equal(next.checkpoint(), undefined);
    const after = await next.open(log);
    await folded(after);
    assert.deepEqual(await statesOf(after), left);
  });
});

/** A tenant with 300 commits, a snapshot at each hundred, and one to spare. */
async function three(
  t: TestContext,
  opened: Log | Promise<Log> = embedded(t),
): Promise<{ log: Log; machine: Machine; task: TenantTask; positions: number[] }> {
  const log = await opened;
  const machine = new Machine(t);
  const task = await machine.open(log);
  await log.ensureTopics([snapshotsTopicSpec(TENANT)]);
  const positions: number[] = [];
  for (let i = 0; i < 3; i++) {
    await appendAll(task, 100 * i, 100 * (i + 1));
    await stored(machine, await log.endOffset(eventsRef));
    positions.push((await writeSnapshot(log, machine.archive, TENANT, () => false)).checkpoint.events.position);
  }
  return { log, machine, task, positions };
}

/** The machine's disk has all up to the offset. */
const stored = (machine: Machine, position: number): Promise<void> =>
  until(() => {
    machine.store.refresh();
    return machine.checkpoint()?.events.position === position;
  });

/** The log, with what `alter` makes of the records of the topic of snapshots. */
function altered(log: Log, alter: (record: LogRecord) => LogRecord, ends: Partial<Record<string, number>> = {}): Log {
  const change = async (read: Promise<LogPage>, topic: string): Promise<LogPage> => {
    const { records, end } = await read;
    return { records: topic === snapshotsRef.topic ? records.map(alter) : records, end };
  };
  return {
    maxAppendBytes: log.maxAppendBytes,
    ensureTopics: (specs) => log.ensureTopics(specs),
    deleteTopic: (topic) => log.deleteTopic(topic),
    append: (to, what) => log.append(to, what),
    endOffset: async (of) => ends[of.topic] ?? log.endOffset(of),
    startOffset: (of) => log.startOffset(of),
    read: (of, from, bytes, waitMs) => change(log.read(of, from, bytes, waitMs), of.topic),
    readAt: (of, offsets) => change(log.readAt(of, offsets), of.topic),
    doubt: (of) => log.doubt(of),
    reportPositions: (positions) => log.reportPositions(positions),
    close: () => log.close(),
  };
}

const flip = (record: LogRecord, at: number): LogRecord => {
  const value = Buffer.from(record.value ?? []);
  value[at < 0 ? value.length + at : at] = (value.at(at) ?? 0) ^ 1;
  return { ...record, value };
};
const idsOf = (all: readonly LogRecord[]): string[] =>
  all.filter(({ key, value }) => value !== null && readKey(key).n === undefined).map(({ key }) => readKey(key).id);

describe('what is odd about a snapshot', () => {
  /** Where a new machine stands after it was restored from the log. */
  const restoredTo = async (t: TestContext, log: Log): Promise<number | undefined> => {
    const machine = new Machine(t);
    await machine.snapshots(log).restore(TENANT);
    const position = machine.checkpoint()?.events.position;
    assert.equal(machine.store.isLoading(TENANT), false);
    const entries = [...machine.store.section(TENANT).range('', '\u{10ffff}')].length;
    if (position === undefined) assert.equal(entries, 0, 'what could not be used left nothing');
    const task = await machine.open(log);
    const { events } = await task.first.events({
      aggregateId: 'account-7',
      fromVersion: undefined,
      toVersion: undefined,
      limit: 100,
      direction: 'forward',
    });
    assert.deepEqual(
      events.map(({ version }) => version),
      Array.from({ length: 2 }, (_, i) => i + 1),
    );
    await machine.close();
    return position;
  };

  it('nothing: the newest is taken', async (t) => {
    const { log, positions } = await three(t);
    assert.equal(await restoredTo(t, log), positions[2]);
  });

  it('a damaged chunk: the one before is taken, also one that is erased and not yet gone; all of them: the log is folded', async (t) => {
    const { log, positions } = await three(t);
    const [first, second, third] = idsOf(await records(log));
    const damaged = (...ids: (string | undefined)[]): Log =>
      altered(log, (record) =>
        ids.includes(readKey(record.key).id) && readKey(record.key).n === 0 && record.value !== null
          ? flip(record, -1)
          : record,
      );
    assert.equal(await restoredTo(t, damaged(third)), positions[1]);
    assert.equal(await restoredTo(t, damaged(second, third)), positions[0]);
    assert.equal(await restoredTo(t, damaged(first, second, third)), undefined);
  });

  it('a chunk that is not there, or not whole', async (t) => {
    const { log, positions } = await three(t);
    const third = idsOf(await records(log))[2];
    const missing = altered(log, (record) =>
      readKey(record.key).id === third && readKey(record.key).n === 0 ? { ...record, value: null } : record,
    );
    assert.equal(await restoredTo(t, missing), positions[1]);
  });

  it('entries that are others than the manifest says', async (t) => {
    const { log, positions } = await three(t);
    const end = await log.endOffset(snapshotsRef);
    const [last] = (await log.readAt(snapshotsRef, [end - 1])).records;
    const manifest = decodeManifest(decodeRecord(last?.value ?? Buffer.alloc(0)));
    assert.ok(manifest);
    const other = (change: object): Log =>
      altered(log, (record) =>
        record.offset === end - 1 ? { ...record, value: encodeManifest({ ...manifest, ...change }) } : record,
      );
    assert.equal(await restoredTo(t, other({})), positions[2]);
    assert.equal(await restoredTo(t, other({ sha256: '00'.repeat(32) })), positions[1]);
    assert.equal(
      await restoredTo(t, other({ storeFormat: manifest.storeFormat + 1 })),
      positions[1],
      'of another version of the local store',
    );
    const { events } = manifest.checkpoint;
    assert.equal(
      await restoredTo(
        t,
        other({ checkpoint: { ...manifest.checkpoint, events: { ...events, lastRecordId: 'another' } } }),
      ),
      positions[1],
      'of another log',
    );
  });

  it('a manifest of a newer format, or a damaged one', async (t) => {
    const { log, positions } = await three(t);
    const end = await log.endOffset(snapshotsRef);
    const newer = altered(log, (record) =>
      record.offset === end - 1 ? { ...record, value: Buffer.from(record.value ?? []).fill(2, 1, 2) } : record,
    );
    assert.equal(await restoredTo(t, newer), positions[1]);
    assert.equal(
      await restoredTo(
        t,
        altered(log, (record) => (record.offset === end - 1 ? flip(record, -2) : record)),
      ),
      positions[1],
    );
  });

  it('it is ahead of a log that lost its end', async (t) => {
    const { log, positions } = await three(t);
    const machine = new Machine(t);
    const [, second = 0] = positions;
    await machine.snapshots(altered(log, (record) => record, { [eventsRef.topic]: second + 10 })).restore(TENANT);
    assert.equal(machine.checkpoint()?.events.position, second);
    const none = new Machine(t);
    await none.snapshots(altered(log, (record) => record, { [changesRef.topic]: 0 })).restore(TENANT);
    assert.equal(none.checkpoint(), undefined);
  });

  for (const { name, skip, open } of LOGS)
    it(`it was broken off: the one before is taken, and the next clears up, on ${name}`, { skip }, async (t) => {
      const { log, machine, task, positions } = await three(t, open(t));
      await appendAll(task, 300, 301);
      await stored(machine, await log.endOffset(eventsRef));
      const kept = idsOf(await records(log)).at(-1) ?? '';
      const brokenAt = (last: (what: NewRecord) => boolean): Log => ({
        ...altered(log, (record) => record),
        append: (to, what) => (what.some(last) ? Promise.reject(new Error('the process ends')) : log.append(to, what)),
      });
      await assert.rejects(
        writeSnapshot(
          brokenAt(({ value }) => value === null),
          machine.archive,
          TENANT,
          () => false,
        ),
        /the process ends/,
      );
      assert.equal(readKey((await records(log)).at(-1)?.key ?? Buffer.alloc(0)).n, 0, 'a chunk is the last record');
      assert.equal(await restoredTo(t, log), positions[2]);
      await assert.rejects(
        writeSnapshot(
          brokenAt(({ key, value }) => value !== null && readKey(key).n === undefined),
          machine.archive,
          TENANT,
          () => false,
        ),
        /the process ends/,
      );
      assert.equal((await records(log)).at(-1)?.value, null, 'a tombstone is the last record');
      assert.equal(await restoredTo(t, log), positions[2]);
      const { id } = await writeSnapshot(log, machine.archive, TENANT, () => false);
      assert.deepEqual(
        liveKeys(await records(log)),
        [`${kept}/0`, `${kept}/manifest`, `${id}/0`, `${id}/manifest`],
        'two whole ones are kept',
      );
    });

  it('the process died while it was loaded: nothing of it is left', async (t) => {
    const { log, positions } = await three(t);
    const machine = new Machine(t);
    const [last] = (await log.readAt(snapshotsRef, [(await log.endOffset(snapshotsRef)) - 1])).records;
    const manifest = decodeManifest(decodeRecord(last?.value ?? Buffer.alloc(0)));
    assert.ok(manifest);
    const [first] = (await log.readAt(snapshotsRef, [manifest.first])).records;
    let go: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const loading = machine.archive.load(
      TENANT,
      manifest,
      (async function* () {
        yield first?.value ?? Buffer.alloc(0);
        await held;
        throw new Error('the log is away');
      })(),
    );
    await until(() => {
      machine.store.refresh();
      return machine.checkpoint() !== undefined;
    });
    assert.equal(machine.store.isLoading(TENANT), true);
    // What is on the disk now is what a crash would leave: another process opens it.
    const successor = new LocalStore({ path: machine.path, logger: silentLogger });
    assert.equal(new PartitionTables(successor.section(TENANT)).checkpoint(), undefined);
    assert.deepEqual(
      [successor.isLoading(TENANT), [...successor.section(TENANT).range('', '\u{10ffff}')].length],
      [false, 0],
    );
    await successor.close();
    go();
    await assert.rejects(loading, /the log is away/);
    await machine.snapshots(log).restore(TENANT);
    assert.equal(machine.checkpoint()?.events.position, positions[2]);
  });
});

const liveKeys = (all: readonly LogRecord[]): string[] => {
  const live = new Set<string>();
  for (const { key, value } of all) {
    if (value === null) live.delete(key.toString());
    else live.add(key.toString());
  }
  return [...live];
};

describe('writing snapshots', () => {
  it('keeps two, and the log drops what it may', async (t) => {
    const { log, positions } = await three(t);
    assert.deepEqual(positions, [101, 201, 301]);
    const [first, second, third] = idsOf(await records(log));
    assert.deepEqual(liveKeys(await records(log)), [
      `${second}/0`,
      `${second}/manifest`,
      `${third}/0`,
      `${third}/manifest`,
    ]);
    await (log as LmdbLog).clean();
    const kept = await records(log);
    assert.ok(kept.every(({ key, value }) => value === null || readKey(key).id !== first));
    const machine = new Machine(t);
    await machine.snapshots(log).restore(TENANT);
    assert.equal(machine.checkpoint()?.events.position, positions[2]);
  });

  it('stops when another process writes them too, and erases nothing of it', async (t) => {
    const { log, machine, task } = await three(t);
    await appendAll(task, 300, 301);
    await stored(machine, await log.endOffset(eventsRef));
    const keys = liveKeys(await records(log));
    const meanwhile = saving(machine.archive, async (chunk) => {
      await log.append(snapshotsRef, [
        { key: Buffer.from('other/0'), value: Buffer.from('a chunk of another process') },
      ]);
      return chunk;
    });
    await assert.rejects(
      writeSnapshot(log, meanwhile, TENANT, () => false),
      /another process/,
    );
    const left = liveKeys(await records(log));
    assert.deepEqual(left.slice(0, keys.length + 1), [...keys, 'other/0']);
  });

  it('stops when the task does, and when the disk has nothing newer', async (t) => {
    const { log, machine, task } = await three(t);
    await assert.rejects(
      writeSnapshot(log, machine.archive, TENANT, () => false),
      /already/,
    );
    await appendAll(task, 300, 301);
    await stored(machine, await log.endOffset(eventsRef));
    const end = await log.endOffset(snapshotsRef);
    await assert.rejects(
      writeSnapshot(log, machine.archive, TENANT, () => true),
      /not served here/,
    );
    assert.equal(await log.endOffset(snapshotsRef), end);
  });

  it('a former owner that goes on writes one that is right, and older', async (t) => {
    const { log, machine, task } = await three(t);
    await appendAll(task, 300, 350);
    await stored(machine, await log.endOffset(eventsRef));
    // It read the topic before its successor wrote there: to it the third is the newest.
    const end = await log.endOffset(snapshotsRef);
    const successor = new Machine(t);
    await successor.snapshots(log).restore(TENANT);
    const taken = await successor.open(log);
    await appendAll(taken, 350, 500);
    await stored(successor, await log.endOffset(eventsRef));
    const newer = await writeSnapshot(log, successor.archive, TENANT, () => false);
    const late = altered(log, (record) => record, { [snapshotsRef.topic]: end });
    await assert.rejects(
      writeSnapshot(late, machine.archive, TENANT, () => false),
      /another process/,
    );
    const next = new Machine(t);
    await next.snapshots(log).restore(TENANT);
    assert.equal(next.checkpoint()?.events.position, newer.checkpoint.events.position);
  });

  it('is done for owners alone, past the limit of records or bytes and past half of what the last one holds', async (t) => {
    const log = embedded(t);
    const machine = new Machine(t);
    const names = ['standby', 'small', 'many', 'heavy', 'last'];
    const position = { epoch: 1, owner: 'o', position: 100, lastRecordId: undefined };
    for (const name of names) {
      const section = machine.store.section(name);
      new PartitionTables(section).setCheckpoint({ events: position, changes: position, projected: 100 });
      await section.flush();
    }
    const so: Record<string, FoldedSoFar | undefined> = {
      standby: undefined,
      small: { records: 199, bytes: 999 },
      many: { records: 200, bytes: 0 },
      heavy: { records: 60, bytes: 1000 },
      last: { records: 250, bytes: 0 },
    };
    const snapshots = machine.snapshots(log, { afterRecords: 200, afterBytes: 1000, everyMs: 5 });
    for (const name of names)
      snapshots.watch({
        section: name,
        get foldedSoFar() {
          return so[name];
        },
      });
    const count = (name: string): Promise<number> =>
      log.endOffset({ topic: `statefold.${name}.snapshots`, partition: 0 }).catch(() => 0);
    // In their turn: when the last has one, the others were looked at.
    await until(async () => (await count('last')) === 2);
    assert.deepEqual(await Promise.all(names.map(count)), [0, 0, 2, 2, 2]);
    const advance = async (name: string, at: number): Promise<void> => {
      const section = machine.store.section(name);
      new PartitionTables(section).setCheckpoint({
        events: { ...position, position: at },
        changes: position,
        projected: at,
      });
      await section.flush();
    };
    // The last one of each held 200 records: 200 more are due for one, 99 of whatever weight for none.
    await advance('many', 199);
    await advance('heavy', 199);
    await advance('last', 300);
    so['many'] = { records: 299, bytes: 0 };
    so['heavy'] = { records: 299, bytes: 1_000_000 };
    so['last'] = { records: 400, bytes: 0 };
    await until(async () => (await count('last')) === 4);
    assert.deepEqual(await Promise.all(names.map(count)), [0, 0, 2, 2, 4]);
    await snapshots.close();
  });

  it('is over when the tenant is', async (t) => {
    const { log, machine, task } = await three(t);
    await appendAll(task, 300, 600);
    await stored(machine, await log.endOffset(eventsRef));
    let begun = false;
    let go: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const archive = saving(machine.archive, async (chunk) => {
      begun = true;
      await held;
      return chunk;
    });
    const end = await log.endOffset(snapshotsRef);
    const snapshots = machine.snapshots(log, { archive, afterRecords: 100, everyMs: 5 });
    snapshots.watch(task);
    await until(() => begun);
    const over = snapshots.unwatch(TENANT);
    go();
    await over;
    assert.equal(await log.endOffset(snapshotsRef), end, 'nothing was written');
    await snapshots.close();
  });
});
