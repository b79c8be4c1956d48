import type { PartitionRef } from '../core/partition-ref.js';
import { CODE } from './kafka-error.js';
import { byTopic, WireReader, WireWriter, type Call } from './wire.js';

/** The hot requests, in versions that brokers from 2.3 to 4.x speak. kafkajs's own encoders give one error for all partitions of an answer. */

export interface ProducePart extends PartitionRef {
  readonly batch: Buffer;
}

export interface Produced extends PartitionRef {
  readonly code: number;
  readonly baseOffset: number;
  /** Milliseconds since the epoch; -1 when the topic keeps the client's. */
  readonly appendTime: number;
}

/** acks=all; `timeoutMs` is how long the leader waits for its followers. */
export function produceCall(parts: readonly ProducePart[], timeoutMs: number): Call<Produced[]> {
  const body: Buffer[] = [];
  const topics = byTopic(parts);
  let writer = new WireWriter(128).string(null).int16(-1).int32(timeoutMs).int32(topics.length);
  for (const [topic, partitions] of topics) {
    writer.string(topic).int32(partitions.length);
    for (const { partition, batch } of partitions) {
      body.push(writer.int32(partition).int32(batch.length).take(), batch);
      writer = new WireWriter(64);
    }
  }
  return {
    name: 'Produce',
    apiKey: 0,
    apiVersion: 7,
    throttleAt: 'end',
    body,
    decode(payload) {
      const reader = new WireReader(payload);
      return reader.partitions((topic) => {
        const answer = {
          topic,
          partition: reader.int32(),
          code: reader.int16(),
          baseOffset: reader.int64(),
          appendTime: reader.int64(),
        };
        reader.int64(); // log start
        return answer;
      });
    },
  };
}

export interface FetchPart extends PartitionRef {
  readonly from: number;
  readonly maxBytes: number;
}

export interface Fetched extends PartitionRef {
  /** THROTTLING_QUOTA_EXCEEDED: it says nothing of the partition, and is to be asked again when the connection is not muted any more. */
  readonly code: number;
  /** The high watermark: all below is on all replicas in sync. A new leader's may lag behind what was acknowledged. */
  readonly end: number;
  /** A record set; its last batch may be cut. */
  readonly records: Buffer;
}

/** Answers at once when there is anything, else after `waitMs`. The first batch of the first partition comes whole, however large. */
export function fetchCall(parts: readonly FetchPart[], waitMs: number, maxBytes: number): Call<Fetched[]> {
  const writer = new WireWriter(64 + parts.length * 64);
  writer.int32(-1).int32(waitMs).int32(1).int32(maxBytes).int8(0).int32(0).int32(-1);
  writer
    .partitions(parts, (part) => writer.int32(part.partition).int32(-1).int64(part.from).int64(-1).int32(part.maxBytes))
    .int32(0)
    .string('');
  return {
    name: 'Fetch',
    apiKey: 1,
    apiVersion: 11,
    throttleAt: 'start',
    body: [writer.take()],
    decode(payload) {
      const reader = new WireReader(payload);
      const throttled = reader.int32() > 0;
      const code = reader.int16();
      reader.int32();
      const answers = reader.partitions((topic) => {
        const [partition, partCode] = [reader.int32(), reader.int16()];
        const end = reader.int64();
        for (let i = 0; i < 2; i++) reader.int64(); // last stable offset, log start
        reader.array(() => [reader.int64(), reader.int64()]); // aborted transactions
        reader.int32(); // preferred replica
        return { topic, partition, code: partCode, end, records: reader.blob() };
      });
      const none = { end: -1, records: Buffer.alloc(0) };
      if (code !== 0) return parts.map(({ topic, partition }) => ({ topic, partition, code, ...none }));
      // A quota is spent: the answer comes at once, and leaves all of them out.
      if (throttled && answers.length === 0)
        return parts.map(({ topic, partition }) => ({
          ...{ topic, partition, ...none },
          code: CODE.THROTTLING_QUOTA_EXCEEDED,
        }));
      return answers;
    },
  };
}

export type OffsetKind = 'start' | 'end';

export interface ListedOffset extends PartitionRef {
  readonly code: number;
  readonly offset: number;
}

export function listOffsetsCall(parts: readonly PartitionRef[], kind: OffsetKind): Call<ListedOffset[]> {
  const writer = new WireWriter(64 + parts.length * 48).int32(-1).int8(0);
  writer.partitions(parts, ({ partition }) => writer.int32(partition).int64(kind === 'end' ? -1 : -2));
  return {
    name: 'ListOffsets',
    apiKey: 2,
    apiVersion: 3,
    throttleAt: 'start',
    body: [writer.take()],
    decode(payload) {
      const reader = new WireReader(payload);
      reader.int32();
      return reader.partitions((topic) => {
        const [partition, code] = [reader.int32(), reader.int16()];
        reader.int64(); // timestamp
        return { topic, partition, code, offset: reader.int64() };
      });
    },
  };
}

export interface PartitionMetadata {
  readonly partitionErrorCode: number;
  readonly partitionId: number;
  /** -1 while there is none. */
  readonly leader: number;
  /** One more with each election: of two answers that differ the one with the higher epoch is the later one. */
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly isr: readonly number[];
}

export interface Metadata {
  readonly brokers: readonly {
    readonly nodeId: number;
    readonly host: string;
    readonly port: number;
    readonly rack: string | null;
  }[];
  readonly controllerId: number;
  readonly topicMetadata: readonly {
    readonly topicErrorCode: number;
    readonly topic: string;
    readonly partitionMetadata: readonly PartitionMetadata[];
  }[];
}

/**
 * Of these topics alone: kafkajs's own request asks for all when there are none, and its answers leave out the leaders' epochs.
 * 'all': of whatever this user may see.
 */
export function metadataCall(topics: readonly string[] | 'all'): Call<Metadata> {
  const named = topics === 'all' ? [] : topics;
  const writer = new WireWriter(64 + named.length * 48).int32(topics === 'all' ? -1 : topics.length);
  for (const topic of named) writer.string(topic);
  writer.int8(0); // creates none
  return {
    name: 'Metadata',
    apiKey: 3,
    apiVersion: 7,
    throttleAt: 'start',
    body: [writer.take()],
    decode: decodeMetadata,
  };
}

function decodeMetadata(payload: Buffer): Metadata {
  const reader = new WireReader(payload);
  const ids = (): number[] => reader.array(() => reader.int32());
  reader.int32(); // throttled for
  const brokers = reader.array(() => ({
    nodeId: reader.int32(),
    host: reader.string() ?? '',
    port: reader.int32(),
    rack: reader.string(),
  }));
  reader.string(); // the cluster's id
  const controllerId = reader.int32();
  const topicMetadata = reader.array(() => {
    const [topicErrorCode, topic] = [reader.int16(), reader.string() ?? ''];
    reader.int8(); // one of Kafka's own
    const partitionMetadata = reader.array(() => {
      const partition = {
        partitionErrorCode: reader.int16(),
        partitionId: reader.int32(),
        leader: reader.int32(),
        leaderEpoch: reader.int32(),
        replicas: ids(),
        isr: ids(),
      };
      ids(); // replicas that are offline
      return partition;
    });
    return { topicErrorCode, topic, partitionMetadata };
  });
  return { brokers, controllerId, topicMetadata };
}

/** Sets these configs of a topic and leaves its others as they are; kafkajs has only the request that resets them. */
export function alterConfigsCall(
  topic: string,
  configs: Readonly<Record<string, string>>,
): Call<{ code: number; message: string | null }[]> {
  const entries = Object.entries(configs);
  const writer = new WireWriter().int32(1).int8(2).string(topic).int32(entries.length);
  for (const [name, value] of entries) writer.string(name).int8(0).string(value);
  writer.int8(0);
  return {
    name: 'IncrementalAlterConfigs',
    apiKey: 44,
    apiVersion: 0,
    throttleAt: 'start',
    body: [writer.take()],
    decode(payload) {
      const reader = new WireReader(payload);
      reader.int32();
      return reader.array(() => {
        const answer = { code: reader.int16(), message: reader.string() };
        reader.int8();
        reader.string();
        return answer;
      });
    },
  };
}
