import type { ConnectionOptions } from 'node:tls';
import { pause } from '../../core/pause.js';
import type { SASLOptions } from '../../kafka/protocol.js';
import { silentLogger, type Logger } from '../../core/logger.js';
import {
  MAX_APPEND_BYTES,
  type Log,
  type LogPage,
  type NewRecord,
  type PartitionRef,
  type PickedPage,
  type TopicSpec,
} from '../log.js';
import { Appender, type Appended } from './appender.js';
import type { Broker } from '../../kafka/broker.js';
import { metadataCall } from '../../kafka/calls.js';
import { Cluster } from '../../kafka/cluster.js';
import { UnsentError } from '../../kafka/kafka-error.js';
import type { Throttling } from '../../kafka/throttling.js';
import { Fetcher } from './fetcher.js';
import { LongFetch } from './long-fetch.js';
import { OffsetQuery } from './offset-query.js';
import { ownTopics } from './own-topics.js';
import { Positions } from './positions.js';
import { KafkaReplication } from './replication.js';
import type { TopicConfigs } from './topic-configs.js';
import { Topics } from './topics.js';

export interface KafkaLogOptions {
  /** `host:port` of some brokers of the cluster. */
  readonly brokers: readonly string[];
  readonly clientId?: string;
  /** In place of the leading `statefold` of topics and groups, so that several share a cluster. */
  readonly prefix?: string;
  readonly ssl?: ConnectionOptions | true;
  readonly sasl?: SASLOptions;
  /** Of new topics; `replication` tells which have fewer. 'auto': 3, or as many brokers as there are. */
  readonly replicationFactor?: number | 'auto';
  /** Without it 2 of 3 replicas, else 1. */
  readonly minInsyncReplicas?: number;
  /** For each request, also one that is waiting behind others. */
  readonly requestTimeoutMs?: number;
  readonly connectTimeoutMs?: number;
  /** Who leads is asked for anew so often where nothing comes, in place of half a minute: for tests. */
  readonly freshMs?: number;
  /** Told how long quotas of the brokers hold requests back. */
  readonly throttling?: Throttling;
  /** The largest append, in place of that of all logs: for tests. */
  readonly maxAppendBytes?: number;
  readonly logger?: Logger;
  /** Configs of new topics, in place of ours: for tests. */
  readonly topicConfigOverrides?: TopicConfigs;
}

/** Waits before what can not wait at the broker now is asked for again. */
const AGAIN_MS = 50;

/** The log on Apache Kafka. Only the framing of its topics is ours to know here: what a record means is decided by who reads it. */
export class KafkaLog implements Log {
  readonly maxAppendBytes: number;
  readonly #prefix: string;
  readonly #timeoutMs: number;
  readonly #cluster: Cluster;
  readonly #appender: Appender;
  readonly #offsets: OffsetQuery;
  readonly #fetcher: Fetcher;
  readonly #topics: Topics;
  readonly #positions: Positions;
  /** In how many places the topics are. */
  readonly replication: KafkaReplication;
  readonly #longFetches = new Map<Broker, LongFetch>();
  #closing: Promise<void> | undefined;

  constructor(options: KafkaLogOptions) {
    const { ssl, sasl, minInsyncReplicas, topicConfigOverrides, throttling } = options;
    const requestTimeoutMs = (this.#timeoutMs = options.requestTimeoutMs ?? 10_000);
    const maxAppendBytes = (this.maxAppendBytes = options.maxAppendBytes ?? MAX_APPEND_BYTES);
    const logger = options.logger ?? silentLogger;
    this.#prefix = options.prefix ?? 'statefold';
    this.#cluster = new Cluster({
      brokers: options.brokers,
      clientId: options.clientId ?? 'statefold',
      connectTimeoutMs: options.connectTimeoutMs ?? Math.min(3000, requestTimeoutMs),
      requestTimeoutMs,
      freshMs: options.freshMs,
      ...(ssl !== undefined && { ssl }),
      ...(sasl !== undefined && { sasl }),
      ...(throttling !== undefined && { throttling }),
    });
    this.#appender = new Appender(this.#cluster, { requestTimeoutMs, maxAppendBytes });
    this.#offsets = new OffsetQuery(this.#cluster, requestTimeoutMs);
    this.#fetcher = new Fetcher(this.#cluster, this.#offsets, requestTimeoutMs);
    this.#topics = new Topics(this.#cluster, this.#offsets, {
      replicationFactor: options.replicationFactor ?? 'auto',
      maxMessageBytes: maxAppendBytes,
      requestTimeoutMs,
      logger,
      ...(minInsyncReplicas !== undefined && { minInsyncReplicas }),
      ...(topicConfigOverrides !== undefined && { configOverrides: topicConfigOverrides }),
    });
    this.replication = new KafkaReplication(this.#cluster, {
      prefix: this.#prefix,
      replicationFactor: options.replicationFactor ?? 'auto',
      minInsyncReplicas,
      requestTimeoutMs,
    });
    this.#positions = new Positions(this.#cluster, `${this.#prefix}-tasks`, requestTimeoutMs, logger);
  }

  async ensureTopics(specs: readonly TopicSpec[]): Promise<void> {
    await this.#topics.ensure(specs.map((spec) => ({ ...spec, topic: this.#named(spec.topic) })));
  }

  /** The topics of tenants' events, by their names on Kafka and ascending, where this one is not there. */
  async tenantTopicsWithout(topic: string): Promise<readonly string[]> {
    if ((await this.#cluster.layout(this.#named(topic))) !== undefined) return [];
    const { topicMetadata } = await this.#cluster.ask('admin', () => metadataCall('all'));
    const names = topicMetadata.map((found) => found.topic);
    // By one answer: another broker's may be older.
    if (names.includes(this.#named(topic))) return [];
    const { ofTenants } = ownTopics(this.#prefix);
    const tenants = new Set(names.filter((name) => ofTenants.test(name)));
    // Those of others may be called so: a tenant has both of these from its first moment on.
    return [...tenants]
      .filter((name) => /\.events$/.test(name) && tenants.has(name.replace(/events$/, 'changes')))
      .sort();
  }

  async deleteTopic(topic: string): Promise<void> {
    const named = this.#named(topic);
    this.#positions.forget(named);
    await this.#topics.delete(named);
    this.#fetcher.forget(named);
  }

  append(to: PartitionRef, records: readonly NewRecord[]): Promise<Appended> {
    return this.#appender.append(this.#of(to), records);
  }

  endOffset(of: PartitionRef): Promise<number> {
    return this.#offsets.offset(this.#of(of), 'end');
  }

  startOffset(of: PartitionRef): Promise<number> {
    return this.#offsets.offset(this.#of(of), 'start');
  }

  async read(of: PartitionRef, from: number, maxBytes: number, waitMs = 0): Promise<LogPage> {
    const named = this.#of(of);
    const until = performance.now() + waitMs;
    for (let round = 0; ; round++) {
      let longFetch = this.#longFetch(named);
      let checked: number | undefined;
      if (waitMs === 0 || longFetch?.covers(named, from) !== true) {
        checked = longFetch?.position(named);
        const page = await this.#fetcher.read(named, from, maxBytes);
        if (page.records.length > 0 || performance.now() >= until) return page;
        longFetch = this.#longFetch(named);
      }
      if (longFetch !== undefined) {
        if (this.#closing !== undefined) throw new UnsentError('the log is closed');
        const page = await longFetch.wait(named, from, Math.max(1, until - performance.now()), checked);
        if (page?.records.length === 0) this.#cluster.freshen();
        if (page !== undefined) return page;
      }
      // The leader moved, or the place is not one to wait at.
      if (round > 0) await pause(AGAIN_MS, { ref: true });
    }
  }

  #longFetch(of: PartitionRef): LongFetch | undefined {
    const leader = this.#cluster.leader(of);
    if (leader === undefined) return undefined;
    let longFetch = this.#longFetches.get(leader);
    if (longFetch === undefined) this.#longFetches.set(leader, (longFetch = new LongFetch(leader, this.#timeoutMs)));
    return longFetch;
  }

  readAt(of: PartitionRef, offsets: readonly number[], maxBytes?: number): Promise<PickedPage> {
    return this.#fetcher.readAt(this.#of(of), offsets, maxBytes);
  }

  doubt(of: PartitionRef): void {
    this.#cluster.invalidate(this.#named(of.topic));
  }

  reportPositions(positions: readonly { readonly of: PartitionRef; readonly position: number }[]): void {
    for (const { of, position } of positions) this.#positions.report(this.#of(of), position);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#positions.close();
    for (const longFetch of this.#longFetches.values()) longFetch.close(new UnsentError('the log is closed'));
    await this.#appender.close();
    this.#cluster.close();
  }

  /** The topic as the cluster has it. */
  #named(topic: string): string {
    return topic === 'statefold' || topic.startsWith('statefold.')
      ? this.#prefix + topic.slice('statefold'.length)
      : topic;
  }

  #of({ topic, partition }: PartitionRef): PartitionRef {
    return { topic: this.#named(topic), partition };
  }
}
