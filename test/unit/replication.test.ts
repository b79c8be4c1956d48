import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Cluster } from '../../src/kafka/cluster.js';
import { KafkaReplication } from '../../src/log/kafka/replication.js';

// What waits between two looks keeps no process up.
const alive = setInterval(() => undefined, 1000);
after(() => clearInterval(alive));

interface Topic {
  replicas: number[];
  isr: number[];
}

const [DESCRIBE, REASSIGN] = [32, 45];
interface Bound {
  readonly api: number;
  readonly asked: {
    readonly resources: readonly { readonly name: string }[];
    readonly topics: readonly {
      readonly topic: string;
      readonly partitionAssignment: readonly { readonly replicas: readonly number[] }[];
    }[];
  };
}

/** A cluster of topics with one partition each; `looked` is called before each look at some of them. */
function clusterOf(topics: Map<string, Topic>, brokers: number[], looked: () => void): Cluster {
  const answer = (call: Bound | { readonly name: string }): unknown => {
    if (!('api' in call)) {
      if (call.name !== 'Metadata') return [{ code: 0, message: null }];
      looked();
      return {
        brokers: brokers.map((nodeId) => ({ nodeId, rack: null })),
        topicMetadata: [...topics].map(([topic, { replicas, isr }]) => ({
          topic,
          topicErrorCode: 0,
          partitionMetadata: [{ partitionId: 0, replicas: [...replicas], isr: [...isr] }],
        })),
      };
    }
    if (call.api === DESCRIBE)
      return {
        resources: call.asked.resources.map(({ name }) => ({
          resourceName: name,
          errorCode: topics.has(name) ? 0 : 3,
          configEntries: [
            { configName: 'min.insync.replicas', configValue: '2' },
            { configName: 'cleanup.policy', configValue: name.endsWith('.changes') ? 'delete' : 'compact' },
          ],
        })),
      };
    assert.equal(call.api, REASSIGN);
    for (const { topic, partitionAssignment } of call.asked.topics)
      (topics.get(topic) as Topic).replicas = [...(partitionAssignment[0]?.replicas ?? [])];
    return undefined;
  };
  const ask = async (make: (connection: unknown) => unknown): Promise<unknown> =>
    answer((await make({ bind: (api: number, _: unknown, asked: unknown) => ({ api, asked }) })) as Bound);
  return {
    ask: (_: unknown, make: (connection: unknown) => unknown) => ask(make),
    askAdmin: ask,
  } as unknown as Cluster;
}

const OPTIONS = { prefix: 'p', replicationFactor: 3, requestTimeoutMs: 1000, absentMs: 1 } as const;

test('copies of a topic that is deleted while they are made are waited for no longer', async () => {
  const topics = new Map<string, Topic>([
    ['p.a.events', { replicas: [1], isr: [1] }],
    ['p.b.events', { replicas: [1], isr: [1] }],
  ]);
  const cluster = clusterOf(topics, [1, 2, 3], () => {
    const kept = topics.get('p.a.events') as Topic;
    if (kept.replicas.length < 3) return;
    topics.delete('p.b.events');
    kept.isr = kept.replicas;
  });
  const seen: number[] = [];
  const state = await new KafkaReplication(cluster, OPTIONS).raise(({ done }) => void seen.push(done));
  assert.deepEqual([state, seen], [{ topics: 1, brokers: 3, short: [], dropping: [], compressing: [] }, [0, 2]]);
});

test('copies on a broker that is not there are named, once all others are made', async () => {
  const topics = new Map<string, Topic>([
    ['p.a.events', { replicas: [1], isr: [1] }],
    ['p.b.events', { replicas: [1, 9], isr: [1] }],
  ]);
  const cluster = clusterOf(topics, [1, 2, 3], () => {
    for (const topic of topics.values())
      if (topic.replicas.length === 3) topic.isr = topic.replicas.filter((id) => id !== 9);
  });
  const seen: number[] = [];
  await assert.rejects(
    new KafkaReplication(cluster, OPTIONS).raise(({ done }) => void seen.push(done)),
    /^Error: 1 topic could not be given all copies: p\.b\.events \(broker 9 is not there\); start the brokers/,
  );
  assert.deepEqual(seen, [0, 1]);
});

test('topics of every kind are looked at, and none of others', async () => {
  const own = ['audit', 'attempts', 'a.events', 'a_1f.changes', 'a.order', 'a.snapshots', 'a.redactions'];
  const names = [...own.map((name) => `p.${name}`), 'p-connect-status', 'p.a.other', 'q.audit'];
  const topics = new Map<string, Topic>(names.map((name) => [name, { replicas: [1], isr: [1] }]));
  const { short } = await new KafkaReplication(
    clusterOf(topics, [1, 2, 3], () => undefined),
    OPTIONS,
  ).look();
  assert.deepEqual(short.map(({ topic }) => topic.slice(2)).sort(), own.sort());
});
