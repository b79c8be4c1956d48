import type { Cluster } from '../../kafka/cluster.js';
import { alterConfigsCall, metadataCall, type Metadata } from '../../kafka/calls.js';
import { KafkaCodeError } from '../../kafka/kafka-error.js';
import { requests } from '../../kafka/protocol.js';
import { pause } from '../../core/pause.js';
import type { Replication, ReplicationState } from '../replication.js';

export interface ReplicationOptions {
  /** First part of the names of the topics. */
  readonly prefix: string;
  /** 'auto': 3, or as many as there are brokers now. */
  readonly replicationFactor: number | 'auto';
  /** Without it 2 of 3 copies, else 1. */
  readonly minInsyncReplicas?: number | undefined;
  readonly requestTimeoutMs: number;
}

export interface RaiseProgress {
  /** Partitions that have all copies they are to have, caught up, of those that lacked some. */
  readonly done: number;
  readonly total: number;
}

const API = { DescribeConfigs: 32, AlterPartitionReassignments: 45 };
const TOPIC = 2;
const DESCRIBED_A_REQUEST = 500;
/** Partitions that are copied at a time: a broker copies them beside its work. */
const COPIED_AT_ONCE = 50;
const POLL_MS = 250;
const FIXED = '(?:slots|catalog|artefacts|cursors|activity)';
const OF_A_TENANT = '[a-z0-9][a-z0-9-]*(?:_[0-9a-f]+)?\\.(?:events|changes|order|snapshots)';

/** Copies of a topic by the setting, with so many brokers. */
export const copiesWanted = (factor: number | 'auto', brokers: number): number =>
  factor === 'auto' ? Math.min(3, Math.max(1, brokers)) : factor;

/** Of so many copies, those that an append must have reached. */
export const inSyncOf = (copies: number): number => (copies >= 3 ? 2 : 1);

type Partition = Metadata['topicMetadata'][number]['partitionMetadata'][number];

/**
 * In how many places the records of the service's topics are. A topic keeps the copies that it was made with, whatever brokers came
 * since: here they are looked at again, and raised.
 */
export class KafkaReplication implements Replication {
  readonly #cluster: Cluster;
  readonly #options: ReplicationOptions;
  readonly #ours: RegExp;

  constructor(cluster: Cluster, options: ReplicationOptions) {
    this.#cluster = cluster;
    this.#options = options;
    const prefix = options.prefix.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    this.#ours = new RegExp(`^${prefix}\\.(?:${FIXED}|${OF_A_TENANT})$`);
  }

  /** Looks at all topics. @throws UnsentError | UnansweredError when no broker can be asked; KafkaCodeError */
  async look(): Promise<ReplicationState> {
    const metadata = await this.#metadata('all');
    const topics = metadata.topicMetadata.filter(
      ({ topic, topicErrorCode }) => topicErrorCode === 0 && this.#ours.test(topic),
    );
    const inSync = await this.#inSync(topics.map(({ topic }) => topic));
    const wanted = this.#wanted(metadata);
    const short = topics
      .map(({ topic, partitionMetadata }) => ({
        topic,
        copies: Math.min(...partitionMetadata.map(({ replicas }) => replicas.length)),
        copiesWanted: wanted.copies,
        inSync: inSync.get(topic) ?? 1,
        inSyncWanted: wanted.inSync,
      }))
      .filter((topic) => topic.copies < wanted.copies || topic.inSync < wanted.inSync)
      .sort((a, b) => (a.topic < b.topic ? -1 : 1));
    return { topics: topics.length, brokers: metadata.brokers.length, short };
  }

  /**
   * Gives the topics that lack copies the brokers that they lack, waits until these have caught up, and then raises how many an append
   * must have reached. May be broken off, and called again: it goes on with what is left.
   * @throws Error when there are not as many brokers as copies are wanted, or Kafka refuses it
   */
  async raise(progress: (progress: RaiseProgress) => void = () => undefined): Promise<ReplicationState> {
    const { short, brokers } = await this.look();
    const [first] = short;
    if (first === undefined) return this.look();
    if (brokers < first.copiesWanted)
      throw new Error(
        `KAFKA_REPLICATION_FACTOR wants ${first.copiesWanted} copies of each topic, and Kafka has ${brokers} broker${brokers === 1 ? '' : 's'}: start the others first, or set it lower`,
      );
    const names = short.map(({ topic }) => topic);
    const lacking = (await this.#partitions(names)).filter(
      ({ partition }) => partition.isr.length < first.copiesWanted,
    );
    let done = 0;
    progress({ done, total: lacking.length });
    for (let i = 0; i < lacking.length; i += COPIED_AT_ONCE) {
      const some = lacking.slice(i, i + COPIED_AT_ONCE);
      await this.#copy(some.map(({ topic, partition }) => ({ topic, partition: partition.partitionId })));
      for (let caughtUp = 0; caughtUp < some.length;) {
        const now = await this.#partitions([...new Set(some.map(({ topic }) => topic))]);
        caughtUp = some.filter(({ topic, partition: { partitionId } }) =>
          now.some(
            (one) =>
              one.topic === topic &&
              one.partition.partitionId === partitionId &&
              one.partition.replicas.length >= first.copiesWanted &&
              one.partition.replicas.every((id) => one.partition.isr.includes(id)),
          ),
        ).length;
        if (done !== i + caughtUp) progress({ done: (done = i + caughtUp), total: lacking.length });
        if (caughtUp < some.length) await pause(POLL_MS);
      }
    }
    // Not before: with fewer copies than that no append would be taken.
    for (const { topic, inSync, inSyncWanted } of short)
      if (inSync < inSyncWanted) await this.#setInSync(topic, inSyncWanted);
    return this.look();
  }

  #wanted({ brokers }: Metadata): { readonly copies: number; readonly inSync: number } {
    const copies = copiesWanted(this.#options.replicationFactor, brokers.length);
    return { copies, inSync: this.#options.minInsyncReplicas ?? inSyncOf(copies) };
  }

  #metadata(topics: readonly string[] | 'all'): Promise<Metadata> {
    return this.#cluster.ask('admin', () => metadataCall(topics));
  }

  async #partitions(topics: readonly string[]): Promise<{ readonly topic: string; readonly partition: Partition }[]> {
    const { topicMetadata } = await this.#metadata(topics);
    return topicMetadata.flatMap(({ topic, partitionMetadata }) =>
      partitionMetadata.map((partition) => ({ topic, partition })),
    );
  }

  async #inSync(topics: readonly string[]): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (let i = 0; i < topics.length; i += DESCRIBED_A_REQUEST) {
      const resources = topics
        .slice(i, i + DESCRIBED_A_REQUEST)
        .map((name) => ({ type: TOPIC, name, configNames: ['min.insync.replicas'] }));
      const described = await this.#cluster.ask('admin', (connection) =>
        connection.bind(API.DescribeConfigs, requests.DescribeConfigs, { resources, includeSynonyms: false }),
      );
      for (const { resourceName, errorCode, errorMessage, configEntries } of described.resources) {
        if (errorCode !== 0)
          throw new KafkaCodeError(errorCode, `the configs of topic ${resourceName} can not be read`, errorMessage);
        found.set(resourceName, Number(configEntries[0]?.configValue ?? 1));
      }
    }
    return found;
  }

  /** Adds to each partition the brokers that have the fewest copies, of racks that it is not in where there are such. */
  async #copy(partitions: readonly { readonly topic: string; readonly partition: number }[]): Promise<void> {
    const all = await this.#metadata('all');
    const wanted = this.#wanted(all).copies;
    const load = new Map(all.brokers.map(({ nodeId }) => [nodeId, 0]));
    const rackOf = new Map(all.brokers.map(({ nodeId, rack }) => [nodeId, rack]));
    for (const { partitionMetadata } of all.topicMetadata)
      for (const { replicas } of partitionMetadata)
        for (const id of replicas) if (load.has(id)) load.set(id, (load.get(id) ?? 0) + 1);
    const topics = new Map<string, { readonly partition: number; readonly replicas: readonly number[] }[]>();
    for (const { topic, partition } of partitions) {
      const present = all.topicMetadata
        .find((one) => one.topic === topic)
        ?.partitionMetadata.find(({ partitionId }) => partitionId === partition)?.replicas;
      // Deleted meanwhile, or being copied since an earlier call.
      if (present === undefined || present.length >= wanted) continue;
      const replicas = [...present];
      while (replicas.length < wanted) {
        const racks = new Set(replicas.map((id) => rackOf.get(id)));
        const [next] = [...load]
          .filter(([id]) => !replicas.includes(id))
          .sort(([a, loadOfA], [b, loadOfB]) => {
            const apart = Number(racks.has(rackOf.get(a) ?? null)) - Number(racks.has(rackOf.get(b) ?? null));
            return apart !== 0 ? apart : loadOfA !== loadOfB ? loadOfA - loadOfB : a - b;
          });
        if (next === undefined) break;
        replicas.push(next[0]);
        load.set(next[0], next[1] + 1);
      }
      const of = topics.get(topic) ?? [];
      topics.set(topic, of);
      of.push({ partition, replicas });
    }
    if (topics.size === 0) return;
    await this.#cluster.askAdmin(
      (connection) =>
        connection.bind(API.AlterPartitionReassignments, requests.AlterPartitionReassignments, {
          topics: [...topics].map(([topic, partitionAssignment]) => ({ topic, partitionAssignment })),
          timeout: this.#options.requestTimeoutMs,
        }),
      this.#options.requestTimeoutMs * 1.5,
    );
  }

  async #setInSync(topic: string, inSync: number): Promise<void> {
    const [answer] = await this.#cluster.askAdmin(
      () => Promise.resolve(alterConfigsCall(topic, { 'min.insync.replicas': String(inSync) })),
      this.#options.requestTimeoutMs * 1.5,
    );
    if (answer !== undefined && answer.code !== 0)
      throw new KafkaCodeError(answer.code, `min.insync.replicas of topic ${topic} can not be set`, answer.message);
  }
}
