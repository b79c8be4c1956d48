// What is written, or read, is folded some at a time: others have their turn between, and nothing is folded twice or left out.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { background } from '../../src/core/background.js';
import { NotOwnerError } from '../../src/core/errors.js';
import { EventLoopHolds, eventLoop } from '../../src/core/event-loop.js';
import { silentLogger } from '../../src/core/logger.js';
import type { ChangesBody } from '../../src/core/records.js';
import { timedSlice } from '../../src/core/slices.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { FencedPartition } from '../../src/log/journal/fenced-partition.js';
import type { Draft } from '../../src/log/journal/partition-handler.js';
import { PRODUCE } from '../../src/projections/portions.js';
import type { OrderSpan, PartitionTables } from '../../src/store/partition-tables.js';
import { TenantOrder } from '../../src/tenancy/tenant-order.js';
import { ManyKeysWorld, PROJECTION } from '../support/many-keys-world.js';
import { ROOT, temporaryDirectory, until } from '../support/service.js';

const ref = { topic: 'statefold.acme.changes', partition: 0 };
const { changes: codec, order: orderCodec } = loadCodecs(join(ROOT, 'schemas', 'avro'));
const CHANGES = 500;
/** What the fold of a change takes here. */
const EACH_MS = 1;

const change = (inputOffset: number): ChangesBody => ({
  kind: 'Change',
  value: {
    ...{ projectionId: 'p', revision: 1, className: 'C', key: `k${inputOffset}`, inputOffset, inputIndex: 0 },
    ...{ eventId: `e${inputOffset}`, aggregateId: 'a', aggregateType: 't', version: inputOffset, timestamp: 0 },
    ...{ cause: null, fault: null, state: Buffer.from('{}') },
  },
});

function turns(t: Pick<TestContext, 'after'>) {
  const counted = { count: 0 };
  let going = true;
  t.after(() => (going = false));
  const next = (): void => {
    counted.count++;
    if (going) setImmediate(next);
  };
  setImmediate(next);
  return counted;
}

async function world(t: TestContext) {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  await log.ensureTopics([{ topic: ref.topic, partitions: 1, cleanup: { policy: 'delete', retentionMs: 3_600_000 } }]);
  const turn = turns(t);
  const partition = (owner: string, epoch: number, atOnce?: Readonly<Record<'encoded' | 'folded', number>>) => {
    const state = {
      folded: [] as number[],
      /** Turns of the event loop that were taken while the first and the last one were folded. */
      foldedOn: [] as number[],
      encodedOn: [] as number[],
      waiting: [] as number[],
      stopped: undefined as Error | undefined,
      left: [] as number[],
      onFold: undefined as ((folded: number) => void) | undefined,
    };
    const fenced = new FencedPartition<ChangesBody>({
      ...{ log, ref, owner, logger: silentLogger },
      codec: {
        encode: (fence, body) => {
          if (body.kind !== 'Claim') state.encodedOn.push(turn.count);
          return codec.encode(fence, body);
        },
        decode: (value) => codec.decode(value),
      },
      epochs: { epoch, nextEpoch: () => Promise.reject(new NotOwnerError()) },
      handler: {
        judge: ({ value }) => value.inputOffset > (state.folded.at(-1) ?? -1),
        fold: ({ body, accepted }) => {
          if (!accepted) return;
          for (const end = performance.now() + EACH_MS; performance.now() < end;);
          state.folded.push(body.value.inputOffset);
          state.foldedOn.push(turn.count);
          state.onFold?.(state.folded.length);
        },
        ...(atOnce === undefined ? {} : { atOnce: (step: 'encoded' | 'folded') => atOnce[step] }),
        gather: () =>
          state.waiting.splice(0).map((input): Draft<ChangesBody> => ({ body: change(input), keyPrefix: 'p/k' })),
        undecided: () => assert.fail('nothing is written twice'),
        refused: () => assert.fail('nothing is refused'),
        stopped: (error, drafts) => {
          state.stopped = error;
          state.left = drafts.map(({ body }) => body.value.inputOffset);
        },
      },
    });
    t.after(() => fenced.close());
    return { fenced, state };
  };
  return { log, partition };
}

const inputs = Array.from({ length: CHANGES }, (_, i) => i);
/** Of the slices, each of which lasts for 10 ms and what 16 changes take. */
const LEAST_TURNS = Math.floor((CHANGES * EACH_MS) / (10 + 16 * EACH_MS)) - 1;
const spent = (foldedOn: readonly number[]): number => (foldedOn.at(-1) ?? 0) - (foldedOn[0] ?? 0);

test('a produce is folded in slices, in its order, and the next one waits for it', async (t) => {
  const { partition } = await world(t);
  const { fenced, state } = partition('w', 1);
  await fenced.open();
  state.waiting.push(...inputs);
  fenced.kick();
  // Comes in the middle of it.
  state.onFold = (folded) => {
    if (folded !== CHANGES / 2) return;
    state.waiting.push(CHANGES);
    fenced.kick();
  };
  let caughtUp = 0;
  await until(() => state.folded.length > 0);
  const began = performance.now();
  void fenced.caughtUp().then(() => (caughtUp = state.folded.length));
  await until(() => state.folded.length > CHANGES);
  const took = performance.now() - began;
  assert.deepEqual(state.folded, [...inputs, CHANGES]);
  assert.ok(spent(state.foldedOn) >= LEAST_TURNS, `${spent(state.foldedOn)} turns, of ${LEAST_TURNS} at least`);
  await until(() => caughtUp > 0);
  assert.ok(caughtUp >= CHANGES, 'who asks for all waits for the last slice');
  // By the product's own measure: it was one hold. On a busy machine each lasts longer, and all of them do.
  const longest = eventLoop.longest('log_fold') * 1000;
  assert.ok(longest < took / 3, `the longest slice held the event loop for ${longest} ms, of ${took} ms`);
});

test('a produce is encoded, and folded, as many at once as its handler says, each slice on a turn of its own', async (t) => {
  const { partition } = await world(t);
  const { fenced, state } = partition('w', 1, { encoded: 4, folded: 2 });
  await fenced.open();
  state.waiting.push(...inputs.slice(0, 9));
  fenced.kick();
  await until(() => state.folded.length === 9);
  assert.deepEqual(state.folded, inputs.slice(0, 9));
  const slices = (on: readonly number[]): number[] =>
    [...new Set(on)].map((turn) => on.filter((one) => one === turn).length);
  assert.deepEqual(slices(state.encodedOn), [4, 4, 1]);
  assert.deepEqual(slices(state.foldedOn), [2, 2, 2, 2, 1]);
});

test('what others wrote is folded in slices too, when a partition is opened and while it is followed', async (t) => {
  const { partition } = await world(t);
  const owner = partition('w1', 1);
  await owner.fenced.open();
  const follower = partition('w2', 2);
  await follower.fenced.open({ claim: false });
  owner.state.waiting.push(...inputs);
  owner.fenced.kick();
  await until(() => follower.state.folded.length === CHANGES && owner.state.folded.length === CHANGES);
  const late = partition('w3', 3);
  await late.fenced.open({ claim: false });
  for (const { state } of [follower, late]) {
    assert.deepEqual(state.folded, inputs);
    assert.ok(spent(state.foldedOn) >= LEAST_TURNS, `${spent(state.foldedOn)} turns, of ${LEAST_TURNS} at least`);
  }
  // It claims in the middle of what it follows.
  owner.state.waiting.push(...inputs.map((i) => i + CHANGES));
  owner.fenced.kick();
  await until(() => follower.state.folded.length > CHANGES + 50);
  await follower.fenced.claim();
  follower.state.waiting.push(5000);
  follower.fenced.kick();
  await until(() => follower.state.folded.at(-1) === 5000);
  assert.deepEqual(follower.state.folded, [...inputs, ...inputs.map((i) => i + CHANGES), 5000]);
});

test('a partition that is closed in the middle of a produce folds all of it first', async (t) => {
  const { partition } = await world(t);
  const { fenced, state } = partition('w', 1);
  await fenced.open();
  state.waiting.push(...inputs);
  fenced.kick();
  await until(() => state.folded.length > 50);
  await fenced.close();
  assert.deepEqual([state.folded, state.left], [inputs, []]);
  assert.match(state.stopped?.message ?? '', /shutting down/);
});

test('a slice ends with its time, and little is never cut', () => {
  let now = 0;
  const slow = timedSlice(inputs, 3, () => (now += 3), { now: () => now });
  assert.equal(slow, 7);
  assert.equal(
    timedSlice(inputs.slice(0, 4), 0, () => (now += 100), { now: () => now }),
    4,
  );
  assert.equal(
    timedSlice([], 0, () => assert.fail(), { now: () => now }),
    0,
  );
  const holds = new EventLoopHolds(() => now);
  const done: number[] = [];
  for (let at = 0; at < CHANGES;)
    at = holds.slice('log_fold', () =>
      timedSlice(
        inputs,
        at,
        (one) => {
          done.push(one);
          now += 1;
        },
        { now: () => now },
      ),
    );
  assert.deepEqual([done, holds.longest('log_fold'), holds.long('log_fold')], [inputs, 0.012, 0]);
});

test('followers are told of changes that were written together when the states of all of them can be read', async (t) => {
  const w = new ManyKeysWorld(t);
  w.deployed(1, 1);
  const seat = await w.open('one');
  w.deploy(seat, 1, 1);
  await w.append(seat, 1);
  await seat.untilLive(1);
  const before = await seat.told();
  const feed = seat.task.changes.of(PROJECTION);
  const head = feed.head;
  // Each look at the clock finds that time has passed: the changes are folded in a dozen slices.
  const now = performance.now.bind(performance);
  let looks = 0;
  t.mock.method(performance, 'now', () => now() + 6 * looks++);
  const seen: [told: number, states: number][] = [];
  const stop = feed.subscribe(() => {
    const { items } = feed.recent(head, { items: 1000 }) ?? assert.fail('it is in memory');
    void seat.states().then((states) => seen.push([items.length, states.size]));
  });
  t.after(stop);
  // As many as one produce takes.
  await w.append(seat, PRODUCE.changes);
  await until(() => seen.length > 0);
  assert.deepEqual(seen, [[PRODUCE.changes, PRODUCE.changes]], 'one of the keys was there before');
  assert.equal((await seat.told()).length, before.length + PRODUCE.changes);
});

test('the order of a tenant of several partitions is read some at a time, by all who read it at once', async (t) => {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const ref = { topic: 'statefold.acme.order', partition: 0 };
  await log.ensureTopics([{ topic: ref.topic, partitions: 1, cleanup: { policy: 'tombstones' } }]);
  const fence = { epoch: 0, owner: 'o', recordId: 'r', expectedOffset: 0, previous: '' };
  const through = (n: number): Buffer =>
    orderCodec.encode(fence, { kind: 'Through', value: { partition: n % 2, through: 1 + (n >> 1) } });
  await log.append(
    ref,
    Array.from({ length: 200 }, (_, n) => ({ key: Buffer.from(`${n}`), value: through(n) })),
  );
  const spans: OrderSpan[] = [];
  const setSpan = (span: OrderSpan): void => {
    spans.push(span);
    for (const until = performance.now() + EACH_MS; performance.now() < until;);
  };
  const order = new TenantOrder({
    ...{ log, codec: orderCodec, ref, owner: 'p', logger: silentLogger, from: undefined },
    tables: {
      setSpan,
      spanAt: () => undefined,
      spanOf: () => undefined,
    } as Partial<PartitionTables> as PartitionTables,
    partitions: { count: 2, foldedTo: () => undefined },
    listener: { advanced: () => undefined, stopped: (error) => assert.fail(error) },
  });
  t.after(() => order.close());
  const turn = turns(t);
  await Promise.all([order.open(), order.caughtUp()]);
  assert.ok(turn.count >= 20, `${turn.count} turns of others`);
  assert.deepEqual(
    spans,
    Array.from({ length: 200 }, (_, n) => ({ base: n, partition: n % 2, from: n >> 1, end: (n >> 1) + 1 })),
  );
  assert.equal(order.end, 200);
});

test('what came in one turn of the event loop goes in one produce; beside clients of other tenants nothing waits for the end of the turn', async (t) => {
  const { partition } = await world(t);
  const { fenced, state } = partition('w', 1);
  await fenced.open();
  state.waiting.push(1);
  fenced.kick();
  await Promise.resolve();
  state.waiting.push(2);
  await until(() => Promise.resolve(state.folded.length === 2));
  assert.equal(new Set(state.encodedOn).size, 1);
  for (const tenant of ['a', 'b']) background.asked(tenant);
  state.waiting.push(3);
  fenced.kick();
  await Promise.resolve();
  assert.deepEqual(state.waiting, [], 'it is gathered');
  await until(() => Promise.resolve(state.folded.length === 3));
});
