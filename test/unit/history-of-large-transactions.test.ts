// An aggregate's events may lie in transactions that are a thousand times as large.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregateHistory } from '../../src/aggregates/aggregate-history.js';
import type { AggregateCommit, TransactionCommit } from '../../src/core/event.js';
import { commitInput, type Input } from '../../src/feed/inputs.js';
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
  const at = (offsets: readonly number[]): Promise<Input[]> => {
    reads.push(offsets.length);
    return Promise.resolve(offsets.map((offset) => commitInput(transactionAt(offset))));
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
