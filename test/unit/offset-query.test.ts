// Questions for the ends of partitions gather in queries, which don't follow each other at once while clients of several tenants are about.
import assert from 'node:assert/strict';
import test from 'node:test';
import { background } from '../../src/core/background.js';
import type { Broker } from '../../src/kafka/broker.js';
import type { Cluster } from '../../src/kafka/cluster.js';
import { OffsetQuery } from '../../src/log/kafka/offset-query.js';
import { someTurns } from '../support/loop-turns.js';

const of = (partition: number) => ({ topic: 'a', partition });

/** A broker that answers with how many queries there were: at once, or when it is told to. */
function counted({ isHeld = false } = {}): {
  readonly query: OffsetQuery;
  readonly asked: () => number;
  readonly answer: () => void;
} {
  let asked = 0;
  const held: (() => void)[] = [];
  const broker = {
    address: 'one:9092',
    send: (): Promise<unknown> => {
      const offset = ++asked;
      const answers = [0, 1, 2].map((partition) => ({ topic: 'a', partition, code: 0, offset }));
      return new Promise((resolve) => (isHeld ? held.push(() => resolve(answers)) : resolve(answers)));
    },
  } as unknown as Broker;
  const cluster = {
    routed: <T>(_: unknown, work: (leader: Broker) => Promise<T>): Promise<T> => work(broker),
  } as unknown as Cluster;
  return { query: new OffsetQuery(cluster, 1_000), asked: () => asked, answer: () => held.forEach((go) => go()) };
}

test('beside other tenants a query rests behind the last one, and answers all that was asked meanwhile', async (t) => {
  t.mock.getter(background, 'isShared', () => true);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  const { query, asked } = counted();
  assert.equal(await query.offset(of(0), 'end'), 1, 'the first waits for nothing');
  const [second, third] = [query.offset(of(0), 'end'), query.offset(of(1), 'end')];
  await someTurns();
  const fourth = query.offset(of(2), 'end');
  await someTurns();
  assert.equal(asked(), 1);
  now += 2;
  t.mock.timers.tick(2);
  assert.deepEqual(await Promise.all([second, third, fourth]), [2, 2, 2]);
  now += 2;
  assert.equal(await query.offset(of(0), 'end'), 3, 'behind a pause it waits for nothing');
});

test('what is asked while a query is under way is answered by one that begins later', async () => {
  const { query, asked, answer } = counted({ isHeld: true });
  const first = query.offset(of(0), 'end');
  await someTurns();
  assert.equal(asked(), 1, 'it is under way');
  const second = query.offset(of(0), 'end');
  await someTurns();
  assert.equal(asked(), 2);
  answer();
  assert.deepEqual(await Promise.all([first, second]), [1, 2]);
});

test('a tenant alone waits for no pause', async (t) => {
  t.mock.getter(background, 'isShared', () => false);
  const waits = t.mock.method(globalThis, 'setTimeout');
  const { query } = counted();
  for (let i = 1; i <= 20; i++) assert.equal(await query.offset(of(0), 'end'), i);
  assert.equal(waits.mock.callCount(), 0);
});
