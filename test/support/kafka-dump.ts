import assert from 'node:assert/strict';
import { Kafka, logLevel, type Admin, type ConfigResourceTypes } from 'kafkajs';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { pack, unpack } from './release-fixture.js';
import { until } from './service.js';

/** A topic of a dump, without its prefix, or one record of the topic before. */
type Head =
  | { readonly topic: string; readonly partitions: number; readonly configs: Readonly<Record<string, string>> }
  | {
      readonly partition: number;
      readonly offset: number;
      readonly timestamp: number;
      /** Bytes of the key, which the value follows. */
      readonly key: number;
      readonly isTombstone?: true;
    };

const READ_BYTES = 8 * 1024 * 1024;
const TIMESTAMPS = 'message.timestamp.type';
/** Kafka's number of the kind of resource; the client's own name of it can't be imported from here. */
const TOPIC = 2 as ConfigResourceTypes.TOPIC;
/** ConfigSource of a topic's own configs. */
const OWN = 1;

const clientOf = (brokers: readonly string[]): Kafka =>
  new Kafka({ clientId: 'fixtures', brokers: [...brokers], logLevel: logLevel.NOTHING });

/** All topics under the prefix with their configs, and every record of them as bytes. Nobody writes meanwhile. */
export async function dumpTopics(brokers: readonly string[], prefix: string): Promise<Buffer> {
  const admin = clientOf(brokers).admin();
  await admin.connect();
  const log = new KafkaLog({ brokers, prefix });
  const parts: { head: Head; bytes: Buffer }[] = [];
  try {
    const { topics } = await admin.fetchTopicMetadata();
    for (const { name, partitions } of topics.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!name.startsWith(`${prefix}.`)) continue;
      const topic = name.slice(prefix.length + 1);
      const described = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: TOPIC, name }],
      });
      const configs = Object.fromEntries(
        (described.resources[0]?.configEntries ?? [])
          .filter(({ configSource }) => Number(configSource) === OWN)
          .map(({ configName, configValue }) => [configName, configValue]),
      );
      parts.push({ head: { topic, partitions: partitions.length, configs }, bytes: Buffer.alloc(0) });
      for (let partition = 0; partition < partitions.length; partition++) {
        const ref = { topic: `statefold.${topic}`, partition };
        for (let from = 0, end = await log.endOffset(ref); from < end;) {
          const { records } = await log.read(ref, from, READ_BYTES);
          if (records.length === 0) break;
          for (const { offset, timestamp, key, value } of records)
            parts.push({
              head: { partition, offset, timestamp, key: key.length, ...(value === null && { isTombstone: true }) },
              bytes: Buffer.concat([key, value ?? Buffer.alloc(0)]),
            });
          from = (records.at(-1)?.offset ?? from) + 1;
        }
      }
    }
  } finally {
    await log.close();
    await admin.disconnect();
  }
  return pack(parts);
}

/** Writes the topics of a dump under a prefix of its own: the same records at the same offsets, of the same times. */
export async function loadTopics(brokers: readonly string[], prefix: string, dump: Buffer): Promise<void> {
  const client = clientOf(brokers);
  const admin = client.admin();
  const producer = client.producer();
  await Promise.all([admin.connect(), producer.connect()]);
  try {
    let topic = '';
    const configsOf = new Map<string, Readonly<Record<string, string>>>();
    const records = new Map<string, Map<number, { key: Buffer; value: Buffer | null; timestamp: string }[]>>();
    for (const { head, bytes } of unpack<Head>(dump)) {
      if ('topic' in head) {
        topic = `${prefix}.${head.topic}`;
        configsOf.set(topic, head.configs);
        records.set(topic, new Map());
        // Records keep their own times, which the topic takes from the broker's clock from then on.
        await createTopic(admin, topic, head.partitions, { ...head.configs, [TIMESTAMPS]: 'CreateTime' });
        continue;
      }
      const ofTopic = records.get(topic);
      const list = ofTopic?.get(head.partition) ?? [];
      ofTopic?.set(head.partition, list);
      const timestamp = String(head.timestamp);
      // Where the broker had dropped records there stands a tombstone of nothing.
      while (list.length < head.offset) list.push({ key: Buffer.from(`gap ${list.length}`), value: null, timestamp });
      list.push({
        key: bytes.subarray(0, head.key),
        value: head.isTombstone === true ? null : bytes.subarray(head.key),
        timestamp,
      });
    }
    await until(() =>
      admin.fetchTopicMetadata({ topics: [...records.keys()] }).then(
        ({ topics }) => topics.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0)),
        () => false,
      ),
    );
    for (const [name, partitions] of records)
      for (const [partition, messages] of partitions) {
        const [metadata] = await producer.send({
          topic: name,
          messages: messages.map((message) => ({ ...message, partition })),
        });
        assert.equal(metadata?.baseOffset, '0', `${name}-${partition} was empty`);
      }
    await admin.alterConfigs({
      validateOnly: false,
      resources: [...configsOf].map(([name, configs]) => ({
        type: TOPIC,
        name,
        configEntries: Object.entries(configs).map(([config, value]) => ({ name: config, value })),
      })),
    });
  } finally {
    await Promise.all([admin.disconnect(), producer.disconnect()]);
  }
}

async function createTopic(
  admin: Admin,
  topic: string,
  numPartitions: number,
  configs: Readonly<Record<string, string>>,
): Promise<void> {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  await admin.createTopics({
    waitForLeaders: false,
    topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }],
  });
}
