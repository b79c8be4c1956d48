import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { findProjectRoot } from '../../src/config/project-root.js';
import { headAfter } from '../../src/core/append-rules.js';
import { partsOf } from '../../src/core/event.js';
import type { CommitValue } from '../../src/core/records.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import type { Log, LogRecord } from '../../src/log/log.js';
import { AggregateHistory } from '../../src/aggregates/aggregate-history.js';
import { CommitFeed } from '../../src/aggregates/commit-feed.js';
import { type Input } from '../../src/feed/inputs.js';
import { storedCommit } from '../../src/log/codec/commit-of-view.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { Scheduler } from '../simulator/scheduler.js';
import { SimDisk } from '../simulator/sim-store.js';
import { pick } from '../support/pick.js';

const codec = loadCodecs(join(findProjectRoot(), 'schemas', 'avro')).events;

/** A log of commits of these sizes to aggregate `a`, with foreign and void records between, folded to its end. */
function readerOf(
  sizes: readonly number[],
  tailBytes: number,
  pushedFrom: number,
): {
  feed: CommitFeed;
  history: AggregateHistory;
  head: number;
  end: number;
  /** The offsets of each look at the log. */
  reads: (readonly number[])[];
  /** Drops all before the offset, as retention does; without `start` being moved, as an erasure does. */
  drop: (before: number, start?: number) => void;
} {
  const tables = new PartitionTables(
    new SimDisk(new Scheduler(1)).open({ id: 'p', alive: true, paused: false }, 1e9).section('t'),
  );
  const records: LogRecord[] = [];
  const reads: (readonly number[])[] = [];
  let [dropped, first] = [0, 0];
  const inputs: Input[] = [];
  let head = 0;
  const add = (aggregateId: string, baseVersion: number, count: number, accepted: boolean): void => {
    const offset = records.length;
    const value: CommitValue = {
      commandId: `c${offset}`,
      keyed: false,
      requestHash: Buffer.alloc(0),
      aggregateId,
      aggregateType: 't',
      baseVersion,
      timestamp: offset,
      correlationId: null,
      causationId: null,
      metadata: null,
      events: Array.from({ length: count }, (_, i) => ({
        eventId: Buffer.alloc(16, i),
        eventType: 'e',
        data: Buffer.from(`{"o":${offset},"i":${i}}`),
      })),
    };
    const fence = { epoch: 1, owner: 'w', recordId: `${offset}`, expectedOffset: offset, previous: '' };
    records.push({ offset, timestamp: 0, key: Buffer.alloc(0), value: codec.encode(fence, { kind: 'Commit', value }) });
    if (!accepted) return tables.addVoid('events', offset);
    tables.addCommit(aggregateId, headAfter(value), baseVersion, offset);
    inputs.push({ kind: 'commit', commit: storedCommit(offset, value) });
  };
  for (const [i, size] of sizes.entries()) {
    if (i % 3 === 1) add('a', head, 2, false);
    if (i % 4 === 2) add('b', i, 1, true);
    if (i % 5 === 3)
      records.push({ offset: records.length, timestamp: 0, key: Buffer.alloc(0), value: Buffer.from('foreign') });
    add('a', head, size, true);
    head += size;
  }
  const log: Pick<Log, 'read' | 'readAt' | 'startOffset'> = {
    startOffset: () => Promise.resolve(first),
    read: (_of, wanted, maxBytes) => {
      const from = Math.max(wanted, dropped);
      return Promise.resolve({
        records: records.slice(from, from + Math.max(1, Math.floor(maxBytes / 200))),
        end: records.length,
      });
    },
    readAt: (_of, offsets) => {
      reads.push(offsets);
      const there = offsets.filter((offset) => offset >= dropped);
      return Promise.resolve({ records: there.flatMap((offset) => records[offset] ?? []), end: records.length });
    },
  };
  const start = Math.min(pushedFrom, records.length);
  const feed = new CommitFeed({
    log: log as Log,
    ref: { topic: 'events', partition: 0 },
    codec,
    tailBytes,
    start,
    voids: tables.voids('events'),
    folded: { position: records.length },
  });
  for (const input of inputs)
    if ((input.kind === 'commit' ? input.commit.offset : input.offset) >= start) feed.push(input);
  return {
    feed,
    history: new AggregateHistory(feed, tables),
    head,
    end: records.length,
    reads,
    drop: (before, start = before) => ([dropped, first] = [before, start]),
  };
}

// Some aggregates have more commits than a row of the index holds.
const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 150, size: 'max' });
const tails = fc.tuple(fc.constantFrom(300, 3000, 1e6), fc.nat(50));
const FIELDS = [
  'offset',
  'commandId',
  'aggregateId',
  'aggregateType',
  'baseVersion',
  'timestamp',
  'correlationId',
  'causationId',
  'metadata',
  'events',
] as const;
/** All of an input, wherever it comes from. */
const whole = (input: Input): unknown =>
  input.kind === 'commit' ? partsOf(input.commit).map((part) => pick(part, FIELDS)) : input;
const upTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);

describe('reading commits', () => {
  it('pages of an aggregate: inclusive bounds, either way, whole when followed by nextVersion', async () => {
    const bound = fc.option(fc.integer({ min: 0, max: 130 }), { nil: undefined });
    await fc.assert(
      fc.asyncProperty(
        sizes,
        tails,
        bound,
        bound,
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom('forward' as const, 'backward' as const),
        async (of, [tailBytes, pushedFrom], fromVersion, toVersion, limit, direction) => {
          const { history, head } = readerOf(of, tailBytes, pushedFrom);
          const low = direction === 'forward' ? (fromVersion ?? 1) : (toVersion ?? 1);
          const high = direction === 'forward' ? (toVersion ?? head) : (fromVersion ?? head);
          const want = upTo(head).filter((version) => version >= low && version <= high);
          if (direction === 'backward') want.reverse();
          const got: number[] = [];
          let from = fromVersion;
          for (let pages = 0; ; pages++) {
            assert.ok(pages <= head, 'ends');
            const page = await history.events(
              { aggregateId: 'a', fromVersion: from, toVersion, limit, direction },
              head,
            );
            assert.ok(page.events.length <= limit);
            assert.ok(
              page.nextVersion === undefined || page.events.length > 0,
              'a page with more to come holds something',
            );
            got.push(...page.events.map(({ version }) => version));
            if (page.nextVersion === undefined) break;
            assert.equal(page.nextVersion, (got.at(-1) ?? 0) + (direction === 'forward' ? 1 : -1));
            from = page.nextVersion;
          }
          assert.deepEqual(got, want);
        },
      ),
    );
  });

  it('history in chunks, and the inputs from any place on, are the same from memory and from the log', async () => {
    await fc.assert(
      fc.asyncProperty(
        sizes,
        tails,
        fc.integer({ min: 1, max: 60 }),
        fc.nat(60),
        fc.constantFrom(1, 900, 1e6),
        async (of, [tailBytes, pushedFrom], from, length, maxBytes) => {
          const { feed, history, head, end } = readerOf(of, tailBytes, pushedFrom);
          const all = readerOf(of, 1e9, 0).feed;
          const read = async (by: CommitFeed, bytes: number): Promise<Input[]> => {
            const inputs: Input[] = [];
            for (let next = 0; next < end;) {
              const page = await by.read(next, { bytes });
              assert.ok(page.end > next, 'goes on');
              inputs.push(...page.items);
              next = page.end;
            }
            assert.deepEqual(await by.read(end, { bytes }), { items: [], end });
            return inputs;
          };
          assert.deepEqual((await read(feed, maxBytes)).map(whole), (await read(all, 1e9)).map(whole));
          const first = Math.min(from, head);
          const last = Math.min(first + length, head);
          for (const reverse of [false, true]) {
            const bases: number[] = [];
            for await (const chunk of history.commits('a', first, last, reverse))
              bases.push(...chunk.map(({ baseVersion }) => baseVersion));
            const starts = of.map((_size, i) => of.slice(0, i).reduce((sum, n) => sum + n, 0));
            const want = starts.filter((base, i) => base < last && base + (of[i] ?? 0) >= first);
            assert.deepEqual(bases, reverse ? want.reverse() : want);
          }
        },
      ),
    );
  });

  it('a void record is nobody’s commit', async () => {
    const { feed, history, end } = readerOf([1, 2, 3], 300, 100);
    const commits = (await feed.read(0, { bytes: 1e6 })).items.flatMap((input) =>
      input.kind === 'commit' && partsOf(input.commit)[0]?.aggregateId === 'a' ? [input.commit.offset] : [],
    );
    for (let offset = 0; offset < end; offset++)
      if (commits.includes(offset)) assert.equal((await history.readCommit(offset)).offset, offset);
    await assert.rejects(history.readCommit(1), /offset 1 is not in the log/);
  });

  it('a log of which the start was dropped is told, and not read as a shorter one; what was erased in it is', async () => {
    const { feed, history, head, end, drop } = readerOf([1, 2, 3, 4, 5], 300, 100);
    drop(4);
    const lost = /^InvariantError: events-0: the log begins at 4, and \d is asked for, .*: the log lost data$/;
    await assert.rejects(feed.read(0, { bytes: 1e6 }), lost);
    await assert.rejects(
      history.events(
        { aggregateId: 'a', fromVersion: undefined, toVersion: undefined, limit: 100, direction: 'forward' },
        head,
      ),
      lost,
    );
    await assert.rejects(history.readCommit(0), lost);
    assert.equal((await feed.read(4, { bytes: 1e6 })).end, end);
    assert.equal((await history.readCommit(6)).offset, 6);

    const erased = readerOf([1, 2, 3, 4, 5], 300, 100);
    erased.drop(4, 0);
    const { items } = await erased.feed.read(0, { bytes: 1e6 });
    assert.ok(items.length > 0);
    assert.ok(items.every((input) => input.kind === 'commit' && input.commit.offset >= 4));
  });

  it('commits that are asked for one by one are read together, and each who asks has its own', async () => {
    const { history, reads } = readerOf(
      Array.from({ length: 600 }, () => 1),
      300,
      1e9,
    );
    const ask = (offset: number): Promise<unknown> =>
      history.readCommit(offset).then(
        (commit) => commit.offset,
        (error: Error) => error.message,
      );
    // As they come, some of them twice, and one that is nobody's.
    const offsets = [...Array.from({ length: 500 }, (_, i) => (i * 7) % 500), 3, 3].filter(
      (offset) => offset % 9 === 0 || offset === 3,
    );
    const first = offsets.slice(0, 1).map(ask);
    const answers = await Promise.all([...first, ...offsets.slice(1).map(ask), ask(1)]);
    const told = answers.slice(0, -1).filter((answer) => typeof answer === 'number');
    assert.ok(told.length > 40, String(answers));
    assert.deepEqual(
      answers.slice(0, -1).filter((answer, i) => typeof answer === 'number' && answer !== offsets[i]),
      [],
    );
    assert.equal(answers.at(-1), 'the commit at offset 1 is not in the log');
    assert.equal(reads.length, 1);
    assert.deepEqual(
      reads[0],
      [...new Set([...offsets, 1])].sort((a, b) => a - b),
    );
  });
});

it('a bounded number of controls is remembered: whoever is behind them reads', () => {
  const { feed } = readerOf([1], 0, 1e6);
  for (let offset = 100; offset < 20_100; offset += 2) feed.push({ kind: 'erased', offset } as Input);
  assert.equal(feed.commitsUntil(0), undefined);
  assert.equal(feed.commitsUntil(20_051), 20_052);
  assert.equal(feed.commitsUntil(20_052), 20_052);
});
