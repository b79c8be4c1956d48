// The yardsticks of the benchmarks on Kafka: kafkajs alone, with the bytes that the service would write.
import { join } from 'node:path';
import { Kafka, logLevel, type Consumer, type Producer } from 'kafkajs';
import type { CommitValue, Fence } from '../../src/core/records.js';
import { uuidv7 } from '../../src/core/ids.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { ROOT, until } from '../support/service.js';
import { quantile } from './load.js';

export interface Latencies {
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

export const latencies = (values: readonly number[]): Latencies => ({
  p50: quantile(values, 0.5),
  p99: quantile(values, 0.99),
});
const { events: codec } = loadCodecs(join(ROOT, 'schemas', 'avro'));
/** Messages of one send while a topic is filled. */
const FILL = 2_000;

export class RawKafka {
  readonly #kafka: Kafka;
  readonly #producer: Producer;
  readonly #prefix: string;
  #topics = 0;

  private constructor(brokers: readonly string[], prefix: string) {
    this.#kafka = new Kafka({ clientId: 'bench', brokers: [...brokers], logLevel: logLevel.NOTHING });
    // As the service sends: every replica, one attempt.
    this.#producer = this.#kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 0 } });
    this.#prefix = prefix;
  }

  static async connect(brokers: readonly string[], prefix: string): Promise<RawKafka> {
    const raw = new RawKafka(brokers, prefix);
    await raw.#producer.connect();
    return raw;
  }

  /** A new topic of one partition. */
  async topic(): Promise<string> {
    const [topic = ''] = await this.newTopics(1);
    return topic;
  }

  /** So many of them. */
  async newTopics(count: number): Promise<readonly string[]> {
    const topics = Array.from({ length: count }, () => `${this.#prefix}.raw-${this.#topics++}`);
    const admin = this.#kafka.admin();
    await admin.connect();
    await admin.createTopics({ topics: topics.map((topic) => ({ topic, numPartitions: 1 })), waitForLeaders: true });
    await admin.disconnect();
    return topics;
  }

  /** The topics that there are under the prefix. */
  async topics(): Promise<string[]> {
    const admin = this.#kafka.admin();
    await admin.connect();
    const topics = await admin.listTopics();
    await admin.disconnect();
    return topics.filter((topic) => topic.startsWith(`${this.#prefix}.`));
  }

  /** Single sends begun at a steady rate. */
  async sendPaced(topic: string, value: Buffer, perSecond: number, durationMs: number): Promise<Latencies> {
    const times: number[] = [];
    const started = performance.now();
    const sends: Promise<void>[] = [];
    for (let n = 0; performance.now() - started < durationMs; n++) {
      const from = performance.now();
      sends.push(this.#send(topic, [value]).then(() => void times.push(performance.now() - from)));
      await new Promise((resolve) => setTimeout(resolve, started + ((n + 1) * 1000) / perSecond - performance.now()));
    }
    await Promise.all(sends);
    return latencies(times);
  }

  /** Sends of one value each, so many under way at a time, over the topics in turn. Values a second. */
  async sendSingles(topics: readonly string[], value: Buffer, underWay: number, durationMs: number): Promise<number> {
    // Of many topics that were just made, some have no leader yet.
    for (const topic of topics)
      await until(() =>
        this.#send(topic, [value]).then(
          () => true,
          () => false,
        ),
      );
    const started = performance.now();
    let sent = 0;
    const sender = async (): Promise<void> => {
      while (performance.now() - started < durationMs) await this.#send(topics[sent++ % topics.length] ?? '', [value]);
    };
    await Promise.all(Array.from({ length: underWay }, sender));
    return sent / ((performance.now() - started) / 1000);
  }

  /** `together` values a send, one send at a time, as a group commit of as many clients. Values a second. */
  async sendBatches(topic: string, value: Buffer, together: number, durationMs: number): Promise<number> {
    const values = Array.from({ length: together }, () => value);
    const started = performance.now();
    let written = 0;
    for (; performance.now() - started < durationMs; written += together) await this.#send(topic, values);
    return written / ((performance.now() - started) / 1000);
  }

  /** Writes `count` commits of one event each to an empty topic, as the owner of its first epoch. */
  async fill(topic: string, count: number, aggregates: number): Promise<void> {
    const records = commits(count, aggregates);
    for (let left = true; left;) {
      const messages: { key: Buffer; value: Buffer }[] = [];
      while (messages.length < FILL && left) {
        const next = records.next();
        if (next.done === true) left = false;
        else messages.push(next.value);
      }
      if (messages.length > 0) await this.#producer.send({ topic, acks: -1, messages });
    }
  }

  /** A consumer that only counts what is in the topic, from its start. Records a second, from the first to the last. */
  async count(topic: string, expected: number): Promise<number> {
    const consumer = this.#kafka.consumer({
      groupId: `${this.#prefix}.${topic}.${uuidv7()}`,
      maxBytesPerPartition: 8 * 1024 * 1024,
    });
    let seen = 0;
    let began = 0;
    const done = new Promise<number>((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.on(consumer.events.FETCH_START, () => (began ||= performance.now()));
      void start(consumer, topic, (records) => {
        seen += records;
        if (seen >= expected) resolve(expected / ((performance.now() - began) / 1000));
      }).catch(reject);
    });
    try {
      return await done;
    } finally {
      await consumer.disconnect();
    }
  }

  /**
   * From a produce to its record at a consumer of the last topic, one at a time. Of several topics each is copied to the next
   * by a consumer that produces what it reads: what a processor with a durable output takes.
   */
  async lag(topics: readonly string[], value: Buffer, rounds: number): Promise<Latencies> {
    const [first = ''] = topics;
    const consumers: Consumer[] = [];
    let arrived = (): void => undefined;
    for (const [i, topic] of topics.entries()) {
      const next = topics[i + 1];
      const consumer = this.#kafka.consumer({ groupId: `${this.#prefix}.${topic}.${uuidv7()}`, maxWaitTimeInMs: 1000 });
      consumers.push(consumer);
      const ready = new Promise<void>((resolve) => consumer.on(consumer.events.FETCH_START, () => resolve()));
      await start(consumer, topic, () => (next === undefined ? arrived() : void this.#send(next, [value])));
      await ready;
    }
    const times: number[] = [];
    for (let i = -100; i < rounds; i++) {
      const arrival = new Promise<void>((resolve) => (arrived = resolve));
      const from = performance.now();
      const sent = this.#send(first, [value]);
      await arrival;
      if (i >= 0) times.push(performance.now() - from);
      await sent;
    }
    for (const consumer of consumers) await consumer.disconnect();
    return latencies(times);
  }

  async close(): Promise<void> {
    await this.#producer.disconnect();
  }

  async #send(topic: string, values: readonly Buffer[]): Promise<void> {
    await this.#producer.send({
      topic,
      acks: -1,
      messages: values.map((value) => ({ key: 'k', value, partition: 0 })),
    });
  }
}

async function start(consumer: Consumer, topic: string, onRecords: (records: number) => void): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: true,
    eachBatch: ({ batch }) => {
      onRecords(batch.messages.length);
      return Promise.resolve();
    },
  });
}

/** A record as the service writes it for an append with this body. */
export function commitRecord(body: string, offset = 1, baseVersion = 0): { key: Buffer; value: Buffer } {
  const {
    aggregateId,
    correlationId = null,
    events,
    eventType,
    data,
  } = JSON.parse(body) as {
    aggregateId: string;
    correlationId?: string;
    events?: { eventType: string; data: object }[];
    eventType: string;
    data: object;
  };
  const recordId = `raw:${offset.toString(36)}`;
  const fence: Fence = {
    epoch: 1,
    owner: 'raw',
    recordId,
    expectedOffset: offset,
    previous: `raw:${(offset - 1).toString(36)}`,
  };
  const value: CommitValue = {
    commandId: uuidv7(),
    keyed: false,
    requestHash: Buffer.alloc(0),
    aggregateId,
    aggregateType: aggregateId.slice(0, aggregateId.indexOf('-')),
    baseVersion,
    timestamp: Date.now(),
    correlationId,
    causationId: null,
    metadata: null,
    events: (events ?? [{ eventType, data }]).map((event) => ({
      eventId: Buffer.from(uuidv7().replaceAll('-', ''), 'hex'),
      eventType: event.eventType,
      data: Buffer.from(JSON.stringify(event.data)),
    })),
  };
  return {
    key: Buffer.from(`${aggregateId}@${baseVersion}#${recordId}`),
    value: codec.encode(fence, { kind: 'Commit', value }),
  };
}

/** A claim and the commits after it, each of which counts in an empty partition. */
function* commits(count: number, aggregates: number): Generator<{ key: Buffer; value: Buffer }> {
  const claim: Fence = { epoch: 1, owner: 'raw', recordId: 'raw:0', expectedOffset: 0, previous: '' };
  yield { key: Buffer.from('claim#raw:0'), value: codec.encode(claim, { kind: 'Claim', value: { rules: 1 } }) };
  for (let i = 0; i < count; i++)
    yield commitRecord(
      `{"aggregateId":"counter-${i % aggregates}","eventType":"Counted","data":{"amount":7,"channel":"web"}}`,
      i + 1,
      Math.floor(i / aggregates),
    );
}
