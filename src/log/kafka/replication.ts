import type { Cluster } from '../../kafka/cluster.js';
import { alterConfigsCall, metadataCall, type Metadata } from '../../kafka/calls.js';
import { CODE, KafkaCodeError } from '../../kafka/kafka-error.js';
import { requests } from '../../kafka/protocol.js';
import { chunksOf } from '../../core/parts.js';
import { pause } from '../../core/pause.js';
import type { CompressingTopic, Replication, ReplicationState } from '../replication.js';
import { ownTopics, type OwnTopics } from './own-topics.js';
import { READABLE, type TopicConfigs } from './topic-configs.js';

export interface ReplicationOptions {
  /** First part of the names of the topics. */
  readonly prefix: string;
  /** 'auto': 3, or as many as there are brokers now. */
  readonly replicationFactor: number | 'auto';
  /** Without it 2 of 3 copies, else 1. */
  readonly minInsyncReplicas?: number | undefined;
  readonly requestTimeoutMs: number;
  /** How long copies on brokers that are not there are waited for, milliseconds. */
  readonly absentMs?: number;
}

export interface RaiseProgress {
  /** Partitions that have all copies they are to have, caught up, of those that lacked some. */
  readonly done: number;
  readonly total: number;
}

const API = { DescribeConfigs: 32, AlterPartitionReassignments: 45 };
const TOPIC = 2;
const DESCRIBED_PER_REQUEST = 500;
/** Partitions that are copied at a time: a broker copies them beside its work. */
const COPIED_AT_ONCE = 50;
const POLL_MS = 250;
/** A broker that is started anew is back before that. */
const ABSENT_MS = 60_000;
/** Records of these go by their age. */
const AGEING = /\.(?:slots|activity|audit|changes)$/;
const LOOKED_AT = ['cleanup.policy', 'compression.type', 'min.insync.replicas'];

/** Copies of a topic by the setting, with so many brokers. */
export const copiesWanted = (factor: number | 'auto', brokers: number): number =>
  factor === 'auto' ? Math.min(3, Math.max(1, brokers)) : factor;

/** Of so many copies, those that an append must have reached. */
export const inSyncOf = (copies: number): number => (copies >= 3 ? 2 : 1);

const byTopic = (a: { readonly topic: string }, b: { readonly topic: string }): number => (a.topic < b.topic ? -1 : 1);

interface Configs {
  readonly inSync: number;
  readonly cleanup: string;
  readonly compression: string;
}

type Partition = Metadata['topicMetadata'][number]['partitionMetadata'][number];

/**
 * In how many places the records of the service's topics are. A topic keeps the copies that it was made with, whatever brokers came
 * since: here they are looked at again, and raised.
 */
export class KafkaReplication implements Replication {
  readonly #cluster: Cluster;
  readonly #options: ReplicationOptions;
  readonly #own: OwnTopics;

  constructor(cluster: Cluster, options: ReplicationOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#own = ownTopics(options.prefix);
  }

  /** Looks at all topics. @throws UnsentError | UnansweredError when no broker can be asked; KafkaCodeError */
  async look(): Promise<ReplicationState> {
    const metadata = await this.#metadata('all');
    const topics = metadata.topicMetadata.filter(
      ({ topic, topicErrorCode }) => topicErrorCode === 0 && this.#own.all.test(topic),
    );
    const configs = await this.#configs(topics.map(({ topic }) => topic));
    const wanted = this.#wanted(metadata);
    const short = topics
      .filter(({ topic }) => configs.has(topic))
      .map(({ topic, partitionMetadata }) => ({
        topic,
        copies: Math.min(...partitionMetadata.map(({ replicas }) => replicas.length)),
        copiesWanted: wanted.copies,
        inSync: configs.get(topic)?.inSync ?? 1,
        inSyncWanted: wanted.inSync,
      }))
      .filter((topic) => topic.copies < wanted.copies || topic.inSync < wanted.inSync)
      .sort(byTopic);
    const dropping = [...configs]
      .filter(([topic, { cleanup }]) => !AGEING.test(topic) && cleanup !== 'compact')
      .map(([topic, { cleanup }]) => ({ topic, cleanup }))
      .sort(byTopic);
    const compressing = [...configs]
      .filter(([, { compression }]) => !READABLE.has(compression))
      .map(([topic, { compression }]) => ({ topic, compression }))
      .sort(byTopic);
    return { topics: topics.length, brokers: metadata.brokers.length, short, dropping, compressing };
  }

  /**
   * Gives the topics that lack copies the brokers that they lack, waits until these have caught up, and then raises how many an append
   * must have reached. May be broken off, and called again: it goes on with what is left. Topics that are deleted meanwhile are
   * passed over.
   * @throws Error when there are not as many brokers as copies are wanted, copies are to be on brokers that are not there (once all
   * else is done), or Kafka refuses it
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
    const failed = new Map<string, string>();
    for (const some of chunksOf(lacking, COPIED_AT_ONCE)) {
      await this.#copy(some.map(({ topic, partition }) => ({ topic, partition: partition.partitionId })));
      for await (const { raised, hopeless } of this.#raised(some, first.copiesWanted)) {
        for (const { topic, why } of hopeless) failed.set(topic, why);
        if (raised > 0) progress({ done: (done += raised), total: lacking.length });
      }
    }
    // Not before: with fewer copies than that no append would be taken.
    for (const { topic, inSync, inSyncWanted } of short)
      if (inSync < inSyncWanted && !failed.has(topic)) await this.#setInSync(topic, inSyncWanted);
    if (failed.size > 0)
      throw new Error(
        `${failed.size} topic${failed.size === 1 ? '' : 's'} could not be given all copies: ${[...failed].map(([topic, why]) => `${topic} (${why})`).join(', ')}; start the brokers that are not there, or move the partitions off them, and call it again`,
      );
    // A broker can be asked that has not heard of what was set a moment ago.
    for (const until = performance.now() + this.#options.requestTimeoutMs; ;) {
      const after = await this.look();
      const unheard = after.short.some(
        ({ topic, inSync, inSyncWanted }) => inSync < inSyncWanted && names.includes(topic),
      );
      if (!unheard || performance.now() > until) return after;
      await pause(POLL_MS);
    }
  }

  /** Waits for these partitions: how many are done with each time that some are, and which can't be. */
  async *#raised(
    partitions: readonly { readonly topic: string; readonly partition: Partition }[],
    copies: number,
  ): AsyncGenerator<{
    readonly raised: number;
    readonly hopeless: readonly { readonly topic: string; readonly why: string }[];
  }> {
    const { absentMs = ABSENT_MS } = this.#options;
    let waiting = partitions;
    /** Since when nobody makes the copies of a partition. */
    const since = new Map<(typeof partitions)[number], number>();
    while (waiting.length > 0) {
      const { brokers, topicMetadata } = await this.#metadata([...new Set(waiting.map(({ topic }) => topic))]);
      const there = new Set(brokers.map(({ nodeId }) => nodeId));
      const hopeless: { readonly topic: string; readonly why: string }[] = [];
      const left = waiting.filter((one) => {
        const found = topicMetadata.find(({ topic }) => topic === one.topic);
        const now = found?.partitionMetadata.find(({ partitionId }) => partitionId === one.partition.partitionId);
        // Deleted meanwhile.
        if (now === undefined)
          return (
            found !== undefined &&
            found.topicErrorCode !== 0 &&
            found.topicErrorCode !== CODE.UNKNOWN_TOPIC_OR_PARTITION
          );
        const { replicas, isr } = now;
        if (replicas.length >= copies && replicas.every((id) => isr.includes(id))) return false;
        const absent = replicas.filter((id) => !there.has(id));
        if (absent.length === 0 && replicas.length >= copies) {
          since.delete(one);
          return true;
        }
        const began = since.get(one) ?? performance.now();
        since.set(one, began);
        if (performance.now() - began < absentMs) return true;
        const why =
          absent.length > 0
            ? `broker ${absent.join(' and ')} is not there`
            : `it was made anew with ${replicas.length}`;
        hopeless.push({ topic: one.topic, why });
        return false;
      });
      const raised = waiting.length - left.length - hopeless.length;
      if (raised > 0 || hopeless.length > 0) yield { raised, hopeless };
      waiting = left;
      if (left.length > 0) await pause(POLL_MS);
    }
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

  /** Of those that are there. */
  async #configs(topics: readonly string[]): Promise<ReadonlyMap<string, Configs>> {
    const found = new Map<string, Configs>();
    for (const some of chunksOf(topics, DESCRIBED_PER_REQUEST)) {
      const resources = some.map((name) => ({ type: TOPIC, name, configNames: LOOKED_AT }));
      const described = await this.#cluster.ask('admin', (connection) =>
        connection.bind(API.DescribeConfigs, requests.DescribeConfigs, { resources, includeSynonyms: false }),
      );
      for (const { resourceName, errorCode, errorMessage, configEntries } of described.resources) {
        // Deleted meanwhile.
        if (errorCode === CODE.UNKNOWN_TOPIC_OR_PARTITION) continue;
        if (errorCode !== 0)
          throw new KafkaCodeError(errorCode, `the configs of topic ${resourceName} can not be read`, errorMessage);
        const values = new Map(configEntries.map(({ configName, configValue }) => [configName, configValue]));
        found.set(resourceName, {
          inSync: Number(values.get('min.insync.replicas') ?? 1),
          cleanup: values.get('cleanup.policy') ?? 'unknown',
          compression: values.get('compression.type') ?? 'producer',
        });
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

  async uncompress(topics: readonly CompressingTopic[]): Promise<void> {
    for (const { topic } of topics) await this.#set(topic, { 'compression.type': 'producer' });
  }

  #setInSync(topic: string, inSync: number): Promise<void> {
    return this.#set(topic, { 'min.insync.replicas': String(inSync) });
  }

  async #set(topic: string, configs: TopicConfigs): Promise<void> {
    const [answer] = await this.#cluster.askAdmin(
      () => Promise.resolve(alterConfigsCall(topic, configs)),
      this.#options.requestTimeoutMs * 1.5,
    );
    if (answer !== undefined && answer.code !== 0 && answer.code !== CODE.UNKNOWN_TOPIC_OR_PARTITION)
      throw new KafkaCodeError(
        answer.code,
        `${Object.keys(configs).join()} of topic ${topic} can not be set`,
        answer.message,
      );
  }
}
