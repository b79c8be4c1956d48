import { requests } from '../../kafka/protocol.js';
import { InvariantError } from '../../core/errors.js';
import { chunksOf } from '../../core/parts.js';
import { pause } from '../../core/pause.js';
import type { Logger } from '../../core/logger.js';
import type { TopicSpec } from '../log.js';
import type { BrokerConnection } from '../../kafka/broker-connection.js';
import { alterConfigsCall } from '../../kafka/calls.js';
import type { Cluster, TopicLayout } from '../../kafka/cluster.js';
import { CODE, isMove, KafkaCodeError, UnknownPartitionError } from '../../kafka/kafka-error.js';
import type { OffsetQuery } from './offset-query.js';
import { copiesWanted, inSyncOf } from './replication.js';
import { configsOf, differenceOf, VERIFIED, type TopicConfigs } from './topic-configs.js';
import type { Call } from '../../kafka/wire.js';

export interface TopicsOptions {
  /** 'auto': 3, or as many brokers as there are. */
  readonly replicationFactor: number | 'auto';
  /** Without it 2 of 3 replicas, else 1. */
  readonly minInsyncReplicas?: number;
  readonly maxMessageBytes: number;
  /** Configs of new topics, in place of ours: for tests. */
  readonly configOverrides?: TopicConfigs;
  readonly requestTimeoutMs: number;
  readonly logger: Logger;
}

const API = { CreateTopics: 19, DeleteTopics: 20, DescribeConfigs: 32 };
const TOPIC = 2;
/** A broker under load takes its time for a thousand new partitions. */
const READY_MS = 60_000;
/** Between looks for a topic that must be there if nobody deleted it, milliseconds. */
const SEEN_DELAYS_MS = [10, 50, 250, 1000];
const CREATED_PER_REQUEST = 100;
const DESCRIBED_PER_REQUEST = 500;

/** A topic that is there has fewer partitions than are to be read and written. */
export class TooFewPartitionsError extends Error {
  override readonly name = 'TooFewPartitionsError';

  constructor(
    topic: string,
    readonly found: number,
    wanted: number,
  ) {
    super(
      `topic ${topic} has ${found} partitions, not ${wanted}: their number is fixed with the first record, so another service made it, or somebody by hand; see what it holds before anything is done to it`,
    );
  }
}

/** Creates topics, verifies those that are there, drops them. All names are the cluster's. */
export class Topics {
  readonly #cluster: Cluster;
  readonly #offsets: OffsetQuery;
  readonly #options: TopicsOptions;
  /** Specs that were found right, by topic: looked at once. */
  readonly #verified = new Map<string, string>();
  /** Under way, by topic. */
  readonly #ensuring = new Map<string, Set<Promise<void>>>();
  readonly #dropping = new Set<string>();

  constructor(cluster: Cluster, offsets: OffsetQuery, options: TopicsOptions) {
    this.#cluster = cluster;
    this.#offsets = offsets;
    this.#options = options;
  }

  async ensure(specs: readonly TopicSpec[]): Promise<void> {
    const running = this.#ensure(specs);
    const all = specs.map(({ topic }) => {
      const of = this.#ensuring.get(topic) ?? new Set();
      this.#ensuring.set(topic, of.add(running));
      return [topic, of] as const;
    });
    try {
      await running;
    } finally {
      for (const [topic, of] of all) if (of.delete(running) && of.size === 0) this.#ensuring.delete(topic);
    }
  }

  async #ensure(specs: readonly TopicSpec[]): Promise<void> {
    // One that was found right and that no broker answers for now may have been deleted.
    const unknown = specs.filter(
      (spec) =>
        this.#verified.get(spec.topic) !== JSON.stringify(spec) ||
        this.#cluster.leader({ topic: spec.topic, partition: 0 }) === undefined,
    );
    const layouts = await Promise.all(unknown.map(({ topic }) => this.#cluster.layout(topic)));
    const missing = unknown.filter((_, i) => layouts[i] === undefined);
    const [first] = missing;
    const others = specs.filter((spec) => !missing.includes(spec));
    for (const { topic } of missing) if (this.#verified.has(topic)) await this.#mustBeThere(topic);
    if (first !== undefined) await this.#mustBeNew(first, others);
    const created: TopicSpec[] = [];
    for (const chunk of chunksOf(missing, CREATED_PER_REQUEST)) created.push(...(await this.#create(chunk)));
    await this.#ready(missing);
    // Those that another process made meanwhile are looked at as well.
    await this.#verify(unknown.filter((spec) => !created.includes(spec)));
    for (const spec of unknown) this.#verified.set(spec.topic, JSON.stringify(spec));
  }

  /** Also where all topics of a call are gone, with the disk of a broker: who has nothing of what was in them would begin it anew. */
  async #mustBeThere(topic: string): Promise<void> {
    if (await this.#isThereByNow(topic)) return;
    throw new InvariantError(
      `topic ${topic} was there since this process began, and is not any more: it was deleted, or the broker has lost its disk, and it is not made anew; the log lost data`,
    );
  }

  /** Nothing is written before all topics of a call are there: one that is missing beside records was there too. */
  async #mustBeNew({ topic }: TopicSpec, others: readonly TopicSpec[]): Promise<void> {
    for (const { topic: other, partitions } of others)
      for (let partition = 0; partition < partitions; partition++)
        if ((await this.#offsets.offset({ topic: other, partition }, 'end')) > 0 && !(await this.#isThereByNow(topic)))
          throw new InvariantError(
            `topic ${topic} is not there, and ${other}, which was made with it, was written to: it was deleted, and is not made anew; the log lost data`,
          );
  }

  /** Another process may have made it since it was looked for, and brokers learn of it one after the other. */
  async #isThereByNow(topic: string): Promise<boolean> {
    for (const delay of SEEN_DELAYS_MS) {
      if ((await this.#cluster.layout(topic)) !== undefined) return true;
      await pause(delay, { ref: true });
    }
    return (await this.#cluster.layout(topic)) !== undefined;
  }

  /** Those that this call made; the others were there. */
  async #create(specs: readonly TopicSpec[]): Promise<TopicSpec[]> {
    const replicationFactor = copiesWanted(this.#options.replicationFactor, this.#cluster.size);
    const topics = specs.map((spec) => ({
      topic: spec.topic,
      numPartitions: spec.partitions,
      replicationFactor,
      configEntries: Object.entries(this.#configs(spec, replicationFactor)).map(([name, value]) => ({ name, value })),
    }));
    const timeout = this.#options.requestTimeoutMs;
    const { topicErrors } = await this.#admin((connection) =>
      connection.bind(API.CreateTopics, requests.CreateTopics, { topics, timeout, validateOnly: false }),
    );
    const made = new Set<string>();
    for (const { topic, errorCode, errorMessage } of topicErrors) {
      if (errorCode === 0) made.add(topic);
      else if (errorCode !== CODE.TOPIC_ALREADY_EXISTS)
        throw new KafkaCodeError(
          errorCode,
          `topic ${topic} can not be created with replication factor ${replicationFactor}`,
          errorMessage,
        );
    }
    return specs.filter(({ topic }) => made.has(topic));
  }

  #configs({ cleanup }: TopicSpec, replicas: number): TopicConfigs {
    const { minInsyncReplicas, maxMessageBytes, configOverrides } = this.#options;
    return { ...configsOf(cleanup, minInsyncReplicas ?? inSyncOf(replicas), maxMessageBytes), ...configOverrides };
  }

  /** Until the leaders themselves answer for each partition: brokers learn of a topic one after the other. */
  async #ready(specs: readonly TopicSpec[]): Promise<void> {
    const partitions = specs.flatMap(({ topic, partitions: count }) =>
      Array.from({ length: count }, (_, partition) => ({ topic, partition })),
    );
    await Promise.all(
      partitions.map((of) =>
        this.#until(`the leader of ${of.topic}-${of.partition}`, async () => {
          if (this.#dropping.has(of.topic)) throw new Error(`topic ${of.topic} was deleted while it was being made`);
          try {
            await this.#offsets.offset(of, 'end');
            return true;
          } catch (error) {
            if (error instanceof UnknownPartitionError || (error instanceof KafkaCodeError && isMove(error.code)))
              return false;
            throw error;
          }
        }),
      ),
    );
  }

  async #until(what: string, reached: () => Promise<boolean>): Promise<void> {
    const until = performance.now() + READY_MS;
    for (let delay = 10; !(await reached()); delay = Math.min(500, delay * 2)) {
      if (performance.now() > until) throw new Error(`${what} was waited for, for ${READY_MS} ms`);
      await pause(delay, { ref: true });
    }
  }

  async #verify(specs: readonly TopicSpec[]): Promise<void> {
    for (const chunk of chunksOf(specs, DESCRIBED_PER_REQUEST)) {
      const resources = chunk.map(({ topic }) => ({ type: TOPIC, name: topic, configNames: VERIFIED }));
      const [layouts, described] = await Promise.all([
        Promise.all(chunk.map(({ topic }) => this.#cluster.layout(topic))),
        this.#cluster.ask('admin', (connection) =>
          connection.bind(API.DescribeConfigs, requests.DescribeConfigs, {
            resources,
            includeSynonyms: false,
          }),
        ),
      ]);
      const configs = new Map(described.resources.map((resource) => [resource.resourceName, resource]));
      for (const [i, spec] of chunk.entries()) {
        const resource = configs.get(spec.topic);
        const layout = layouts[i];
        if (resource === undefined || layout === undefined)
          throw new Error(`topic ${spec.topic} was there, and is gone`);
        if (resource.errorCode !== 0)
          throw new KafkaCodeError(
            resource.errorCode,
            `the configs of topic ${spec.topic} can not be read`,
            resource.errorMessage,
          );
        this.#verifyLayout(spec, layout);
        await this.#verifyConfigs(
          spec,
          layout,
          Object.fromEntries(
            resource.configEntries.map(({ configName, configValue }) => [configName, configValue ?? '']),
          ),
        );
      }
    }
  }

  /** How many copies there are, `replication.ts` tells: with fewer than wanted the topic works. Kafka takes no partition back that somebody has added. */
  #verifyLayout({ topic, partitions }: TopicSpec, { leaders }: TopicLayout): void {
    const found = leaders.length;
    if (found < partitions) throw new TooFewPartitionsError(topic, found, partitions);
    if (found > partitions)
      this.#options.logger.warn(
        { topic, partitions, found },
        `topic ${topic} has ${found} partitions, and ${partitions} of them ${partitions === 1 ? 'is' : 'are'} used: those that were added stay empty`,
      );
  }

  async #verifyConfigs(spec: TopicSpec, layout: TopicLayout, found: TopicConfigs): Promise<void> {
    const difference = differenceOf(spec.cleanup, this.#configs(spec, layout.replicas), found);
    if (difference === undefined) return;
    const { text, configs, ours } = difference;
    if (ours) {
      this.#options.logger.info({ topic: spec.topic, configs }, `topic ${spec.topic} has ${text}: set`);
      const [answer] = await this.#admin(() => Promise.resolve(alterConfigsCall(spec.topic, configs)));
      if (answer !== undefined && answer.code !== 0)
        throw new KafkaCodeError(answer.code, `topic ${spec.topic} has ${text}, and it can not be set`, answer.message);
      // There may be more.
      return this.#verifyConfigs(spec, layout, { ...found, ...configs });
    }
    const add = Object.entries(configs).map(([name, value]) => `${name}=${value}`);
    throw new Error(
      `topic ${spec.topic} has ${text}: kafka-configs.sh --alter --entity-type topics --entity-name ${spec.topic} --add-config ${add.join(',')}`,
    );
  }

  async delete(topic: string): Promise<void> {
    this.#dropping.add(topic);
    try {
      // Who is making it would else make it again behind this, or take it for made.
      await Promise.allSettled([...(this.#ensuring.get(topic) ?? [])]);
      await this.#delete(topic);
    } finally {
      this.#dropping.delete(topic);
    }
  }

  async #delete(topic: string): Promise<void> {
    this.#verified.delete(topic);
    if ((await this.#cluster.layout(topic)) === undefined) return;
    const timeout = this.#options.requestTimeoutMs;
    const { topicErrors } = await this.#admin((connection) =>
      connection.bind(API.DeleteTopics, requests.DeleteTopics, { topics: [topic], timeout }),
    );
    const code = topicErrors[0]?.errorCode ?? 0;
    if (code !== 0 && code !== CODE.UNKNOWN_TOPIC_OR_PARTITION)
      throw new KafkaCodeError(code, `topic ${topic} can not be deleted`);
    await this.#until(`the end of topic ${topic}`, async () => (await this.#cluster.layout(topic)) === undefined);
  }

  #admin<T>(call: (connection: BrokerConnection) => Promise<Call<T>>): Promise<T> {
    return this.#cluster.askAdmin(call, this.#options.requestTimeoutMs * 1.5);
  }
}
