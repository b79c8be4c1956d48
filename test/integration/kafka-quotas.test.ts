// Quotas of a Kafka cluster on its clients: a broker answers at once with nothing, and then reads nothing for a while. It is waited for.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it, type TestContext } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { Throttling } from '../../src/kafka/throttling.js';
import { KafkaLog, type KafkaLogOptions } from '../../src/log/kafka/kafka-log.js';
import { AppendRefusedError, type LogRecord, type PartitionRef, type TopicSpec } from '../../src/log/log.js';
import { freshPrefix, kafkaTool, needsKafkaTools, startKafka } from '../support/kafka.js';
import { MASTER_KEY } from '../support/peers.js';
import { AS_ADMIN, startService, until, type Service } from '../support/service.js';

const spec: TopicSpec = { topic: 'statefold.acme.events', partitions: 1, cleanup: { policy: 'tombstones' } };
const ref: PartitionRef = { topic: spec.topic, partition: 0 };
const skip = needsKafkaTools;

type Quotas = Readonly<Partial<Record<'consumer_byte_rate' | 'producer_byte_rate' | 'request_percentage', number>>>;

/** A broker of this test's own, whose client `statefold` has quotas. */
async function brokerWithQuotas(
  t: Pick<TestContext, 'after'>,
): Promise<{ readonly brokers: readonly string[]; readonly limit: (quotas: Quotas) => Promise<void> }> {
  const cluster = await startKafka();
  t.after(() => cluster.close());
  const { brokers } = cluster;
  const limit = async (quotas: Quotas): Promise<void> => {
    const configs = Object.entries(quotas)
      .map(([name, value]) => `${name}=${value}`)
      .join(',');
    const of = ['--alter', '--entity-type', 'clients', '--entity-name', 'statefold'];
    await kafkaTool(brokers, 'kafka-configs', [...of, '--add-config', configs]);
  };
  return { brokers, limit };
}

/** The log, and what its quotas were told to be. */
function openThrottled(
  t: Pick<TestContext, 'after'>,
  options: KafkaLogOptions,
): { readonly log: KafkaLog; readonly told: object[]; readonly waited: () => number } {
  const told: object[] = [];
  let seconds = 0;
  const throttling = new Throttling(
    { ...silentLogger, warn: (fields) => void told.push(fields) },
    { throttled: (more) => void (seconds += more) },
  );
  const log = new KafkaLog({ ...options, throttling });
  t.after(() => log.close());
  return { log, told, waited: () => seconds };
}

async function readAll(log: KafkaLog, count: number): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for (let from = 0; records.length < count;) {
    const page = await log.read(ref, from, 64 * 1024, 200);
    records.push(...page.records);
    from = (records.at(-1)?.offset ?? -1) + 1;
  }
  return records;
}

it('a quota of bytes read is waited for, and told once', { skip, timeout: 180_000 }, async (t) => {
  const { brokers, limit } = await brokerWithQuotas(t);
  const prefix = freshPrefix();
  const { log, told, waited } = openThrottled(t, { brokers, prefix, requestTimeoutMs: 3000 });
  await log.ensureTopics([spec]);
  for (let i = 0; i < 16; i++) await log.append(ref, [{ key: Buffer.from(`k${i}`), value: Buffer.alloc(50_000, i) }]);
  assert.equal(waited(), 0);
  await limit({ consumer_byte_rate: 60_000 });

  const records = await readAll(log, 16);
  assert.deepEqual(
    records.map(({ offset, value }) => [offset, value?.[0]]),
    Array.from({ length: 16 }, (_, i) => [i, i]),
  );
  assert.ok(waited() > 0, `${waited()} s of quota`);
  assert.equal(told.length, 1);
  const page = await log.readAt(ref, [1, 15]);
  assert.deepEqual(
    page.records.map(({ offset }) => offset),
    [1, 15],
  );
});

it('a quota of bytes written leaves no append without a definite result', { skip, timeout: 180_000 }, async (t) => {
  const { brokers, limit } = await brokerWithQuotas(t);
  const { log, waited } = openThrottled(t, { brokers, prefix: freshPrefix(), requestTimeoutMs: 1500 });
  await log.ensureTopics([spec]);
  await limit({ producer_byte_rate: 10_000 });

  const landed: string[] = [];
  let refused = 0;
  await until(async () => {
    const key = `k${landed.length + refused}`;
    try {
      await log.append(ref, [{ key: Buffer.from(key), value: Buffer.alloc(60_000) }]);
      landed.push(key);
    } catch (error) {
      if (!(error instanceof AppendRefusedError)) throw error;
      refused++;
    }
    return landed.length >= 4 && refused > 0;
  }, 120_000);
  assert.ok(waited() > 1.5, `${waited()} s of quota`);
  assert.deepEqual(
    (await readAll(log, landed.length)).map(({ key }) => key.toString()),
    landed,
  );
  assert.equal(await log.endOffset(ref), landed.length);
});

it(
  'a service under quotas takes appends, and restores its tenants when it starts',
  { skip, timeout: 180_000 },
  async (t) => {
    const { brokers, limit } = await brokerWithQuotas(t);
    const prefix = freshPrefix();
    const start = (): Promise<Service> =>
      startService(t, {
        env: {
          KAFKA_BROKERS: brokers.join(','),
          KAFKA_TOPIC_PREFIX: prefix,
          KAFKA_SESSION_TIMEOUT_MS: '6000',
          STATEFOLD_MASTER_KEY: MASTER_KEY,
        },
      });
    const event = (n: number): object => ({
      aggregateId: `account-${n % 4}`,
      eventType: 'Opened',
      data: { n, note: randomBytes(15_000).toString('hex') },
    });
    const first = await start();
    for (let n = 0; n < 40; n++) assert.equal((await first.post('/events', event(n))).status, 201);
    await limit({ consumer_byte_rate: 50_000, producer_byte_rate: 30_000, request_percentage: 5 });
    await first.kill();

    // With nothing of what the first had folded.
    const second = await start();
    let answered = 0;
    await until(async () => {
      const { status, text } = await second.post('/events', event(answered));
      assert.ok(status === 201 || status === 503, text);
      if (status === 201) answered++;
      return answered === 8;
    }, 120_000);
    const listed = await Promise.all([0, 1, 2, 3].map((n) => second.get(`/events/account-${n}`)));
    assert.deepEqual(
      listed.map((answer) => answer.json<{ events: { version: number }[] }>().events.map(({ version }) => version)),
      [0, 1, 2, 3].map(() => Array.from({ length: 12 }, (_, i) => i + 1)),
    );
    const told = second.output.match(/a quota of Kafka holds this process back/g);
    assert.equal(told?.length, 1, second.output);
    const metrics = (await second.get('/metrics', AS_ADMIN)).text;
    assert.ok(Number(/statefold_log_throttled_seconds_total ([\d.]+)/.exec(metrics)?.[1]) > 0, metrics);
  },
);
