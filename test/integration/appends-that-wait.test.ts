// Appends that wait for the local store, or are refused by the log for others beside them.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import type { AppendResult } from '../../src/core/event.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { appendBytes, AppendRefusedError, tooLarge, type NewRecord, type PartitionRef } from '../../src/log/log.js';
import { appendOf } from '../support/append-command.js';
import { keyOf, ManyKeysWorld, type Seat, stateOf } from '../support/many-keys-world.js';
import { temporaryDirectory, until } from '../support/service.js';

const append = ({ task }: Seat, aggregateId: string, data = '{}'): Promise<AppendResult> =>
  task.first.append(appendOf(aggregateId, 'Came', data));

test('an append that waits for room in the local store is not overtaken by one that comes when there is some', async (t) => {
  const seat = await new ManyKeysWorld(t).open('store');
  let isFull = true;
  let give = (): void => undefined;
  Object.defineProperty(seat.section, 'isFull', { get: () => isFull });
  t.mock.method(seat.section, 'roomSoon', () =>
    isFull ? new Promise<boolean>((resolve) => (give = () => resolve(true))) : undefined,
  );
  const first = append(seat, 'a-1');
  // Others have given back what they held, and nobody has told that yet.
  isFull = false;
  const second = append(seat, 'a-1');
  give();
  assert.deepEqual([(await first).endVersion, (await second).endVersion], [1, 2]);
});

/** As a topic on Kafka whose `max.message.bytes` somebody has lowered. */
class SmallLog extends LmdbLog {
  most = Infinity;
  /** It takes so many appends that it would else refuse nothing of, and then none. */
  left = Infinity;

  override append(to: PartitionRef, records: readonly NewRecord[]): ReturnType<LmdbLog['append']> {
    if (this.left === 0) return Promise.reject(new AppendRefusedError('not appended: it takes none'));
    const bytes = appendBytes(records);
    if (bytes > this.most) return Promise.reject(tooLarge(records.length, bytes, this.most));
    this.left--;
    return super.append(to, records);
  }
}

test('appends that are small enough for the log are not refused for those that are written with them', async (t) => {
  const log = new SmallLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const seat = await new ManyKeysWorld(t, { log }).open('store');
  log.most = 10_000;
  const [large, few] = ['x'.repeat(20_000), 'x'.repeat(1000)].map((text) => JSON.stringify({ text }));
  const sent = Array.from({ length: 60 }, (_, i) => append(seat, `a-${i}`, i % 20 === 7 ? large : few));
  const refused: number[] = [];
  let settled = 0;
  sent.forEach((one, i) => {
    one
      .catch((error: unknown) => {
        assert.ok(error instanceof StatefoldError && /takes less at once/.test(error.message), String(error));
        refused.push(i);
      })
      .finally(() => settled++);
  });
  await until(() => settled === sent.length);
  assert.deepEqual(refused, [7, 27, 47]);
});

const KEYS = 200;

/** A projection over a topic of which each test says how much it takes. */
async function smallWorld(t: TestContext) {
  const log = new SmallLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const world = new ManyKeysWorld(t, { log });
  const seat = await world.open('store');
  world.deploy(seat, 1, 1);
  await seat.untilLive(1);
  return { log, world, seat };
}

/** Changes of one append wait that are more together than the topic takes now. */
async function smallTopic(t: TestContext) {
  const { log, world, seat } = await smallWorld(t);
  let open = (): void => undefined;
  world.gate = new Promise((resolve) => (open = resolve));
  await world.send(seat.task, KEYS);
  log.most = 10_000;
  return { log, world, seat, open };
}

async function mustBeTold(seat: Seat): Promise<void> {
  const told = await seat.told();
  const expected = Array.from({ length: KEYS }, (_, i) => [keyOf(i), stateOf(1, keyOf(i))]);
  assert.deepEqual(
    told.map(({ key, state }) => [key, state?.toString()]),
    expected,
  );
  assert.deepEqual([...(await seat.states())], expected);
}

test('changes of one input that are more than the topic takes at once are written in smaller parts', async (t) => {
  const { seat, open } = await smallTopic(t);
  open();
  await until(() => seat.task.projectionLag === 0);
  await mustBeTold(seat);
});

test('who takes over such changes when some of them are in the log writes the rest', async (t) => {
  const { log, world, seat, open } = await smallTopic(t);
  log.left = 2;
  open();
  await until(() => log.left === 0);
  await seat.close();
  log.left = Infinity;
  const next = await world.open('next');
  await until(() => next.task.projectionLag === 0);
  await mustBeTold(next);
});

/** A projection of more keys than a produce has changes, which is deployed anew where the topic takes less than such a produce. */
async function smallSwap(t: TestContext) {
  const { log, world, seat } = await smallWorld(t);
  await world.append(seat, 600);
  log.most = 10_000;
  return { log, world, seat };
}

async function mustBeSwapped(seat: Seat): Promise<void> {
  const expected = new Map(Array.from({ length: 600 }, (_, i) => [keyOf(i), stateOf(2, keyOf(i))]));
  assert.deepEqual(await seat.states(), expected);
  const told = await seat.told();
  assert.deepEqual(
    new Map(told.filter(({ revision }) => revision === 2).map(({ key, state }) => [key, state?.toString()])),
    expected,
  );
  assert.equal(told.length, 1200);
}

test('a swap that tells more than the topic takes at once is told in smaller parts', async (t) => {
  const { world, seat } = await smallSwap(t);
  world.deploy(seat, 2, 2);
  await seat.untilLive(2);
  await mustBeSwapped(seat);
});

test('who takes over such a swap when some of it is in the log tells the rest', async (t) => {
  const { log, world, seat } = await smallSwap(t);
  const before = await log.endOffset(world.changes);
  // The record of the swap, and some of its changes.
  log.left = 4;
  world.deploy(seat, 2, 2);
  await until(() => log.left === 0);
  await seat.close();
  const told = (await log.endOffset(world.changes)) - before;
  assert.ok(told > 0 && told < 250, String(told));
  log.left = Infinity;
  const next = await world.open('next');
  await next.untilLive(2);
  await mustBeSwapped(next);
});
