import type { PartitionRef } from '../core/partition-ref.js';
import { pause } from '../core/pause.js';
import { Broker, type Lane } from './broker.js';
import type { BrokerConnection, ConnectionSettings } from './broker-connection.js';
import { metadataCall, type Metadata } from './calls.js';
import { CODE, isMove, KafkaCodeError, UnansweredError, UnknownPartitionError, UnsentError } from './kafka-error.js';
import type { Call } from './wire.js';

export interface ClusterOptions extends ConnectionSettings {
  /** `host:port` of brokers to start from. */
  readonly brokers: readonly string[];
  readonly requestTimeoutMs: number;
  /** What is known of topics is not doubted before, milliseconds. */
  readonly freshMs?: number | undefined;
}

export interface TopicLayout {
  /** Broker ids by partition; -1: none now. */
  readonly leaders: readonly number[];
  /** The least number of replicas that a partition has. */
  readonly replicas: number;
}

/** The broker that an answer is of, and the answer. */
interface Answered<T> {
  readonly broker: Broker;
  readonly answer: T;
}

const TOPICS_PER_REQUEST = 500;
/** A leader that is cut off from the controller answers as before: for so long who hears nothing of it takes it for the leader, milliseconds. */
const FRESH_MS = 30_000;
/** An election takes some hundred milliseconds: reads wait for it. */
const MOVE_DELAYS_MS = [20, 50, 100, 200, 400];
/** A connection that was reset is made again, past the first pause of its broker. */
const LOST_DELAYS_MS = [0, 60, 120];

function parseAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  const port = Number(address.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > 65_535)
    throw new Error(`'${address}' is no address of a broker: it should be host:port`);
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port };
}

/** The brokers, and who leads which partition. Metadata are asked of single topics, when one is used, and again when an answer says that they are old. */
export class Cluster {
  readonly #options: ClusterOptions;
  readonly #brokers = new Map<string, Broker>();
  readonly #bootstrap: readonly Broker[];
  #byId = new Map<number, Broker>();
  #controller: number | undefined;
  #preferred: Broker | undefined;
  /** What they answered last turned out wrong: a broker that is cut off from the controller tells what was. The others are asked first. */
  readonly #distrusted = new Set<Broker>();
  /** The highest epochs of leaders that were told of, by topic and partition. */
  readonly #epochs = new Map<string, readonly number[]>();
  readonly #layouts = new Map<string, TopicLayout>();
  readonly #wanted = new Map<string, Promise<TopicLayout | undefined>>();
  #gathering: { topics: string[]; metadata: Promise<Metadata> } | undefined;
  /** When all that is known was asked for last. */
  #freshAt = performance.now();

  constructor(options: ClusterOptions) {
    this.#options = options;
    if (options.brokers.length === 0) throw new Error('no broker is named');
    this.#bootstrap = options.brokers.map((address) => {
      const { host, port } = parseAddress(address);
      return this.#broker(host, port);
    });
  }

  /** How many brokers are there, as of the last metadata. */
  get size(): number {
    return this.#byId.size;
  }

  /** The leader, when it is known already. */
  leader(of: PartitionRef): Broker | undefined {
    const id = this.#layouts.get(of.topic)?.leaders[of.partition];
    return id === undefined ? undefined : this.#byId.get(id);
  }

  /** @throws UnknownPartitionError | KafkaCodeError LEADER_NOT_AVAILABLE | UnsentError when no broker can be asked */
  async findLeader(of: PartitionRef): Promise<Broker> {
    const known = this.leader(of);
    if (known !== undefined) return known;
    const layout = await this.layout(of.topic);
    const id = layout?.leaders[of.partition];
    if (id === undefined) throw new UnknownPartitionError(of);
    const broker = this.#byId.get(id);
    if (broker === undefined) throw new KafkaCodeError(CODE.LEADER_NOT_AVAILABLE, `${of.topic}-${of.partition}`);
    return broker;
  }

  /** What is known of the topic may be old, and who told it too. */
  invalidate(topic: string): void {
    if (this.#layouts.delete(topic)) this.distrust();
  }

  /**
   * Nothing was heard of what is followed. That is so where a leader is none any more and does not know it, too: now and then who leads is
   * asked for again, of another broker than the last time.
   */
  freshen(): void {
    const now = performance.now();
    if (now < this.#freshAt + (this.#options.freshMs ?? FRESH_MS)) return;
    this.#freshAt = now;
    this.distrust();
    for (const topic of this.#layouts.keys()) this.layout(topic).catch(() => undefined); // what is known holds
  }

  /** What was told by the broker that is asked first turned out wrong. */
  distrust(broker = this.#preferred): void {
    if (broker === undefined) return;
    this.#distrusted.add(broker);
    if (this.#preferred === broker) this.#preferred = undefined;
  }

  /** Asked now; calls of a turn gather. Undefined: there is no such topic. */
  layout(topic: string): Promise<TopicLayout | undefined> {
    let wanted = this.#wanted.get(topic);
    if (wanted === undefined) {
      wanted = this.#gather(topic).finally(() => this.#wanted.delete(topic));
      this.#wanted.set(topic, wanted);
    }
    return wanted;
  }

  async #gather(topic: string): Promise<TopicLayout | undefined> {
    if (this.#gathering === undefined || this.#gathering.topics.length >= TOPICS_PER_REQUEST) {
      const topics: string[] = [];
      const metadata = new Promise((resolve) => setImmediate(resolve)).then(() => {
        if (this.#gathering?.topics === topics) this.#gathering = undefined;
        return this.#metadata(topics);
      });
      this.#gathering = { topics, metadata };
    }
    const { topics, metadata } = this.#gathering;
    topics.push(topic);
    return this.#learn(await metadata, topic);
  }

  /** Of a broker that is not behind what others told; where all are, the topics were made anew. */
  async #metadata(topics: readonly string[]): Promise<Metadata> {
    const left = new Set(this.#candidates());
    let older: Metadata | undefined;
    try {
      while (left.size > 0) {
        const { requestTimeoutMs } = this.#options;
        const { broker, answer } = await this.#ask('query', () => metadataCall(topics), requestTimeoutMs, left);
        if (!answer.topicMetadata.some((found) => this.#isBehind(found))) return answer;
        left.delete(broker);
        this.distrust(broker);
        older ??= answer;
      }
    } catch (error) {
      // The others may be down for good: an old answer is better than none.
      if (older === undefined) throw error;
      return older;
    }
    if (older === undefined) throw new UnsentError('no broker is known');
    for (const { topic } of older.topicMetadata) this.#epochs.delete(topic);
    return older;
  }

  #isBehind({ topic, partitionMetadata }: Metadata['topicMetadata'][number]): boolean {
    const known = this.#epochs.get(topic);
    return (
      known !== undefined &&
      partitionMetadata.some(({ partitionId, leaderEpoch }) => leaderEpoch < (known[partitionId] ?? -1))
    );
  }

  #learn(metadata: Metadata, topic: string): TopicLayout | undefined {
    this.#controller = metadata.controllerId;
    this.#byId = new Map(metadata.brokers.map(({ nodeId, host, port }) => [nodeId, this.#broker(host, port)]));
    const found = metadata.topicMetadata.find((of) => of.topic === topic);
    if (found === undefined || found.topicErrorCode === CODE.UNKNOWN_TOPIC_OR_PARTITION) {
      this.#layouts.delete(topic);
      this.#epochs.delete(topic);
      return undefined;
    }
    if (found.topicErrorCode !== 0 && found.topicErrorCode !== CODE.LEADER_NOT_AVAILABLE)
      throw new KafkaCodeError(found.topicErrorCode, topic);
    const leaders: number[] = [];
    const known = this.#epochs.get(topic) ?? [];
    const epochs: number[] = [];
    for (const { partitionId, leader, leaderEpoch } of found.partitionMetadata) {
      leaders[partitionId] = leader;
      epochs[partitionId] = Math.max(leaderEpoch, known[partitionId] ?? leaderEpoch);
    }
    this.#epochs.set(topic, epochs);
    const layout = { leaders, replicas: Math.min(...found.partitionMetadata.map(({ replicas }) => replicas.length)) };
    this.#layouts.set(topic, layout);
    return layout;
  }

  #broker(host: string, port: number): Broker {
    const address = `${host}:${port}`;
    let broker = this.#brokers.get(address);
    if (broker === undefined) this.#brokers.set(address, (broker = new Broker(host, port, this.#options)));
    return broker;
  }

  /** Of any broker: the one that answered last, else the next. @throws UnsentError | UnansweredError of the last one */
  async ask<T>(
    lane: Lane,
    call: (connection: BrokerConnection) => Call<T> | Promise<Call<T>>,
    timeoutMs = this.#options.requestTimeoutMs,
  ): Promise<T> {
    return (await this.#ask(lane, call, timeoutMs, this.#candidates())).answer;
  }

  /** All brokers that are known, in the order in which they are asked. */
  #candidates(): readonly Broker[] {
    const all = new Set([
      ...(this.#preferred === undefined ? [] : [this.#preferred]),
      ...this.#byId.values(),
      ...this.#bootstrap,
    ]);
    if ([...all].every((broker) => this.#distrusted.has(broker))) this.#distrusted.clear();
    // One that is silent would take its time of all others.
    const rank = (broker: Broker): number => (broker.isFailing ? 2 : this.#distrusted.has(broker) ? 1 : 0);
    return [...all].sort((a, b) => rank(a) - rank(b));
  }

  async #ask<T>(
    lane: Lane,
    call: (connection: BrokerConnection) => Call<T> | Promise<Call<T>>,
    timeoutMs: number,
    candidates: Iterable<Broker>,
  ): Promise<Answered<T>> {
    const until = performance.now() + timeoutMs;
    let failure: Error | undefined;
    for (const broker of candidates) {
      const left = until - performance.now();
      if (left <= 0) break;
      try {
        const connection = await broker.connection(lane);
        const answer = await broker.sendOn(
          connection,
          await call(connection),
          Math.min(left, Math.max(1000, timeoutMs / 2)),
        );
        this.#preferred = broker;
        return { broker, answer };
      } catch (error) {
        if (!(error instanceof UnsentError || error instanceof UnansweredError)) throw error;
        failure = error;
      }
    }
    this.#preferred = undefined;
    throw failure ?? new UnsentError(`no broker answered within ${timeoutMs} ms`);
  }

  /** Changes the cluster, or asks for what is to be changed: of the controller, or where that can't be reached of another broker, which passes it on. */
  async askAdmin<T>(call: (connection: BrokerConnection) => Promise<Call<T>>, timeoutMs: number): Promise<T> {
    try {
      return await this.askController(call, timeoutMs);
    } catch (error) {
      // Without ZooKeeper every broker passes it on.
      if (error instanceof UnsentError) return this.ask('admin', call, timeoutMs);
      throw error;
    }
  }

  /** Of the controller, for what changes the cluster: sent once, and not to another broker when it is not answered. */
  async askController<T>(call: (connection: BrokerConnection) => Promise<Call<T>>, timeoutMs: number): Promise<T> {
    const controller = this.#controller === undefined ? undefined : this.#byId.get(this.#controller);
    if (controller === undefined) return this.ask('admin', call, timeoutMs);
    const connection = await controller.connection('admin');
    return controller.sendOn(connection, await call(connection), timeoutMs);
  }

  /** The broker of an answer that names one (a group's coordinator). */
  at(host: string, port: number): Broker {
    return this.#broker(host, port);
  }

  /**
   * A request to the partition's leader that may be repeated, each time after fresh metadata: while a leader is being elected,
   * where it could not be sent, and once where it was not answered in time.
   */
  async routed<T>(of: PartitionRef, send: (leader: Broker) => Promise<T>): Promise<T> {
    const [moves, losses] = [[...MOVE_DELAYS_MS], [...LOST_DELAYS_MS]];
    for (let unanswered = 0; ;) {
      try {
        return await send(this.leader(of) ?? (await this.findLeader(of)));
      } catch (error) {
        this.invalidate(of.topic);
        let delay: number | undefined;
        if (error instanceof UnsentError) delay = losses.shift();
        else if (error instanceof UnansweredError) delay = unanswered++ === 0 ? losses.shift() : undefined;
        else if (error instanceof KafkaCodeError && isMove(error.code)) delay = moves.shift();
        if (delay === undefined) throw error;
        if (delay > 0) await pause(delay, { ref: true });
      }
    }
  }

  close(): void {
    for (const broker of this.#brokers.values()) broker.close();
  }
}
