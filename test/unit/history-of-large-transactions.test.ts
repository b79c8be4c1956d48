// An aggregate's events may lie in transactions that are a thousand times as large.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregateHistory } from '../../src/aggregates/aggregate-history.js';
import type { AggregateCommit, TransactionCommit } from '../../src/core/event.js';
import { commitInput, type Input } from '../../src/feed/inputs.js';
import type { Picked } from '../../src/feed/log-feed.js';
import { localTables } from '../support/local-tables.js';

const MIB = 1024 * 1024;
const LARGE = Buffer.alloc(MIB, 0x20);
const COUNT = 300;
const AGGREGATE = 'a-1';

const partOf = (aggregateId: string, offset: number, baseVersion: number, data: Buffer): AggregateCommit => ({
  ...{ offset, commandId: `c${offset}`, aggregateId, aggregateType: 'a', baseVersion, timestamp: 1 },
  ...{ correlationId: undefined, causationId: undefined, metadata: undefined },
  events: [{ eventId: `e${offset}`, eventType: 'E', data }],
});

/** One event of the aggregate in each, beside a megabyte of another one. */
const transactionAt = (offset: number): TransactionCommit => ({
  ...{ offset, timestamp: 1, eventCount: 2 },
  parts: [partOf(AGGREGATE, offset, offset, Buffer.from('{}')), partOf('other', offset, offset, LARGE)],
});

test('events that lie in large transactions are read some at a time, and a page of them ends with what was read', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++) tables.addCommit(AGGREGATE, { version: i + 1, type: 'a', timestamp: 1 }, i, i);
  let reads: number[] = [];
  const at = (offsets: readonly number[]): Promise<Picked<Input>> => {
    reads.push(offsets.length);
    return Promise.resolve({
      items: offsets.map((offset) => commitInput(transactionAt(offset))),
      looked: offsets.length,
    });
  };
  const history = new AggregateHistory({ at }, tables);

  for await (const _ of history.commits(AGGREGATE, 1, COUNT));
  assert.ok(Math.max(...reads) <= 16, String(reads));
  assert.ok(reads.filter((length) => length > 1).length <= 2, String(reads));

  for (const direction of ['forward', 'backward'] as const) {
    const versions: number[] = [];
    const pages: number[] = [];
    for (let fromVersion: number | undefined, isEnd = false; !isEnd;) {
      reads = [];
      const query = { aggregateId: AGGREGATE, fromVersion, toVersion: undefined, limit: 1_000, direction };
      const page = await history.events(query, COUNT);
      pages.push(reads.reduce((sum, length) => sum + length, 0));
      versions.push(...page.events.map(({ version }) => version));
      fromVersion = page.nextVersion;
      isEnd = fromVersion === undefined;
    }
    const all = Array.from({ length: COUNT }, (_, i) => i + 1);
    assert.deepEqual(versions, direction === 'forward' ? all : all.reverse());
    assert.ok(Math.max(...pages) <= 24, String(pages));
  }

  reads = [];
  const asked = await Promise.all(Array.from({ length: COUNT }, (_, i) => history.readCommit(i)));
  assert.equal(asked.length, COUNT);
  const [first = 0, second = 0, ...others] = reads;
  assert.ok(first <= 64 && second <= 16 && others.every((length) => length <= 4), String(reads));
});

test('what is read at a time is bounded by its bytes, however small what came before it was', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++) tables.addCommit(AGGREGATE, { version: i + 1, type: 'a', timestamp: 1 }, i, i);
  // Small ones at both ends, so that many are asked for when it comes to the large ones.
  const isLarge = (offset: number): boolean => offset >= 120 && offset < 180;
  let most = 0;
  const at = (offsets: readonly number[], maxBytes = Infinity): Promise<Picked<Input>> => {
    let [bytes, looked] = [0, 0];
    for (; looked < offsets.length && bytes < maxBytes; looked++) bytes += isLarge(offsets[looked] ?? 0) ? MIB : 100;
    most = Math.max(most, bytes);
    const data = (offset: number): Buffer => (isLarge(offset) ? LARGE : Buffer.from('{}'));
    const items = offsets
      .slice(0, looked)
      .map((offset) => commitInput(partOf(AGGREGATE, offset, offset, data(offset))));
    return Promise.resolve({ items, looked });
  };
  const history = new AggregateHistory({ at }, tables);
  const all = Array.from({ length: COUNT }, (_, i) => i + 1);
  for (const reverse of [false, true]) {
    const versions: number[] = [];
    for await (const commits of history.commits(AGGREGATE, 1, COUNT, reverse))
      versions.push(...commits.map(({ baseVersion }) => baseVersion + 1));
    assert.deepEqual(versions, reverse ? all.toReversed() : all);
  }
  const asked = await Promise.all(all.map((version) => history.readCommit(version - 1)));
  assert.deepEqual(
    asked.map(({ offset }) => offset + 1),
    all,
  );
  assert.ok(most <= 3 * MIB, `${most} bytes at a time`);
});

test('a page of events with a hole is none: the index was given up while it was read', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++) tables.addCommit(AGGREGATE, { version: i + 1, type: 'a', timestamp: 1 }, i, i);
  for (const missing of [0, 100, COUNT - 1])
    for (const direction of ['forward', 'backward'] as const) {
      const at = (offsets: readonly number[]): Promise<Picked<Input>> => {
        const there = offsets.filter((offset) => offset !== missing);
        const items = there.map((offset) => commitInput(partOf(AGGREGATE, offset, offset, Buffer.from('{}'))));
        return Promise.resolve({ items, looked: offsets.length });
      };
      const query = { aggregateId: AGGREGATE, fromVersion: undefined, toVersion: undefined, limit: 1_000, direction };
      await assert.rejects(new AggregateHistory({ at }, tables).events(query, COUNT), { code: 'UNAVAILABLE' });
    }
});
