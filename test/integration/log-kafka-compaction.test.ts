import assert from 'node:assert/strict';
import { it } from 'node:test';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { LogRecord, NewRecord, PartitionRef, TopicSpec } from '../../src/log/log.js';
import { freshPrefix, needsKafkaHome, startKafka } from '../support/kafka.js';
import { until } from '../support/service.js';

const spec: TopicSpec = { topic: 'statefold.acme.events', partitions: 1, cleanup: { policy: 'tombstones' } };
const latest: TopicSpec = { topic: 'statefold.cursors', partitions: 1, cleanup: { policy: 'latest' } };
const ref: PartitionRef = { topic: spec.topic, partition: 0 };
const ALL = 8 * 1024 * 1024;

const record = (key: string, value: string | null): NewRecord => ({
  key: Buffer.from(key),
  value: value === null ? null : Buffer.from(value),
});
const line = ({ offset, key, value }: LogRecord): string =>
  `${offset} ${key.toString()}=${value?.toString() ?? 'null'}`;

async function readAll(log: KafkaLog, of: PartitionRef, maxBytes: number): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for (;;) {
    const records = (await log.read(of, (out.at(-1)?.offset ?? -1) + 1, maxBytes)).records;
    if (records.length === 0) return out;
    out.push(...records);
  }
}

it(
  "compaction takes what was tombstoned and nothing else, and reads pass over its gaps, after the broker's restart too",
  { skip: needsKafkaHome, timeout: 180_000 },
  async (t) => {
    const cluster = await startKafka({
      properties: { 'log.cleaner.backoff.ms': 100, 'log.initial.task.delay.ms': 100 },
    });
    t.after(() => cluster.close());
    // As in production, but at once: the cleaner acts when the oldest record that it may take is a second old.
    const topicConfigOverrides = {
      'min.compaction.lag.ms': '0',
      'max.compaction.lag.ms': '1000',
      'segment.ms': '200',
      'delete.retention.ms': '0',
      'file.delete.delay.ms': '100',
    };
    const options = { brokers: cluster.brokers, prefix: freshPrefix(), topicConfigOverrides };
    let log = new KafkaLog(options);
    t.after(() => log.close());
    await log.ensureTopics([spec]);

    // Batches of many and of one; of some all records are erased, so that they vanish whole.
    const written = new Map<number, string>();
    const append = async (records: NewRecord[]): Promise<void> => {
      const { baseOffset } = await log.append(ref, records);
      records.forEach(({ key, value }, i) =>
        written.set(baseOffset + i, `${baseOffset + i} ${key.toString()}=${value?.toString() ?? 'null'}`),
      );
    };
    const erased = new Set<number>();
    for (let batch = 0; batch < 12; batch++)
      await append(Array.from({ length: 10 }, (_, i) => record(`${batch * 10 + i}`, `value ${batch * 10 + i}`)));
    for (let i = 120; i < 140; i++) await append([record(`${i}`, `value ${i}`)]);
    for (let i = 0; i < 140; i++) if ((i >= 20 && i < 50) || i % 7 === 3 || (i >= 125 && i < 135)) erased.add(i);
    await append([...erased].map((i) => record(`${i}`, null)));
    const tombstones = { from: 140, to: 140 + erased.size };

    let filler = 0;
    const settled = async (): Promise<boolean> => {
      // A record after its time rolls the segment: an idle partition's last one is never cleaned.
      await append([record(`filler ${filler++}`, 'f')]);
      const left = await readAll(log, ref, ALL);
      return (
        !left.some(({ offset }) => erased.has(offset)) &&
        !left.some(({ offset, value }) => offset < tombstones.to && value === null)
      );
    };
    await until(settled, 90_000);

    const check = async (): Promise<void> => {
      const expected = [...written]
        .filter(([offset]) => !erased.has(offset) && (offset < tombstones.from || offset >= tombstones.to))
        .map(([, text]) => text);
      for (const maxBytes of [1, 700, ALL])
        assert.deepEqual((await readAll(log, ref, maxBytes)).map(line), expected, `${maxBytes} bytes at a time`);
      for (const [from, first] of [
        [19, 19],
        [20, 50],
        [33, 50],
        [49, 50],
        [125, 135],
        [140, tombstones.to],
        [3, 4],
      ] as const) {
        assert.equal((await log.read(ref, from, ALL)).records[0]?.offset, first, `from ${from}`);
        assert.equal((await log.read(ref, from, 1, 30_000)).records[0]?.offset, first, `from ${from}, waiting`);
      }
      assert.deepEqual(
        (
          await log.readAt(
            ref,
            Array.from({ length: 140 }, (_, i) => i),
          )
        ).records.map(line),
        expected.slice(0, 140 - erased.size),
      );
      assert.deepEqual(
        (await log.readAt(ref, [3, 19, 20, 35, 50, 128, 136])).records.map(({ offset }) => offset),
        [19, 50, 136].filter((offset) => !erased.has(offset)),
      );
      assert.equal(await log.endOffset(ref), written.size, 'no offset moved');
      assert.equal(await log.startOffset(ref), 0);
    };
    await check();

    const [node] = cluster.nodes;
    await log.close();
    await node?.stop();
    await node?.start();
    log = new KafkaLog(options);
    await check();
    await append([record('after', 'x')]);
    await check();

    // Where the last of each key stays.
    await log.ensureTopics([latest]);
    const of = { topic: latest.topic, partition: 0 };
    for (let i = 0; i < 30; i++) await log.append(of, [record(`k${i % 3}`, `${i}`)]);
    let rolls = 0;
    await until(async () => {
      await log.append(of, [record(`roll ${rolls++}`, 'r')]);
      return (await readAll(log, of, ALL)).filter(({ offset }) => offset < 30).length === 3;
    }, 60_000);
    assert.deepEqual((await readAll(log, of, ALL)).slice(0, 3).map(line), ['27 k0=27', '28 k1=28', '29 k2=29']);
  },
);
