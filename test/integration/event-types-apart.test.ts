// Types of events, and their schemas, where several processes have a tenant.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partitionOf } from '../../src/core/murmur2.js';
import type { EventTypesPage } from '../../src/aggregates/aggregates.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { append, appendAll, assign, chainCode, Node, PARTITIONS } from '../support/partition-world.js';
import { AS_ADMIN, until, type Answer, type Service } from '../support/service.js';
import { LOGS } from '../support/two-logs.js';

for (const { name, skip, open } of LOGS)
  test(`${name}: counts of types are those of the log, whoever owns which partition`, { skip }, async (t) => {
    const clients = await open(t);
    const code = await chainCode(t);
    const nodes = [0, 1].map(() => new Node(t, clients(), code));
    const [one, other] = nodes as [Node, Node];
    const counts = async (of: Node): Promise<EventTypesPage> =>
      (await of.tenant()).aggregates.eventTypes({ after: '', limit: 1_000 });
    const total = ({ eventTypes }: EventTypesPage): number => eventTypes.reduce((sum, { events }) => sum + events, 0);
    let events = 0;
    const appended = async (from: number, to: number): Promise<void> => {
      for (const { eventIds } of await appendAll(nodes, from, to)) events += eventIds.length;
    };

    await assign(nodes, [one, one, other, other]);
    await appended(0, 80);
    // Two partitions are the other's: what of them is counted here is a standby's.
    assert.equal(total(await counts(one)), events);
    await assign(nodes, [other, one, other, one]);
    await appended(80, 160);
    const before = await counts(other);
    assert.equal(total(before), events);
    // A repeat is counted once, and so is what is folded again from the log by a process that begins with nothing.
    await append(nodes, 200, 'twice');
    const repeated = await append(nodes, 200, 'twice');
    events += repeated.eventIds.length;
    const fresh = new Node(t, clients(), code);
    await assign([...nodes, fresh], [fresh, fresh, fresh, fresh]);
    const after = await counts(fresh);
    assert.equal(total(after), events);
    assert.deepEqual(
      after.eventTypes.map(({ eventType, firstSeen, aggregateTypes }) => [eventType, firstSeen, aggregateTypes]),
      before.eventTypes.map(({ eventType, firstSeen, aggregateTypes }) => [eventType, firstSeen, aggregateTypes]),
    );
  });

test('a schema holds in every process once it is answered', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2 });
  await world.start();
  const made = await world
    .at(0)
    .post('/admin/tenants', { tenantId: 'wide', name: 'W', partitions: PARTITIONS }, AS_ADMIN);
  assert.equal(made.status, 201, made.text);
  const { apiKey: key } = made.json<{ apiKey: string }>();
  // An aggregate of each partition.
  const aggregates = Array.from(
    { length: PARTITIONS },
    (_, partition) =>
      Array.from({ length: 100 }, (_, n) => `order-${n}`).find((id) => partitionOf(id, PARTITIONS) === partition) ?? '',
  );
  const ask = (through: Service, method: string, path: string, body?: unknown): Promise<Answer> =>
    through.request(method, path, { key, ...(body === undefined ? {} : { body }) });
  const statuses = async (through: Service): Promise<number[]> =>
    Promise.all(
      aggregates.map(
        async (aggregateId) =>
          (await ask(through, 'POST', '/events', { aggregateId, eventType: 'Paid', data: { amount: 'none' } })).status,
      ),
    );
  const all = (status: number): number[] => aggregates.map(() => status);
  const set = async (through: Service): Promise<void> => {
    const answer = await ask(through, 'PUT', '/event-types/Paid', {
      schema: { properties: { amount: { type: 'number' } } },
    });
    assert.equal(answer.status, 200, answer.text);
  };
  const end = async (through: Service): Promise<void> => {
    const answer = await ask(through, 'DELETE', '/event-types/Paid');
    assert.equal(answer.status, 204, answer.text);
  };
  await until(async () => (await statuses(world.at(1))).every((status) => status === 201));
  for (let round = 0; round < 10; round++) {
    const [asked, through] = [world.at(round % 2), world.at((round + 1) % 2)];
    await set(asked);
    // Without a pause: no process may have to hear of it first.
    assert.deepEqual(await statuses(through), all(422), `round ${round}`);
    await end(asked);
    assert.deepEqual(await statuses(through), all(201), `round ${round}`);
  }
  // Whoever takes over has it before the first append.
  await set(world.at(0));
  await world.endOne(0);
  const found: number[] = [];
  await until(async () => {
    const now = await statuses(world.at(1));
    found.push(...now);
    return now.every((status) => status === 422);
  }, 60_000);
  assert.ok(!found.includes(201), 'an append that does not fit was stored');
});
