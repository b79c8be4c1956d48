import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Owner } from '../../src/placement/ownership.js';
import { slotOf } from '../../src/core/slots.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import { Cluster } from '../../src/kafka/cluster.js';
import { GroupMember } from '../../src/kafka/group-member.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { SlotGroup, type SlotGroupOptions } from '../../src/placement/kafka/slot-group.js';
import { freshPrefix, needsKafkaHome, type KafkaCluster } from '../support/kafka.js';
import { until } from '../support/service.js';
import { startKafkaBehindProxies, type TcpProxy } from '../support/tcp-proxy.js';

const SLOTS = 64;
const SESSION_MS = 3000;
const JOIN_GROUP = 11;
/** One tenant of each slot, by slot. */
const TENANTS: string[] = [];
for (let n = 0; TENANTS.filter((one) => one !== undefined).length < SLOTS; n++)
  TENANTS[slotOf(`tenant-${n}`, SLOTS)] ??= `tenant-${n}`;

describe('slots shared through a Kafka group', { skip: needsKafkaHome }, () => {
  let kafka: KafkaCluster & { readonly proxies: readonly TcpProxy[] };
  const closing: (() => unknown)[] = [];
  before(async () => {
    kafka = await startKafkaBehindProxies(
      { after: (close) => closing.unshift(close as () => unknown) },
      { properties: { 'group.min.session.timeout.ms': 1000 } },
    );
  });
  after(async () => {
    for (const close of closing) await close();
  });

  async function freshTopic(): Promise<string> {
    const prefix = freshPrefix();
    const log = new KafkaLog({ brokers: kafka.brokers, prefix });
    await log.ensureTopics([
      { topic: 'statefold.slots', partitions: SLOTS, cleanup: { policy: 'delete', retentionMs: 86_400_000 } },
    ]);
    await log.close();
    return prefix;
  }

  /** A member that has joined and is closed with the test. */
  async function member(
    t: TestContext,
    prefix: string,
    processId: string,
    more: Partial<SlotGroupOptions> = {},
  ): Promise<SlotGroup> {
    const group = await SlotGroup.open({
      brokers: kafka.brokers,
      clientId: processId,
      connectTimeoutMs: 2000,
      prefix,
      processId,
      url: `http://${processId}`,
      tasks: true,
      notifier: true,
      sessionTimeoutMs: SESSION_MS,
      logger: silentLogger,
      ...more,
    });
    t.after(() => group.close());
    await group.join();
    return group;
  }

  async function startProcess(t: TestContext, prefix: string, processId: string): Promise<ChildProcess> {
    const child = fork(fileURLToPath(new URL('slot-group-process.js', import.meta.url)), [
      kafka.brokers.join(','),
      prefix,
      processId,
      String(SESSION_MS),
    ]);
    t.after(() => child.kill('SIGKILL'));
    const [said] = (await once(child, 'message')) as unknown[];
    assert.equal(said, 'joined');
    return child;
  }

  it('all members know of one that joins and one that leaves, and agree on each slot', async (t) => {
    const prefix = await freshTopic();
    const groups: Record<string, SlotGroup> = { a: await member(t, prefix, 'a') };
    assert.equal(groups['a']?.slots, SLOTS);
    assert.deepEqual(shares(groups), { a: SLOTS });
    assert.equal(groups['a'].standsBy(TENANTS[0] ?? ''), false);

    groups['b'] = await member(t, prefix, 'b');
    groups['c'] = await member(t, prefix, 'c');
    await until(() => agreed(groups));
    assert.deepEqual(Object.values(shares(groups)).sort(), [21, 21, 22]);
    for (const tenant of TENANTS) {
      const standbys = Object.keys(groups).filter((name) => groups[name]?.standsBy(tenant));
      assert.equal(standbys.length, 1);
      assert.notEqual(groups[standbys[0] ?? '']?.ownerOf(tenant), 'self');
    }

    const { a, b, c } = groups as { a: SlotGroup; b: SlotGroup; c: SlotGroup };
    const standby = TENANTS.map((tenant) => (a.standsBy(tenant) ? 'a' : b.standsBy(tenant) ? 'b' : 'c'));
    const owned = TENANTS.map((tenant) => ownerName(a, 'a', tenant));
    let changes = 0;
    a.onChange(() => changes++);
    const left = performance.now();
    await c.leave();
    assert.ok(performance.now() - left < SESSION_MS, 'it knows who has its slots');
    // It sees it as the others do, and forwards.
    await until(() => agreed({ a, b, c }));
    t.diagnostic(`a member that leaves: known by all after ${Math.round(performance.now() - left)} ms`);
    assert.deepEqual(
      TENANTS.map((tenant) => ownerName(a, 'a', tenant)),
      owned.map((name, slot) => (name === 'c' ? standby[slot] : name)),
    );
    await c.close();
    assert.deepEqual(
      TENANTS.map((tenant) => ownerName(c, 'c', tenant)),
      TENANTS.map((tenant) => ownerName(a, 'a', tenant)),
    );
    // The end of a member that had nothing changes nothing.
    const joinedAt = performance.now();
    const joining = member(t, prefix, 'd');
    await a.changed(5000);
    const d = await joining;
    await until(() => agreed({ a, b, d }));
    t.diagnostic(`a member that joins: known by all after ${Math.round(performance.now() - joinedAt)} ms`);
    assert.equal(changes, 2);
  });

  it('a gateway knows the map, and gets no slots', async (t) => {
    const prefix = await freshTopic();
    const gateway = await member(t, prefix, 'gateway', { tasks: false, notifier: false });
    assert.deepEqual(
      TENANTS.map((tenant) => gateway.ownerOf(tenant)),
      TENANTS.map(() => undefined),
    );
    const a = await member(t, prefix, 'a');
    await until(() => agreed({ a, gateway }));
    assert.deepEqual(shares({ a, gateway }), { a: SLOTS, gateway: 0 });
    assert.deepEqual(gateway.ownerOf('any'), { url: 'http://a' });
    // Nobody takes what the last one gives up: it goes on.
    await a.leave();
    assert.deepEqual(shares({ a }), { a: SLOTS });
    await until(() => gateway.ownerOf('any') === undefined);
  });

  it('a process with a role of its own notifies of all slots, whoever owns them, and gives them up as it leaves', async (t) => {
    const prefix = await freshTopic();
    const groups = {
      a: await member(t, prefix, 'a', { notifier: false }),
      b: await member(t, prefix, 'b', { notifier: false }),
      n: await member(t, prefix, 'n', { tasks: false }),
      gateway: await member(t, prefix, 'gateway', { tasks: false, notifier: false }),
    };
    const { a, b, n, gateway } = groups;
    await until(() => agreed(groups) && total({ a, b }) === SLOTS);
    const url = (name: string): Owner => ({ url: `http://${name}` });
    // Each member takes a new map at its own time.
    await until(() =>
      TENANTS.every(
        (tenant) =>
          n.notifies(tenant) &&
          n.notifierOf(tenant) === 'self' &&
          [a, b, gateway].every(
            (other) => !other.notifies(tenant) && isDeepStrictEqual(other.notifierOf(tenant), url('n')),
          ),
      ),
    );
    let changes = 0;
    gateway.onChange(() => changes++);
    await n.leave();
    // Nobody has the role: streams are the owner's, and webhooks wait. Each member takes the new map at its own time.
    await until(
      () =>
        changes > 0 &&
        Object.values(groups).every((group) =>
          TENANTS.every(
            (tenant) => !group.notifies(tenant) && isDeepStrictEqual(group.notifierOf(tenant), group.ownerOf(tenant)),
          ),
        ),
    );
    assert.equal(changes, 1, 'one change is told once');
    const c = await member(t, prefix, 'c');
    await until(
      () => agreed({ a, b, c }) && total({ a, b, c }) === SLOTS && TENANTS.every((tenant) => c.notifies(tenant)),
    );
    assert.ok(
      TENANTS.some((tenant) => c.owns(tenant)) && TENANTS.some((tenant) => c.standsBy(tenant)),
      'as owner, as standby, or as neither',
    );
  });

  it('a process that is killed loses its slots to their standbys after the session timeout', async (t) => {
    const prefix = await freshTopic();
    const [a, b] = [await member(t, prefix, 'a'), await member(t, prefix, 'b')];
    const child = await startProcess(t, prefix, 'victim');
    await until(() => total({ a, b }) === SLOTS - 21);
    const standbyOfA = TENANTS.filter((tenant) => a.standsBy(tenant) && ownerName(a, 'a', tenant) === 'victim');
    assert.ok(standbyOfA.length >= 10, 'of the 21 slots of the victim');
    child.kill('SIGKILL');
    const killed = performance.now();
    await until(() => agreed({ a, b }));
    const took = performance.now() - killed;
    t.diagnostic(
      `a member that is killed: known by all after ${Math.round(took)} ms, with a session timeout of ${SESSION_MS} ms`,
    );
    assert.ok(took > SESSION_MS / 2, `not before the session timeout: ${took}`);
    assert.deepEqual(shares({ a, b }), { a: SLOTS / 2, b: SLOTS / 2 });
    for (const tenant of standbyOfA) assert.equal(a.ownerOf(tenant), 'self');
  });

  it('a process that was paused past the session timeout says at once that it owns nothing, and comes back', async (t) => {
    const prefix = await freshTopic();
    const a = await member(t, prefix, 'a');
    const child = await startProcess(t, prefix, 'zombie');
    await until(() => shares({ a })['a'] === SLOTS / 2);
    const tenant = TENANTS.find((one) => ownerName(a, 'a', one) === 'zombie') ?? '';
    const ask = async (): Promise<unknown> => {
      const answered = once(child, 'message') as Promise<{ owner: unknown }[]>;
      child.send(tenant);
      return (await answered)[0]?.owner;
    };
    assert.equal(await ask(), 'self');
    child.kill('SIGSTOP');
    await until(() => shares({ a })['a'] === SLOTS);
    // The question is there before it wakes: it is answered before anything else can have come from the group.
    const first = ask();
    child.kill('SIGCONT');
    assert.notEqual(await first, 'self');
    await until(() => shares({ a })['a'] === SLOTS / 2);
  });

  it('converges after a storm of joins and leaves', async (t) => {
    const prefix = await freshTopic();
    const steady: Record<string, SlotGroup> = {
      a: await member(t, prefix, 'a'),
      b: await member(t, prefix, 'b'),
      c: await member(t, prefix, 'c'),
    };
    await until(() => agreed(steady));
    const started = performance.now();
    for (let n = 0; n < 20; n++) {
      const guest = await member(t, prefix, `guest-${n}`);
      // Half of them say good-bye, half just go.
      if (n % 2 === 0) await guest.leave();
      await guest.close();
    }
    await until(() => agreed(steady));
    t.diagnostic(`20 joins and leaves in ${Math.round(performance.now() - started)} ms`);
    assert.deepEqual(Object.values(shares(steady)).sort(), [21, 21, 22]);
  });

  it('members come back by themselves when the broker was restarted, and meanwhile the last map holds for the others', async (t) => {
    const prefix = await freshTopic();
    const [warnings, logger] = logged();
    const groups = { a: await member(t, prefix, 'a', { logger }), b: await member(t, prefix, 'b') };
    await until(() => agreed(groups));
    const before = TENANTS.map((tenant) => ownerName(groups.a, 'a', tenant));
    const [node] = kafka.nodes;
    await node?.kill('SIGKILL');
    // Without the group's word it has no slots of its own any more; those of others stay theirs.
    await until(() =>
      TENANTS.every((tenant, slot) =>
        before[slot] === 'a' ? groups.a.ownerOf(tenant) === undefined : ownerName(groups.a, 'a', tenant) === 'b',
      ),
    );
    await until(() => warnings.length > 0);
    await node?.start();
    const serves = performance.now();
    await until(() => agreed(groups));
    t.diagnostic(
      `a broker that was restarted: all members are back ${Math.round(performance.now() - serves)} ms after it serves`,
    );
    assert.deepEqual(
      TENANTS.map((tenant) => ownerName(groups.a, 'a', tenant)),
      before,
      'no slot moved',
    );
    assert.deepEqual(Object.values(shares({ ...groups, c: await member(t, prefix, 'c') })).length, 3);
  });

  it('a member whose connection hangs connects anew in time, and nobody notices', async (t) => {
    const prefix = await freshTopic();
    // A third of the session passes until it connects anew; the rest is for a machine that is busy.
    const patient = { sessionTimeoutMs: 10_000 };
    const groups = { a: await member(t, prefix, 'a', patient), b: await member(t, prefix, 'b', patient) };
    await until(() => agreed(groups));
    let changes = 0;
    for (const group of Object.values(groups)) group.onChange(() => changes++);
    const [proxy] = kafka.proxies;
    // Nobody closes these: they only never answer again.
    const hanging = proxy?.connections ?? 0;
    proxy?.stallPresent();
    await until(() => (proxy?.connections ?? 0) >= hanging + 2);
    // A member that was lost would have changed the map by then.
    const c = await member(t, prefix, 'c', patient);
    await until(() => agreed({ ...groups, c }));
    assert.equal(changes, 2);
  });

  it('a member that can not join again is none of the group for longer than its session', async (t) => {
    const { brokers, proxies } = kafka;
    const connection = { clientId: 'alone', connectTimeoutMs: 2000 };
    const cluster = new Cluster({ ...connection, brokers, requestTimeoutMs: 2000 });
    t.after(() => cluster.close());
    let lost = 0;
    const alone = new GroupMember({
      ...{ cluster, connection, groupId: freshPrefix(), protocol: 'test', heartbeatMs: 300, logger: silentLogger },
      sessionTimeoutMs: SESSION_MS,
      metadata: () => Buffer.from('alone'),
      assign: (members) => members.map(({ memberId }) => ({ memberId, memberAssignment: Buffer.from('all') })),
      assigned: () => undefined,
      confirmed: () => undefined,
      lost: () => void lost++,
    });
    t.after(() => alone.leave());
    await alone.join();
    t.after(() => proxies[0]?.heal());
    proxies[0]?.judge(({ apiKey }) => (apiKey === JOIN_GROUP ? 'lose request' : 'pass'));
    alone.rejoin();
    const over = performance.now() + SESSION_MS;
    assert.ok(alone.current);
    await until(() => performance.now() >= over);
    assert.ok(!alone.current);
    await until(() => lost > 0);
    await proxies[0]?.heal();
    await until(() => alone.current);
  });

  it('says what is wrong: no such topic, no such broker, a session timeout that the broker does not allow', async (t) => {
    const options = {
      brokers: kafka.brokers,
      clientId: 'a',
      connectTimeoutMs: 2000,
      prefix: 'nothing',
      processId: 'a',
      url: 'http://a',
      tasks: true,
      notifier: true,
      sessionTimeoutMs: SESSION_MS,
      logger: silentLogger,
    };
    await assert.rejects(SlotGroup.open(options), /no topic nothing\.slots/);
    await assert.rejects(SlotGroup.open({ ...options, brokers: ['127.0.0.1:1'] }), /127\.0\.0\.1:1.*ECONNREFUSED/);
    await assert.rejects(member(t, await freshTopic(), 'a', { sessionTimeoutMs: 500 }), /session timeout/);
  });
});

/** Who owns the tenant, as the member of that name sees it. */
function ownerName(group: SlotGroup, name: string, tenantId: string): string | undefined {
  const owner: Owner = group.ownerOf(tenantId);
  return owner === 'self' ? name : owner?.url.slice('http://'.length);
}

/** All members say the same of each slot, which has an owner among them. */
function agreed(groups: Readonly<Record<string, SlotGroup>>): boolean {
  return TENANTS.every((tenant) => {
    const said = new Set(Object.entries(groups).map(([name, group]) => ownerName(group, name, tenant)));
    return said.size === 1 && [...said].every((name) => name !== undefined && name in groups);
  });
}

/** How many slots each has by its own word. */
function shares(groups: Readonly<Record<string, SlotGroup>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(groups).map(([name, group]) => [name, TENANTS.filter((tenant) => group.owns(tenant)).length]),
  );
}

const total = (groups: Readonly<Record<string, SlotGroup>>): number =>
  Object.values(shares(groups)).reduce((sum, count) => sum + count, 0);

function logged(): [string[], Logger] {
  const warnings: string[] = [];
  return [warnings, { ...silentLogger, warn: (_fields: object, message: string) => void warnings.push(message) }];
}
