import { requests } from '../../kafka/protocol.js';
import type { Logger } from '../../core/logger.js';
import type { PartitionRef } from '../log.js';
import type { Broker } from '../../kafka/broker.js';
import type { Cluster } from '../../kafka/cluster.js';
import { KafkaCodeError } from '../../kafka/kafka-error.js';
import { byTopic } from '../../kafka/wire.js';

const API = { OffsetCommit: 8, FindCoordinator: 10 };
const EVERY_MS = 3000;
const PARTITIONS_PER_COMMIT = 1000;

/** Commits how far partitions are folded as offsets of a consumer group without members, so that Kafka's own tools show the lag. */
export class Positions {
  readonly #cluster: Cluster;
  readonly #groupId: string;
  readonly #timeoutMs: number;
  readonly #logger: Logger;
  readonly #committed = new Map<string, number>();
  readonly #waiting = new Map<string, PartitionRef & { readonly position: number }>();
  #coordinator: Broker | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(cluster: Cluster, groupId: string, timeoutMs: number, logger: Logger) {
    this.#cluster = cluster;
    this.#groupId = groupId;
    this.#timeoutMs = timeoutMs;
    this.#logger = logger;
  }

  report(of: PartitionRef, position: number): void {
    const name = `${of.topic}/${of.partition}`;
    if (this.#closed || this.#committed.get(name) === position) return;
    this.#waiting.set(name, { topic: of.topic, partition: of.partition, position });
    this.#timer ??= setTimeout(() => void this.#commit(), EVERY_MS).unref();
  }

  forget(topic: string): void {
    for (const of of [this.#committed, this.#waiting])
      for (const name of of.keys()) if (name.startsWith(`${topic}/`)) of.delete(name);
  }

  async #commit(): Promise<void> {
    const batch = [...this.#waiting].slice(0, PARTITIONS_PER_COMMIT);
    for (const [name] of batch) this.#waiting.delete(name);
    try {
      this.#coordinator ??= await this.#find();
      const connection = await this.#coordinator.connection('admin');
      const topics = byTopic(batch.map(([, reported]) => reported)).map(([topic, partitions]) => ({
        topic,
        partitions: partitions.map(({ partition, position }) => ({ partition, offset: String(position) })),
      }));
      const call = await connection.bind(API.OffsetCommit, requests.OffsetCommit, {
        groupId: this.#groupId,
        groupGenerationId: -1,
        memberId: '',
        topics,
      });
      const { responses } = await this.#coordinator.sendOn(connection, call, this.#timeoutMs);
      for (const { topic, partitions } of responses)
        for (const { errorCode } of partitions)
          if (errorCode !== 0) throw new KafkaCodeError(errorCode, `the position of ${topic}`);
      for (const [name, { position }] of batch) this.#committed.set(name, position);
    } catch (error) {
      this.#coordinator = undefined;
      this.#logger.debug({ err: error, group: this.#groupId }, 'positions could not be committed');
      // Not told again until they move on: a topic that is gone would be told for ever.
    }
    this.#timer = undefined;
    if (this.#waiting.size > 0 && !this.#closed) this.#timer = setTimeout(() => void this.#commit(), EVERY_MS).unref();
  }

  async #find(): Promise<Broker> {
    const { errorCode, coordinator } = await this.#cluster.ask('admin', (connection) =>
      connection.bind(API.FindCoordinator, requests.GroupCoordinator, { groupId: this.#groupId }),
    );
    if (errorCode !== 0) throw new KafkaCodeError(errorCode, `the coordinator of group ${this.#groupId}`);
    return this.#cluster.at(coordinator.host, coordinator.port);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }
}
