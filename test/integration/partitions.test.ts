// A tenant of four partitions: one order over all of them, whoever owns which, and states that depend on nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { partitionKey } from '../../src/core/slots.js';
import { StatefoldError } from '../../src/core/errors.js';
import type { AppendResult } from '../../src/core/event.js';
import { partitionOf } from '../../src/core/murmur2.js';
import { AppendIndefiniteError, type Log } from '../../src/log/log.js';
import { writeSnapshot } from '../../src/snapshots/snapshot-writer.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { changesTopic, eventsTopic, snapshotsTopicSpec } from '../../src/log/topics.js';
import {
  append,
  appendAll,
  assign,
  chainCode,
  changesOf,
  codecs,
  Node,
  orderRef,
  PARTITIONS,
  readAll,
  statesOf,
  tell,
  TENANT,
  truthOf,
} from '../support/partition-world.js';
import { until } from '../support/service.js';
import { LOGS } from '../support/two-logs.js';

const OTHER_STATE = /another state/;

/** All that was acknowledged is folded. */
async function settled(log: Log, tenant: TenantTask): Promise<void> {
  await until(
    async () =>
      tenant.status === 'RUNNING' &&
      tenant.projectionLag === 0 &&
      (await truthOf(log)).unplaced === 0 &&
      tenant.projections.build('p') === undefined,
  );
}

/** A Log of which a part is held up, or never answers. */
function altered(log: Log, changes: Partial<Pick<Log, 'append' | 'read' | 'endOffset'>>): Log {
  return new Proxy(log, {
    get(target, property: keyof Log) {
      const changed = (changes as Partial<Log>)[property];
      if (changed !== undefined) return changed;
      const value: unknown = Reflect.get(target, property);
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
    },
  });
}

/** Every append that was answered is in the order, once, and those of one aggregate in theirs. */
async function holds(log: Log, results: readonly AppendResult[]): Promise<void> {
  const { commits } = await truthOf(log);
  const versions = new Map<string, number>();
  for (const { aggregateId, baseVersion, events } of commits) {
    assert.equal(baseVersion, versions.get(aggregateId) ?? 0, `1: ${aggregateId}`);
    versions.set(aggregateId, baseVersion + events.length);
  }
  const placed = new Set(commits.map(({ aggregateId, baseVersion }) => `${aggregateId}@${baseVersion + 1}`));
  for (const { aggregateId, startVersion } of results)
    assert.ok(placed.has(`${aggregateId}@${startVersion}`), `2: ${aggregateId}@${startVersion}`);
}

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}, 1, 9, 11: live states are those of a rebuild, of a cold start, and of the log by itself`,
    { skip },
    async (t) => {
      const client = await open(t);
      const log = client();
      const code = await chainCode(t);
      const node = new Node(t, log, code);
      await assign([node], [node, node, node, node]);
      const tenant = await node.tenant();
      const results = await appendAll([node], 0, 600);
      await settled(log, tenant);
      const { states } = await truthOf(log);
      assert.deepEqual(await statesOf(tenant), states);
      await holds(log, results);
      const live = await changesOf(tenant);

      code.revision = 2;
      for (const target of code.projections()) tenant.deploy(target);
      await appendAll([node], 600, 700);
      await settled(log, tenant);
      const { states: later } = await truthOf(log);
      assert.deepEqual(await statesOf(tenant), later);
      const all = await changesOf(tenant);
      assert.deepEqual(all.slice(0, live.length), live);
      assert.ok(
        all.every((change) => change.includes(' live ')),
        'a rebuild by the same code changes nothing',
      );

      await node.close();
      const cold = new Node(t, client(), code);
      await assign([cold], [cold, cold, cold, cold]);
      const again = await cold.tenant();
      await settled(log, again);
      assert.deepEqual(await statesOf(again), later);
      assert.deepEqual(await changesOf(again), all);
      assert.ok(!cold.warnings.some((warning) => OTHER_STATE.test(warning)), cold.warnings.join());
    },
  );

  test(`on ${name}, 2, 8, 11: partitions that change their owners under load keep one order`, { skip }, async (t) => {
    const client = await open(t);
    const log = client();
    const code = await chainCode(t);
    const [a, b] = [new Node(t, client(), code), new Node(t, client(), code)];
    const nodes = [a, b];
    await assign(nodes, [a, b, a, b]);
    const assignments = [
      [a, a, b, b],
      [b, a, b, a],
      [b, b, b, b],
      [a, b, b, a],
    ] as const;
    const results: AppendResult[] = [];
    for (const [round, owners] of assignments.entries()) {
      const load = Promise.all(
        Array.from({ length: 120 }, async (_, n) => {
          for (let attempt = 0; ; attempt++) {
            try {
              return await append(nodes, round * 120 + n, `c-${round * 120 + n}`);
            } catch (error) {
              assert.ok(error instanceof StatefoldError && error.retryable && attempt < 200, String(error));
              await new Promise((resolve) => setTimeout(resolve, 20));
            }
          }
        }),
      );
      await until(async () => {
        try {
          await assign(nodes, owners);
          return true;
        } catch (error) {
          assert.ok(error instanceof StatefoldError && error.retryable, String(error));
          return false;
        }
      });
      results.push(...(await load));
    }
    const primary = await a.tenant();
    await settled(log, primary);
    assert.equal(
      new Set(results.flatMap(({ eventIds }) => eventIds)).size,
      results.flatMap(({ eventIds }) => eventIds).length,
    );
    await holds(log, results);
    const { states, commits } = await truthOf(log);
    assert.equal(commits.length, 480);
    assert.deepEqual(await statesOf(primary), states);
    assert.ok(!nodes.some(({ warnings }) => warnings.some((warning) => OTHER_STATE.test(warning))));

    // All aggregates are listed, in pages, at the tenant's own task; a state is answered where the aggregate is.
    const listed: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = await primary.aggregates.list({ aggregateType: 'account', limit: 10, cursor });
      listed.push(...page.aggregates.map(({ aggregateId }) => aggregateId));
      if ((cursor = page.nextCursor) === undefined) break;
    }
    assert.deepEqual(listed, [...new Set(commits.map(({ aggregateId }) => aggregateId))].sort());
    assert.deepEqual(await primary.aggregates.types(), [{ aggregateType: 'account', aggregates: listed.length }]);
    await until(() => primary.aggregates.catchUp('account')?.status === 'done');
    const versions = new Map(
      commits.map(({ aggregateId, baseVersion, events }) => [aggregateId, baseVersion + events.length]),
    );
    const here = await primary.sink.aggregateStates(listed, 0);
    for (const aggregateId of listed) {
      const owner =
        nodes.find(({ ownership }) => ownership.owns(partitionKey(TENANT, partitionOf(aggregateId, PARTITIONS)))) ??
        assert.fail();
      const { version, state } = await (await owner.home(aggregateId)).state('account', aggregateId);
      const copy = here.find((row) => row.aggregateId === aggregateId);
      assert.deepEqual(
        [version, copy?.version, copy?.state?.toString()],
        [versions.get(aggregateId), version, state?.toString()],
      );
    }

    await Promise.all(nodes.map((node) => node.close()));
    const cold = new Node(t, client(), code);
    await assign([cold], [cold, cold, cold, cold]);
    await settled(log, await cold.tenant());
    assert.deepEqual(await statesOf(await cold.tenant()), states);
    const changed = await changesOf(await cold.tenant());
    assert.equal(
      changed.length,
      2 * commits.reduce((sum, { events }) => sum + events.length, 0),
      '11: each effect once, on both keys',
    );
  });
}

for (const { name, skip, open } of LOGS)
  test(
    `on ${name}: the tenant's own task knows how many events a second came, whoever owns the partitions`,
    { skip },
    async (t) => {
      const client = await open(t);
      const code = await chainCode(t);
      let now = 1_800_000_000_000;
      const clock = { now: () => now };
      const [a, b] = [0, 1].map(() => new Node(t, client(), code, undefined, clock)) as [Node, Node];
      await assign([a, b], [a, b, b, a]);
      const tenant = await a.tenant();
      // All partitions are here from now on.
      await tenant.aggregates.types();
      const results = await appendAll([a, b], 0, 74);
      const events = results.reduce((sum, { eventIds }) => sum + eventIds.length, 0);
      assert.equal(new Set(results.map(({ aggregateId }) => partitionOf(aggregateId, PARTITIONS))).size, PARTITIONS);
      now += 10_000;
      await tenant.aggregates.types();
      const rate = (type: string): number | undefined => tenant.aggregates.eventsPerSecond(type);
      assert.equal(rate('account')?.toFixed(6), (events / 10).toFixed(6));
      assert.equal(rate('other'), 0);
      now += 60_000;
      assert.equal(rate('account'), 0);
    },
  );

test('on the embedded log, 8, 9, 11: a standby of the tenant follows all partitions, and takes them over', async (t) => {
  const client = await (LOGS[0] ?? assert.fail()).open(t);
  const log = client();
  const code = await chainCode(t);
  const [a, b] = [new Node(t, log, code), new Node(t, log, code)];
  const nodes = [a, b];
  await assign(nodes, [a, a, a, a]);
  const results = await appendAll(nodes, 0, 60);
  await b.registry.standBy(TENANT);
  results.push(...(await appendAll(nodes, 60, 240)));
  const owner = await a.tenant();
  await settled(log, owner);
  const standby = b.registry.standby(TENANT) ?? assert.fail('there is no standby');
  // All but the last input that has a change: what is past it only a promotion can know.
  await until(() => standby.changes.lastSequence() === owner.changes.lastSequence() && standby.projectionLag <= 1);
  await assert.rejects(
    standby.aggregates.list({ aggregateType: undefined, limit: 10, cursor: undefined }),
    (error: unknown) => error instanceof StatefoldError && error.retryable,
  );
  tell(nodes, [b, b, b, b]);
  const successor = await b.tenant();
  assert.equal(successor, standby);
  results.push(...(await appendAll(nodes, 240, 300)));
  await settled(log, successor);
  await holds(log, results);
  assert.deepEqual(await statesOf(successor), (await truthOf(log)).states);
  assert.ok(!b.warnings.some((warning) => OTHER_STATE.test(warning)), b.warnings.join());
});

test('on the embedded log, 9: each partition has snapshots of its own, from which another machine begins', async (t) => {
  const client = await (LOGS[0] ?? assert.fail()).open(t);
  const log = client();
  const code = await chainCode(t);
  const node = new Node(t, log, code);
  await assign([node], [node, node, node, node]);
  const results = await appendAll([node], 0, 1500);
  const tenant = await node.tenant();
  await settled(log, tenant);
  // So all is in its store.
  await node.registry.close();
  await log.ensureTopics([snapshotsTopicSpec(TENANT, PARTITIONS)]);
  for (let partition = 0; partition < PARTITIONS; partition++)
    await writeSnapshot(log, node.archive, partitionKey(TENANT, partition), () => false);
  await node.close();
  const other = new Node(t, log, code);
  await assign([other], [other, other, other, other]);
  assert.equal(other.loaded.length, PARTITIONS);
  const successor = await other.tenant();
  results.push(...(await appendAll([other], 1500, 1600)));
  await settled(log, successor);
  await holds(log, results);
  const { eventTypes } = await successor.aggregates.eventTypes({ after: '', limit: 1_000 });
  assert.deepEqual(
    eventTypes.map(({ eventType, events }) => [eventType, events]),
    [['Paid', results.reduce((sum, { eventIds }) => sum + eventIds.length, 0)]],
  );
  assert.deepEqual(await statesOf(successor), (await truthOf(log)).states);
  assert.ok(!other.warnings.some((warning) => OTHER_STATE.test(warning)), other.warnings.join());
});

test("on the embedded log, 2, 11: a tenant's own task that ends between partitions and their order, and between the order and its changes", async (t) => {
  const client = await (LOGS[0] ?? assert.fail()).open(t);
  const log = client();
  const code = await chainCode(t);
  const mute = new Set<string>();
  let cut!: (error: Error) => void;
  const silent = new Promise<never>((_, reject) => (cut = reject));
  silent.catch(() => undefined);
  t.after(() => cut(new AppendIndefiniteError('the connection is gone')));
  const [a, b] = [
    new Node(
      t,
      altered(log, { append: (to, records) => (mute.has(to.topic) ? silent : log.append(to, records)) }),
      code,
    ),
    new Node(t, log, code),
  ];
  const nodes = [a, b];
  await assign(nodes, [a, b, a, a]);
  const results = await appendAll(nodes, 0, 120);
  await settled(log, await a.tenant());
  mute.add(changesTopic(TENANT));
  results.push(...(await appendAll(nodes, 120, 180)));
  await until(async () => (await truthOf(log)).unplaced === 0);
  const placed = await log.endOffset(orderRef);
  mute.add(orderRef.topic);
  results.push(...(await appendAll(nodes, 180, 240)));
  assert.ok((await truthOf(log)).unplaced > 0);
  assert.equal(await log.endOffset(orderRef), placed);
  // The other process takes all without asking it.
  tell(nodes, [b, b, b, b]);
  const successor = await b.tenant();
  results.push(...(await appendAll(nodes, 240, 300)));
  await settled(log, successor);
  await holds(log, results);
  const { states, commits } = await truthOf(log);
  assert.equal(commits.length, 300);
  assert.deepEqual(await statesOf(successor), states);
  assert.ok(!b.warnings.some((warning) => OTHER_STATE.test(warning)), b.warnings.join());
});

test('on the embedded log, 9: order records that come twice, late, or from a former primary change nothing that was said', async (t) => {
  const client = await (LOGS[0] ?? assert.fail()).open(t);
  const log = client();
  const code = await chainCode(t);
  const node = new Node(t, log, code);
  await assign([node], [node, node, node, node]);
  const tenant = await node.tenant();
  let attempts = 0;
  const place = (partition: number, through: number): Promise<unknown> => {
    const recordId = `former:${attempts++}`;
    const value = codecs.order.encode(
      { epoch: 0, owner: 'former', recordId, expectedOffset: 0, previous: '' },
      { kind: 'Through', value: { partition, through } },
    );
    return log.append(orderRef, [{ key: Buffer.from(recordId), value }]);
  };
  const results: AppendResult[] = [];
  for (let round = 0; round < 12; round++) {
    const load = appendAll([node], round * 40, round * 40 + 40);
    // As another process that thinks it serves the tenant: what it has read of the partitions, new to the order or long there.
    for (let partition = 0; partition < 4; partition++) {
      const end = await log.endOffset({ topic: eventsTopic(TENANT), partition });
      await place(partition, Math.max(0, end - (round % 3)));
      if (round % 2 === 0) await place(partition, Math.floor(end / 2));
    }
    if (round === 5) await log.append(orderRef, [{ key: Buffer.from('foreign'), value: Buffer.from('not ours') }]);
    results.push(...(await load));
  }
  await settled(log, tenant);
  await holds(log, results);
  const { states } = await truthOf(log);
  assert.deepEqual(await statesOf(tenant), states);
  const all = await changesOf(tenant);
  const moved = (await readAll(log, orderRef)).filter(
    ({ value }) => value !== null && codecs.order.decode(value)?.fence.owner === 'former',
  ).length;
  assert.ok(moved > 40);
  await node.close();
  const cold = new Node(t, log, code);
  await assign([cold], [cold, cold, cold, cold]);
  await settled(log, await cold.tenant());
  assert.deepEqual(await statesOf(await cold.tenant()), states);
  assert.deepEqual(await changesOf(await cold.tenant()), all);
  assert.ok(!cold.warnings.some((warning) => OTHER_STATE.test(warning)), cold.warnings.join());
});

test('on the embedded log, 9, 11: projections wait for a partition that is placed, and followed late', async (t) => {
  const client = await (LOGS[0] ?? assert.fail()).open(t);
  const log = client();
  const code = await chainCode(t);
  let release!: () => void;
  const held = new Promise<void>((resolve) => (release = resolve));
  let holding = false;
  const slow = altered(log, {
    read: async (of, from, maxBytes, waitMs) =>
      holding && of.topic.endsWith('.events') && of.partition === 1
        ? (await held, log.read(of, from, maxBytes, waitMs))
        : log.read(of, from, maxBytes, waitMs),
  });
  const [a, b] = [new Node(t, slow, code), new Node(t, log, code)];
  await assign([a, b], [a, b, a, a]);
  await appendAll([a, b], 0, 60);
  const tenant = await a.tenant();
  await settled(log, tenant);
  holding = true;
  const results = await appendAll([a, b], 60, 180);
  // Somebody places what the primary does not have yet, and it places its own after that.
  const end = await log.endOffset({ topic: eventsTopic(TENANT), partition: 1 });
  const value = codecs.order.encode(
    { epoch: 0, owner: 'other', recordId: 'other:1', expectedOffset: 0, previous: '' },
    { kind: 'Through', value: { partition: 1, through: end } },
  );
  await log.append(orderRef, [{ key: Buffer.from('other:1'), value }]);
  results.push(...(await appendAll([a, b], 180, 240)));
  await until(async () => (await truthOf(log)).commits.length > 200);
  assert.ok(tenant.projectionLag > 0, 'what comes after it waits too');
  release();
  await settled(log, tenant);
  await holds(log, results);
  assert.deepEqual(await statesOf(tenant), (await truthOf(log)).states);
});

test('a task of the tenant that was closed is not held by the partitions that live on', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const clientOf = (await LOGS[0]?.open(t)) ?? assert.fail();
  const node = new Node(t, clientOf(), await chainCode(t));
  await assign([node], [node, node, node, node]);
  const closed: WeakRef<TenantTask>[] = [];
  for (let i = 0; i < 3; i++) {
    await appendAll([node], 0, 60);
    closed.push(new WeakRef(await node.tenant()));
    await until(() => node.registry.slots.activeKeys.length === PARTITIONS);
    await node.registry.passivate(TENANT);
  }
  const held = (): number => {
    collect();
    return closed.filter((ref) => ref.deref() !== undefined).length;
  };
  await until(() => held() === 0, 10_000);
  assert.equal(node.registry.slots.activeKeys.length, PARTITIONS - 1);
});
