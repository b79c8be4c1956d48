// The service on Kafka, each figure beside its yardstick in the same run: bare express, and kafkajs alone with the same bytes.
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { eventsTopic, tenantTopics } from '../../src/log/topics.js';
import { API_KEY, startService, until, type Service } from '../support/service.js';
import { brokersOfThisRun } from './brokers.js';
import {
  benchTenant,
  BATCH_OF_100,
  median,
  PLAIN_SINGLE,
  report,
  runLoad,
  startExpress,
  startPlainService,
  type Load,
  type LoadResult,
} from './load.js';
import { lag as lagThrough, pushLag } from './push-lag.js';
import { commitRecord, latencies, RawKafka, type Latencies } from './raw-kafka.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 1_000_000);
/** Set it to see what Kafka and kafkajs do here without the service. */
const WITH_SERVICE = process.env['BENCH_YARDSTICKS'] === undefined;
const PACE = 200;
const CLIENTS = 64;
const BATCH_CLIENTS = 32;
const TENANTS = 100;
const AGGREGATES = 10_000;
const CATCH_UP_MS = 600_000;
const PREFIX = `bench${process.pid}`;
/** Of the topics whose tenant has a history before its service starts. */
const HISTORY = `${PREFIX}h`;
const COUNTER = `public record Counter(long Total);
public class CounterReducer : IReducer<Counter>
{
    public Counter? Apply(Counter? s, Event e) => new((s?.Total ?? 0) + e.Data.GetProperty("amount").GetInt64());
}`;

const cleanups: (() => Promise<unknown> | void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const rate = (n: number): string => `${Math.round(n).toLocaleString('en')}/s`;
const times = ({ p50, p99 }: Latencies): string => `${p50.toFixed(2)} / ${p99.toFixed(2)} ms`;
const middle = (all: readonly Latencies[]): Latencies => ({
  p50: median(all.map(({ p50 }) => p50)),
  p99: median(all.map(({ p99 }) => p99)),
});
const record = (body: readonly string[]): Buffer =>
  commitRecord(body.join('').replaceAll('$AGGREGATE', '500').replaceAll('$I', '1000')).value;

/** Appends at 200/s, and as many as go. */
async function appends(service: Service, raw: RawKafka): Promise<void> {
  const express = await startExpress();
  const topic = await raw.topic();
  const load: Load = {
    port: Number(new URL(service.url).port),
    path: '/events',
    keys: [API_KEY],
    bodies: PLAIN_SINGLE,
    aggregates: 1000,
    clients: CLIENTS,
    durationMs: SECONDS * 1000,
    first: 0,
  };
  let first = 0;
  const ours = async (more: Partial<Load> = {}): Promise<LoadResult> => {
    const result = await runLoad({ ...load, first, ...more });
    first = result.next;
    return result;
  };
  const theirs = (more: Partial<Load> = {}): Promise<LoadResult> => runLoad({ ...load, port: express.port, ...more });
  const send = (): Promise<Latencies> => raw.sendPaced(topic, record(PLAIN_SINGLE), PACE, SECONDS * 1000);
  await ours();
  await theirs();
  await send();

  const paced: [LoadResult, LoadResult, Latencies][] = [];
  for (let i = 0; i < ROUNDS; i++)
    paced.push([await ours({ perSecond: PACE }), await theirs({ perSecond: PACE }), await send()]);
  const [a, b, c] = [middle(paced.map(([x]) => x)), middle(paced.map(([, x]) => x)), middle(paced.map(([, , x]) => x))];
  const yardstick = `express ${times(b)} + raw send ${times(c)}`;
  report(
    `single appends at ${PACE}/s, p50`,
    times(a),
    yardstick,
    median(paced.map(([x, y, z]) => x.p50 / (y.p50 + z.p50))),
    'goal 1.2 or less',
  );
  report('  p99', '', '', median(paced.map(([x, y, z]) => x.p99 / (y.p99 + z.p99))), 'goal 1.5 or less');

  const pairs: [LoadResult, LoadResult][] = [];
  for (let i = 0; i < ROUNDS; i++) pairs.push([await ours(), await theirs()]);
  report(
    `single appends, ${CLIENTS} clients`,
    rate(median(pairs.map(([x]) => x.perSecond))),
    `bare express ${rate(median(pairs.map(([, y]) => y.perSecond)))}`,
    median(pairs.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.50',
  );
  report('  p50 / p99', times(middle(pairs.map(([x]) => x))), `express ${times(middle(pairs.map(([, y]) => y)))}`);
  await tenants(service, raw, ours);
  express.stop();
}

async function tenants(
  service: Service,
  raw: RawKafka,
  ours: (more: Partial<Load>) => Promise<LoadResult>,
): Promise<void> {
  const keys = [API_KEY];
  for (let i = 1; i < TENANTS; i++) keys.push(await benchTenant(service, i));
  // Each is opened before it counts.
  await ours({ keys, durationMs: 10_000 });
  const pairs: [LoadResult, LoadResult][] = [];
  for (let i = 0; i < ROUNDS; i++) pairs.push([await ours({ keys }), await ours({})]);
  const topics = await raw.newTopics(TENANTS);
  const value = record(PLAIN_SINGLE);
  const sends: [number, number][] = [];
  for (let i = 0; i <= ROUNDS; i++)
    sends.push([
      await raw.sendSingles(topics, value, CLIENTS, SECONDS * 1000),
      await raw.sendSingles(topics.slice(0, 1), value, CLIENTS, SECONDS * 1000),
    ]);
  // The first one is warm-up.
  const [many, one] = [median(sends.slice(1).map(([x]) => x)), median(sends.slice(1).map(([, y]) => y))];
  report(
    `raw kafkajs sends to ${TENANTS} topics, ${CLIENTS} at a time`,
    rate(many),
    `to 1 topic ${rate(one)}`,
    many / one,
  );
  report(
    `  over ${TENANTS} tenants`,
    rate(median(pairs.map(([x]) => x.perSecond))),
    `1 tenant ${rate(median(pairs.map(([, y]) => y.perSecond)))}`,
    median(pairs.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.90',
  );
}

async function batches(service: Service, raw: RawKafka, brokers: readonly string[]): Promise<void> {
  const load: Load = {
    port: Number(new URL(service.url).port),
    path: '/events/batch',
    keys: [API_KEY],
    bodies: BATCH_OF_100,
    aggregates: 1000,
    clients: BATCH_CLIENTS,
    durationMs: SECONDS * 1000,
    first: 0,
  };
  const topic = await raw.topic();
  const send = (): Promise<number> => raw.sendBatches(topic, record(BATCH_OF_100), BATCH_CLIENTS, SECONDS * 1000);
  // A producer sends bytes that it has ready; whoever takes them over HTTP has to read them first.
  const express = await startExpress();
  const parse = async (): Promise<number> =>
    (await runLoad({ ...load, port: express.port, path: '/events' })).perSecond;
  const plain = await startPlainService(await raw.topic(), brokers);
  const naive = async (): Promise<number> => (await runLoad({ ...load, port: plain.port })).perSecond;
  await runLoad(load);
  await send();
  await parse();
  await naive();
  const rounds: [number, number, number, number][] = [];
  for (let i = 0; i < ROUNDS; i++)
    rounds.push([
      (await runLoad(load)).perSecond * 100,
      (await send()) * 100,
      (await parse()) * 100,
      (await naive()) * 100,
    ]);
  const ours = rate(median(rounds.map(([x]) => x)));
  report(
    `batches of 100, ${BATCH_CLIENTS} clients, events`,
    ours,
    `raw kafkajs, same bytes ${rate(median(rounds.map(([, y]) => y)))}`,
    median(rounds.map(([x, y]) => x / y)),
    'goal 0.80',
  );
  report(
    '',
    ours,
    `bare express, same bodies ${rate(median(rounds.map(([, , z]) => z)))}`,
    median(rounds.map(([x, , z]) => x / z)),
  );
  report(
    '',
    ours,
    `express and kafkajs put together ${rate(median(rounds.map(([, , , n]) => n)))}`,
    median(rounds.map(([x, , , n]) => x / n)),
  );
  express.stop();
  plain.stop();
}

async function lag(service: Service, raw: RawKafka, brokers: readonly string[]): Promise<void> {
  const value = record(PLAIN_SINGLE);
  const once = await raw.lag([await raw.topic()], value, 300);
  // An event is durable before it is folded, and its change before it is pushed: two produces, one after the other.
  const twice = await raw.lag([await raw.topic(), await raw.topic()], value, 300);
  const plain = await startPlainService(await raw.topic(), brokers);
  const naive = latencies(await lagThrough(plain.port, '/'));
  plain.stop();
  const ours = latencies(await pushLag(service));
  report(
    'append to WebSocket push, p50 / p99',
    times(ours),
    `raw produce to consume ${times(once)}`,
    ours.p50 / once.p50,
    'goal 1.2 or less',
  );
  report('', times(ours), `to consume, produce, consume ${times(twice)}`, ours.p50 / twice.p50);
  report('', times(ours), `express, kafkajs and ws, no fold ${times(naive)}`, ours.p50 / naive.p50);
}

/** What kafkajs alone does, without the service. */
async function yardsticks(raw: RawKafka): Promise<void> {
  const single = record(PLAIN_SINGLE);
  const batch = record(BATCH_OF_100);
  const topic = await raw.topic();
  await raw.sendPaced(topic, single, PACE, 1000);
  report(
    `raw kafkajs send at ${PACE}/s, p50 / p99`,
    times(await raw.sendPaced(topic, single, PACE, SECONDS * 1000)),
    `acks=all, ${single.length} bytes`,
  );
  const large = await raw.topic();
  await raw.sendBatches(large, batch, BATCH_CLIENTS, 1000);
  const sent = await raw.sendBatches(large, batch, BATCH_CLIENTS, SECONDS * 1000);
  report(
    'raw kafkajs batches of 100, events',
    rate(sent * 100),
    `${BATCH_CLIENTS} records of ${batch.length} bytes a send`,
  );
  report(
    'raw kafkajs produce to consume, p50 / p99',
    times(await raw.lag([await raw.topic()], single, 300)),
    'one at a time',
  );
}

/** A service that finds a tenant with a long history, of commits of one event each, and no local store: first it opens the tenant, then a new reducer catches up. */
async function catchUp(brokers: readonly string[]): Promise<void> {
  const raw = await RawKafka.connect(brokers, HISTORY);
  cleanups.push(() => raw.close());
  const log = new KafkaLog({ brokers, prefix: HISTORY });
  await log.ensureTopics(tenantTopics('default', 7 * 24 * 3600 * 1000));
  await log.close();
  const topic = eventsTopic('default').replace('statefold', HISTORY);
  await raw.fill(topic, EVENTS, AGGREGATES);
  const counts: number[] = [];
  for (let i = 0; i < ROUNDS; i++) counts.push(await raw.count(topic, EVENTS + 1));
  const counting = median(counts);
  const shown = EVENTS.toLocaleString('en');
  report(`raw kafkajs consumer counting ${shown} events`, rate(counting), 'commits of one event');
  if (!WITH_SERVICE) return;

  const service = await onKafka(brokers, raw, HISTORY);
  let started = performance.now();
  await until(
    async () =>
      (await service.get(`/events/counter-1?fromVersion=${Math.floor(EVENTS / AGGREGATES)}`)).json<{
        events?: unknown[];
      }>().events?.length === 1,
    CATCH_UP_MS,
  );
  const opened = EVENTS / ((performance.now() - started) / 1000);
  report(
    `catch-up of a task with ${shown} events`,
    rate(opened),
    `raw consumer counting them ${rate(counting)}`,
    opened / counting,
    'goal 0.70',
  );
  await service.deploy('reducers', { 'Counter.cs': COUNTER });
  started = performance.now();
  await until(
    async () =>
      (await service.get('/aggregate-types/counter')).json<{ catchUp?: { status: string } }>().catchUp?.status ===
      'done',
    CATCH_UP_MS,
  );
  const folded = EVENTS / ((performance.now() - started) / 1000);
  report('  and of a new reducer', rate(folded), `raw consumer counting them ${rate(counting)}`, folded / counting);
  await service.stop();
}

async function onKafka(brokers: readonly string[], raw: RawKafka, prefix: string): Promise<Service> {
  const service = await startService(context, {
    readStore: true,
    env: { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: prefix },
  });
  if (!(await raw.topics()).includes(`${prefix}.catalog`))
    throw new Error('the service does not keep its log in Kafka');
  return service;
}

async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
// A broker would outlive the run.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)));

try {
  const brokers = await brokersOfThisRun(cleanups);
  if (brokers === undefined)
    process.stdout.write('not run: neither KAFKA_HOME (a Kafka release) nor KAFKA_BROKERS (one that runs) is set\n');
  else {
    const raw = await RawKafka.connect(brokers, PREFIX);
    cleanups.push(() => raw.close());
    await yardsticks(raw);
    if (WITH_SERVICE) {
      const service = await onKafka(brokers, raw, PREFIX);
      // Before the loads, whose millions of events the read store is long busy with.
      await lag(service, raw, brokers);
      await appends(service, raw);
      await batches(service, raw, brokers);
      await service.stop();
    }
    await catchUp(brokers);
  }
} finally {
  await cleanUp();
}
