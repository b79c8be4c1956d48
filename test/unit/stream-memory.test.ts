import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import { StreamsMemory, type StreamMemory } from '../../src/http/stream-memory.js';

const MIB = 1024 * 1024;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const setUp = () => {
  const budget = new MemoryBudget({ processBytes: 128 * MIB, tenantBytes: 64 * MIB });
  return { budget, memory: new StreamsMemory(budget) };
};
const SHARE = 8 * MIB;
const open = (memory: StreamsMemory, count: number, tenantId = 't'): StreamMemory[] =>
  Array.from({ length: count }, () => memory.open(tenantId, () => assert.fail('nobody waits')));

test('what goes to many streams is there once, and counted once', () => {
  const { budget, memory } = setUp();
  const streams = open(memory, 900);
  const items = Array.from({ length: 4 }, () => Buffer.alloc(MIB));
  for (const [i, item] of items.entries())
    for (const stream of streams) assert.equal(stream.tryPush(item, i * MIB, 0), true);
  const overhead = 900 * 4 * 512;
  assert.equal(budget.held('streams'), 4 * MIB + overhead);
  // All but one have read two of them.
  for (const stream of streams.slice(1)) stream.keepLast(2 * MIB);
  assert.equal(budget.held('streams'), 4 * MIB + overhead - 899 * 2 * 512);
  streams[0]?.close();
  assert.equal(budget.held('streams'), 2 * MIB + 899 * 2 * 512);
  for (const stream of streams.slice(1)) stream.close();
  assert.equal(budget.held('streams'), 0);
});

test('what each has of its own is bounded for all streams of the tenant, and another tenant has room', async () => {
  const { budget, memory } = setUp();
  const resumed: number[] = [];
  const streams = Array.from({ length: 900 }, (_, i) => memory.open('t', () => void resumed.push(i)));
  const taken = streams.filter((stream) => stream.tryPush(Buffer.alloc(MIB), 0, 0));
  assert.equal(taken.length, 7);
  assert.ok(budget.held('streams') <= SHARE);
  assert.deepEqual([budget.refusals('streams', 'tenant'), budget.refusals('streams', 'process')], [893, 0]);
  const [other] = open(memory, 1, 'u');
  assert.equal(other?.tryPush(Buffer.alloc(MIB), 0, 0), true);
  // Those that wait go on in their order, when one has read.
  taken[3]?.keepLast(0);
  await nextTurn();
  assert.deepEqual(
    resumed,
    Array.from({ length: 893 }, (_, i) => i + 7),
  );
  taken[4]?.close();
  await nextTurn();
  assert.equal(resumed.length, 893, 'nobody waits any more');
});

test('a stream for which there is no room still waits, behind the others', async () => {
  const { memory } = setUp();
  const resumed: string[] = [];
  const item = Buffer.alloc(7 * MIB);
  const [full] = open(memory, 1);
  assert.equal(full?.tryPush(item, 0, 0), true);
  const waiting: StreamMemory[] = ['a', 'b'].map((name, i) =>
    memory.open('t', () => {
      resumed.push(name);
      assert.equal(waiting[i]?.tryPush(Buffer.alloc(5 * MIB), 0, 0), name === 'a' && full.keeps === 0);
    }),
  );
  for (const one of waiting) assert.equal(one.tryPush(Buffer.alloc(5 * MIB), 0, 0), false);
  full.beat();
  await nextTurn();
  assert.deepEqual(resumed, ['a'], 'one that finds no room tells for all');
  full.beat();
  await nextTurn();
  assert.deepEqual(resumed, ['a', 'b'], 'the next one is tried next');
  full.keepLast(0);
  await nextTurn();
  assert.deepEqual(resumed, ['a', 'b', 'a', 'b']);
});

test('little is not counted; who keeps much too long is stalled, the sooner where others of the tenant wait', () => {
  const { budget, memory } = setUp();
  const [one] = open(memory, 1);
  const small = Buffer.alloc(32 * 1024);
  assert.equal(one?.tryPush(small, 0, 0), true);
  assert.equal(one.tryPush(small, small.length, 0), true);
  assert.equal(budget.held(), 0);
  assert.equal(one.isStalled(1e9, 30_000), false);
  assert.equal(one.tryPush(small, 2 * small.length, 1_000), true);
  // 96 KiB at 64 KiB a second.
  assert.deepEqual(
    [32_499, 32_500].map((now) => one.isStalled(now, 30_000)),
    [false, true],
  );
  const late = memory.open('t', () => undefined);
  assert.equal(late.tryPush(Buffer.alloc(9 * MIB), 0, 1_000), false);
  assert.deepEqual(
    [7_499, 7_500].map((now) => one.isStalled(now, 30_000)),
    [false, true],
  );
  late.close();
  assert.equal(one.isStalled(7_500, 30_000), false);
  one.keepLast(small.length - 1);
  assert.equal(one.isStalled(1e9, 30_000), true, 'a part of the last one is still there');
  one.keepLast(0);
  assert.deepEqual([one.isStalled(1e9, 30_000), budget.held()], [false, 0]);
});
