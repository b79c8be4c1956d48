import {
  appendBytes,
  AppendIndefiniteError,
  AppendRefusedError,
  AppendTooLargeError,
  tooLarge,
  type NewRecord,
  type PartitionRef,
} from '../log.js';
import type { Broker } from '../../kafka/broker.js';
import type { BrokerConnection } from '../../kafka/broker-connection.js';
import { produceCall, type Produced } from '../../kafka/calls.js';
import type { Cluster } from '../../kafka/cluster.js';
import { isMove, isRefusal, isTooLarge, KafkaCodeError, UnsentError } from '../../kafka/kafka-error.js';
import { encodeRecordBatch } from './record-batch.js';

export interface AppenderOptions {
  readonly requestTimeoutMs: number;
  readonly maxAppendBytes: number;
}

export interface Appended {
  readonly baseOffset: number;
  readonly timestamp: number;
}

interface Produce extends PartitionRef {
  readonly batch: Buffer;
  readonly since: number;
  resolve(appended: Appended): void;
  reject(error: Error): void;
}

/** Requests of one broker that are under way at a time, each on a connection of its own: the leader holds a request until its followers have it. */
const CONNECTIONS = 2;
const REQUEST_BYTES = 8 * 1024 * 1024;

/**
 * Produces with acks=all: one attempt, no idempotence (a produce that is repeated or late is void by the fold). One is under
 * way a partition; what waits for a broker while its connections are busy shares the next request, an error a partition.
 */
export class Appender {
  readonly #cluster: Cluster;
  readonly #options: AppenderOptions;
  /** The partitions with a produce under way, and what waits behind it. */
  readonly #lanes = new Map<string, Produce[]>();
  readonly #queues = new Map<Broker, { readonly waiting: Produce[]; readonly busy: Set<number> }>();
  #underWay = 0;
  #drained: (() => void)[] = [];
  #closed = false;

  constructor(cluster: Cluster, options: AppenderOptions) {
    this.#cluster = cluster;
    this.#options = options;
  }

  append(to: PartitionRef, records: readonly NewRecord[]): Promise<Appended> {
    if (this.#closed) return Promise.reject(new AppendRefusedError('the log is closed'));
    if (records.length === 0) return Promise.reject(new AppendRefusedError('nothing to append'));
    const [bytes, most] = [appendBytes(records), this.#options.maxAppendBytes];
    if (bytes > most) return Promise.reject(tooLarge(records.length, bytes, most));
    const batch = encodeRecordBatch(records, Date.now());
    this.#underWay++;
    return new Promise<Appended>((resolve, reject) => {
      const produce = { topic: to.topic, partition: to.partition, batch, since: performance.now(), resolve, reject };
      const name = `${to.topic}/${to.partition}`;
      const lane = this.#lanes.get(name);
      if (lane !== undefined) return void lane.push(produce);
      this.#lanes.set(name, []);
      this.#route(produce);
    }).finally(() => {
      if (--this.#underWay === 0) for (const resolve of this.#drained.splice(0)) resolve();
    });
  }

  #route(produce: Produce): void {
    const leader = this.#cluster.leader(produce);
    if (leader !== undefined) return this.#enqueue(leader, produce);
    this.#cluster.findLeader(produce).then(
      (found) => this.#enqueue(found, produce),
      (error: unknown) => this.#refuse(produce, error),
    );
  }

  #enqueue(leader: Broker, produce: Produce): void {
    let queue = this.#queues.get(leader);
    if (queue === undefined) this.#queues.set(leader, (queue = { waiting: [], busy: new Set() }));
    queue.waiting.push(produce);
    if (queue.busy.size < CONNECTIONS) this.#pump(leader, queue);
  }

  #pump(leader: Broker, queue: { readonly waiting: Produce[]; readonly busy: Set<number> }): void {
    for (let index = 0; index < CONNECTIONS && queue.waiting.length > 0; index++) {
      if (queue.busy.has(index)) continue;
      queue.busy.add(index);
      const connection = leader.current('produce', index);
      if (connection !== undefined) this.#send(leader, queue, connection, index);
      else
        leader.connection('produce', index).then(
          (opened) => this.#send(leader, queue, opened, index),
          (error: unknown) => {
            queue.busy.delete(index);
            // Whatever waits would wait for the same: it is told now, nothing of it was sent.
            for (const produce of queue.waiting.splice(0)) this.#refuse(produce, error);
          },
        );
    }
  }

  #send(
    leader: Broker,
    queue: { readonly waiting: Produce[]; readonly busy: Set<number> },
    connection: BrokerConnection,
    index: number,
  ): void {
    const { requestTimeoutMs } = this.#options;
    const parts: Produce[] = [];
    const late = performance.now() - requestTimeoutMs;
    let bytes = 0;
    while (
      queue.waiting[0] !== undefined &&
      (parts.length === 0 || bytes + queue.waiting[0].batch.length <= REQUEST_BYTES)
    ) {
      const produce = queue.waiting.shift() as Produce;
      if (produce.since < late) {
        this.#refuse(produce, new UnsentError(`it waited for ${requestTimeoutMs} ms behind other appends`));
        continue;
      }
      parts.push(produce);
      bytes += produce.batch.length;
    }
    if (parts.length === 0) return void queue.busy.delete(index);
    // The leader gives up on its followers before we give up on it: its answer spares the connection.
    void leader
      .sendOn(connection, produceCall(parts, Math.ceil(requestTimeoutMs * 0.8)), requestTimeoutMs)
      .then(
        (answers) => this.#answered(parts, answers),
        (error: unknown) => {
          for (const produce of parts) this.#lost(produce, error);
        },
      )
      .then(() => {
        queue.busy.delete(index);
        this.#pump(leader, queue);
      });
  }

  #answered(parts: readonly Produce[], answers: readonly Produced[]): void {
    const found = new Map(answers.map((answer) => [`${answer.topic}/${answer.partition}`, answer]));
    for (const produce of parts) {
      const answer = found.get(`${produce.topic}/${produce.partition}`);
      if (answer === undefined) this.#lost(produce, new Error('the answer says nothing of it'));
      else if (answer.code === 0) {
        produce.resolve({
          baseOffset: answer.baseOffset,
          timestamp: answer.appendTime < 0 ? Date.now() : answer.appendTime,
        });
        this.#next(produce);
      } else {
        const error = new KafkaCodeError(answer.code, `${produce.topic}-${produce.partition}`);
        if (isMove(answer.code)) this.#cluster.invalidate(produce.topic);
        if (isRefusal(answer.code)) this.#refuse(produce, error);
        else this.#lost(produce, error);
      }
    }
  }

  #refuse(produce: Produce, cause: unknown): void {
    if (cause instanceof UnsentError) this.#cluster.invalidate(produce.topic);
    produce.reject(this.#refusalOf(produce, cause as Error));
    this.#next(produce);
  }

  #refusalOf({ topic }: Produce, cause: Error): AppendRefusedError {
    const message = `not appended: ${cause.message}`;
    if (!isTooLarge(cause)) return new AppendRefusedError(message, { cause });
    const setting = `max.message.bytes=${this.#options.maxAppendBytes}`;
    return new AppendTooLargeError(
      `${message}; the topic takes less than the service writes at once: kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config ${setting}`,
      { cause },
    );
  }

  #lost(produce: Produce, cause: unknown): void {
    // Never sent after all: the connection was gone when it should have been written.
    if (cause instanceof UnsentError) return this.#refuse(produce, cause);
    this.#cluster.invalidate(produce.topic);
    produce.reject(
      new AppendIndefiniteError(`the append has no definite result: ${(cause as Error).message}`, { cause }),
    );
    this.#next(produce);
  }

  /** The partition is free: what waits there goes next. */
  #next({ topic, partition }: PartitionRef): void {
    const name = `${topic}/${partition}`;
    const next = this.#lanes.get(name)?.shift();
    if (next === undefined) this.#lanes.delete(name);
    else this.#route(next);
  }

  /** Takes nothing more, and resolves when all that was taken has its result. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#underWay > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
  }
}
