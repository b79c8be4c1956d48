// The feed of a tenant of four partitions: one order, with positions that appends are told, whoever owns which.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { NotOwnerError } from '../../src/core/errors.js';
import type { AppendResult } from '../../src/core/event.js';
import { partitionOf } from '../../src/core/murmur2.js';
import { partitionKey, partitionOfKey } from '../../src/core/slots.js';
import { type EventFeed } from '../../src/feed/events.js';
import { isEvent, type PositionedEvent } from '../../src/feed/feed-item.js';
import type { Log } from '../../src/log/log.js';
import {
  append,
  appendAll,
  assign,
  chainCode,
  Node,
  orderRef,
  PARTITIONS,
  tell,
  TENANT,
  truthOf,
} from '../support/partition-world.js';
import { temporaryDirectory, until } from '../support/service.js';
import { LOGS } from '../support/two-logs.js';

async function all(feed: EventFeed): Promise<PositionedEvent[]> {
  const events: PositionedEvent[] = [];
  await feed.caughtUp();
  for (let end = await feed.start(); end < feed.head;) {
    const page = await feed.read(end, { items: 100 });
    if (page.end === end) break;
    events.push(...page.items.filter(isEvent));
    end = page.end;
  }
  return events;
}

/** By aggregate and version. */
const positionsOf = (events: readonly PositionedEvent[]): ReadonlyMap<string, number> =>
  new Map(events.map(({ aggregateId, version, position }) => [`${aggregateId}@${version}`, position]));
const endOf = ({ aggregateId, endVersion }: AppendResult): string => `${aggregateId}@${endVersion}`;

/** All results have the positions that the feed gives their last events. */
function told(results: readonly AppendResult[], events: readonly PositionedEvent[]): void {
  const positions = positionsOf(events);
  for (const result of results) assert.equal(result.position, positions.get(endOf(result)), endOf(result));
}

const isPlaced = ({ position }: AppendResult): boolean => position !== undefined;

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}: appends at any owner are told the positions that every reader of the feed sees, for ever`,
    { skip },
    async (t) => {
      const client = await open(t);
      const code = await chainCode(t);
      const paths = [temporaryDirectory(t), temporaryDirectory(t)] as const;
      let [a, b] = paths.map((path) => new Node(t, client(), code, path)) as [Node, Node];
      await assign([a, b], [a, a, b, b]);
      const tenant = await a.tenant();
      // The first ones begin to follow the order.
      await until(async () =>
        (await Promise.all(Array.from({ length: 37 }, (_, i) => append([a, b], i)))).every(isPlaced),
      );
      const results = await appendAll([a, b], 0, 300);
      const named = await Promise.all(Array.from({ length: 37 }, (_, i) => append([a, b], i, `named-${i}`)));
      const events = await all(tenant.events);
      assert.ok([...results, ...named].every(isPlaced));
      told([...results, ...named], events);
      const { commits } = await truthOf(client());
      assert.deepEqual(
        events.map(({ aggregateId, version }) => `${aggregateId}@${version}`),
        commits.flatMap(({ aggregateId, baseVersion, events: of }) =>
          of.map((_, i) => `${aggregateId}@${baseVersion + i + 1}`),
        ),
        'the order of the log',
      );
      assert.equal(await tenant.events.latest(), events.at(-1)?.position);

      // Who follows the tenant sees the same.
      await b.registry.standBy(TENANT);
      const standby = b.registry.standby(TENANT) ?? assert.fail('there is no standby');
      assert.deepEqual(positionsOf(await all(standby.events)), positionsOf(events));

      // Others own them: once from the stores that they have, once from nothing.
      for (const restart of [false, true]) {
        if (restart) {
          await Promise.all([a.close(), b.close()]);
          [a, b] = [new Node(t, client(), code), new Node(t, client(), code, paths[1])];
        }
        await assign([a, b], restart ? [a, b, a, b] : [b, b, a, a]);
        const owner = restart ? a : b;
        await until(async () =>
          (await Promise.all(Array.from({ length: 37 }, (_, i) => append([a, b], i)))).every(isPlaced),
        );
        const again = await Promise.all(Array.from({ length: 37 }, (_, i) => append([a, b], i, `named-${i}`)));
        assert.deepEqual(
          again.map(({ position }) => position),
          named.map(({ position }) => position),
          'a repeated command has the position that it had',
        );
        const later = await appendAll([a, b], 300, 400);
        const now = await all((await owner.tenant()).events);
        told([...named, ...later], now);
        assert.deepEqual(
          now.slice(0, events.length).map(({ position, eventId }) => [position, eventId]),
          events.map(({ position, eventId }) => [position, eventId]),
        );
      }
    },
  );
}

for (const { name, skip, open } of LOGS) {
  const two = async (t: TestContext): Promise<readonly [Node, Node]> => {
    const client = await open(t);
    const code = await chainCode(t);
    const nodes = [new Node(t, client(), code), new Node(t, client(), code)] as const;
    await assign(nodes, [nodes[0], nodes[0], nodes[0], nodes[0]]);
    await append(nodes, 0);
    return nodes;
  };
  /** The i-th command's aggregate lies in the partition. */
  const inPartition = (partition: number): number =>
    Array.from({ length: 37 }, (_, i) => i).find((i) => partitionOf(`account-${i}`, PARTITIONS) === partition) ??
    assert.fail('none is there');

  test(
    `on ${name}: a former owner of a partition that has not heard of its successor has what that answered in its feed`,
    { skip },
    async (t) => {
      const [a, b] = await two(t);
      const tenant = await a.tenant();
      b.ownership.tell((key) => (partitionOfKey(key) === 2 ? 'self' : { url: 'http://elsewhere' }));
      const result = await append([b], inPartition(2));
      assert.equal(a.ownership.owns(partitionKey(TENANT, 2)), true);
      // It hears of it while it reads.
      const reading = all(tenant.events);
      tell([a, b], [a, a, b, a]);
      assert.ok(positionsOf(await reading).has(endOf(result)));
    },
  );

  test(
    `on ${name}: a former owner of a tenant that has not heard of its successor answers no feed and no changes`,
    { skip },
    async (t) => {
      const [a, b] = await two(t);
      const { events, changes } = await a.tenant();
      b.ownership.tell((key) => (partitionOfKey(key) === 0 ? 'self' : { url: 'http://elsewhere' }));
      await append([b], inPartition(0));
      await assert.rejects(all(events), NotOwnerError);
      await assert.rejects(changes.caughtUp(), NotOwnerError);
    },
  );
}

test('while nobody writes the order appends are answered without a position: the first waits for it, the others do not', async (t) => {
  const [{ open }] = LOGS as [(typeof LOGS)[number]];
  const log = (await open(t))();
  let away = false;
  const waiting: (() => void)[] = [];
  const held = new Proxy(log, {
    get(target, property: keyof Log) {
      const value: unknown = Reflect.get(target, property);
      if (property !== 'append') return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
      return async (...args: Parameters<Log['append']>) => {
        if (args[0].topic === orderRef.topic) while (away) await new Promise<void>((resolve) => waiting.push(resolve));
        return target.append(...args);
      };
    },
  });
  const node = new Node(t, held, await chainCode(t));
  await assign([node], [node, node, node, node]);
  await until(async () => isPlaced(await append([node], 0)));
  away = true;
  const late = await append([node], 1);
  assert.equal(late.position, undefined);
  const began = performance.now();
  for (let i = 2; i < 12; i++) assert.equal((await append([node], i)).position, undefined);
  assert.ok(performance.now() - began < 900, 'ten appends wait for less than one would');
  away = false;
  for (const resolve of waiting.splice(0)) resolve();
  await until(async () => isPlaced(await append([node], 12)));
  const events = await all((await node.tenant()).events);
  assert.equal(positionsOf(events).has(endOf(late)), true, 'it has one now');
});
