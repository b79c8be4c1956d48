// What a calm tenant notices of another one that floods the service with one kind of request: the p99 of its appends beside the
// flood over the p99 alone, in turn, the medians of several rounds. On a machine with few processors, or a disk that stands still now and
// then, much of that is the machine's doing: the yardstick is a bare express in a process of its own, asked at the same time. On the
// embedded log it forces what it is asked to a file; on Kafka, when there is one, it sends it to a topic of its own, since a broker that
// is busy with a flood is part of the machine.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processorMsOf } from '../../src/jail/process-usage.js';
import { API_KEY, sample, startService, type Service } from '../support/service.js';
import { zipOf } from '../support/zip.js';
import { brokersOfThisRun } from './brokers.js';
import { childrenOf } from '../support/load-world.js';
import { startFlood, type FloodRequest } from './flood.js';
import {
  BATCH_OF_100,
  benchTenant,
  median,
  PLAIN_SINGLE,
  quantile,
  report,
  startExpress,
  startLoadGenerator,
  startPlainService,
  type Load,
  type Yardstick,
} from './load.js';
import { RawKafka } from './raw-kafka.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 8);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);
/** For a shorter run: `BENCH_KINDS=small,rebuild`, parts of the names of floods; `BENCH_LOGS=Kafka`, or embedded. */
const isWanted = (setting: string, name: string): boolean =>
  process.env[setting]?.split(',').some((part) => name.includes(part)) !== false;
const PER_SECOND = 200;
/** Of the yardstick: it is to tell how the machine is, and take little of it. */
const PLAIN_PER_SECOND = 50;
const CALM = `public record Counter(long Total);
public class CounterReducer : IReducer<Counter>
{
    public Counter? Apply(Counter? s, Event e) => new((s?.Total ?? 0) + e.Data.GetProperty("amount").GetInt64());
}`;

const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

/** Nineteen megabytes that are some hundred kilobytes as they are sent. */
const COMMENTS = Array.from({ length: 190_000 }, (_, i) => `// ${String(i).padEnd(96, 'x')}\n`).join('');

async function uploadOf(
  sources: Readonly<Record<string, string | Buffer>>,
): Promise<Pick<FloodRequest, 'headers' | 'body'>> {
  const form = new FormData();
  for (const [name, text] of Object.entries(sources))
    form.append('file', new Blob([Uint8Array.from(Buffer.from(text))]), name);
  const encoded = new Response(form);
  return {
    headers: { 'content-type': encoded.headers.get('content-type') ?? '' },
    body: Buffer.from(await encoded.arrayBuffer()).toString('base64'),
  };
}

/** The loud tenant's aggregates that a rebuild of its states goes over. */
const REBUILT = { name: 'the rebuild of 100,000 states', type: 'rebuilt', aggregates: 100_000 };
const rebuilt = (times: number): string =>
  CALM.replace('CounterReducer', 'RebuiltReducer').replace('.GetInt64()', `.GetInt64() * ${times}`);

const numbered = (body: string): string => body.replaceAll('$AGGREGATE', '$I');
const JSON_TYPE = { 'content-type': 'application/json' };

interface Kind {
  readonly name: string;
  readonly clients: number;
  /** Thrown until it is ended; without one there is only what was done before. */
  readonly request?: FloodRequest;
  /** Done before each measure: it has an end of its own. */
  readonly before?: () => Promise<void>;
}

/** History of the loud tenant of which all states are behind at once, each time that it uploads another reducer. */
async function rebuilds(service: Service, key: string): Promise<Kind> {
  const lines = Array.from({ length: REBUILT.aggregates }, (_, i) =>
    JSON.stringify({
      aggregateType: REBUILT.type,
      aggregateId: `rebuilt-${i}`,
      eventType: 'Added',
      data: { amount: 1 },
    }),
  );
  for (let at = 0; at < lines.length; at += 5000) {
    const loaded = await fetch(`${service.url}/events/bulk`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/x-ndjson' },
      body: `${lines.slice(at, at + 5000).join('\n')}\n`,
    });
    if (!loaded.ok) throw new Error(await loaded.text());
    await loaded.text();
  }
  let times = 1;
  return {
    name: REBUILT.name,
    clients: 0,
    before: async () => {
      const form = new FormData();
      form.append('file', new Blob([rebuilt(++times)]), 'Rebuilt.cs');
      const uploaded = await service.request('POST', '/reducers/upload?waitSeconds=30', { raw: form, key });
      if (uploaded.status !== 202 || !uploaded.text.includes('"compiled"')) throw new Error(uploaded.text);
    },
  };
}

async function kindsOf(projectionId: string): Promise<readonly Kind[]> {
  const reducer = await uploadOf({ 'Counter.cs': CALM });
  const large = await uploadOf({ 'code.zip': await zipOf({ 'Counter.cs': CALM, 'Comments.cs': COMMENTS }) });
  const socket = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  const post = (path: string, text: string, type = JSON_TYPE): FloodRequest => ({
    method: 'POST',
    path,
    headers: type,
    text,
  });
  const lines = numbered(PLAIN_SINGLE.join('')) + '\n';
  return [
    { name: 'small appends', clients: 64, request: post('/events', numbered(PLAIN_SINGLE.join(''))) },
    { name: 'batches of 100', clients: 32, request: post('/events/batch', numbered(BATCH_OF_100.join(''))) },
    {
      name: 'bulk, 1,000 lines a request',
      clients: 8,
      request: post('/events/bulk', lines.repeat(1000), { 'content-type': 'application/x-ndjson' }),
    },
    {
      name: 'polls of 1,000 changes',
      clients: 32,
      request: { method: 'GET', path: `/projections/${projectionId}/notifications?limit=1000`, headers: {} },
    },
    {
      name: 'pages of the feed, 1,000 events',
      clients: 32,
      request: { method: 'GET', path: '/feed?limit=1000', headers: {} },
    },
    {
      name: 'sockets that come and go',
      clients: 64,
      request: { method: 'GET', path: `/projections/${projectionId}/stream`, headers: socket, stays: true },
    },
    {
      name: 'lists of 1,000 aggregates',
      clients: 32,
      request: { method: 'GET', path: '/aggregates?limit=1000', headers: {} },
    },
    { name: 'uploads', clients: 8, request: { method: 'POST', path: '/reducers/upload', ...reducer } },
    {
      name: 'large dry runs (19 MB inflated)',
      clients: 8,
      request: { method: 'POST', path: '/reducers/check', ...large },
    },
    { name: 'dry runs', clients: 8, request: { method: 'POST', path: '/reducers/check', ...reducer } },
    {
      name: 'SQL that computes',
      clients: 8,
      request: post('/sql', JSON.stringify({ query: 'SELECT sum(sipHash64(number)) FROM numbers(100000000)' })),
    },
    { name: 'refusals (no such route)', clients: 64, request: { method: 'GET', path: '/nothing', headers: {} } },
  ];
}

/** What a flood left to be done is done, as far as processors tell: it is not part of how the calm tenant fares alone. Compilers and runners have processes of their own. */
async function idle({ pid }: Service): Promise<void> {
  const usedMs = (of: number): number =>
    childrenOf(of).reduce((sum, child) => sum + usedMs(child), processorMsOf(of) ?? 0);
  for (let before = 0, quiet = 0; quiet < 3;) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const now = usedMs(pid);
    quiet = Math.abs(now - before) < 100 ? quiet + 1 : 0;
    before = now;
  }
}

/** Milliseconds of each answer: the calm tenant's, and at the same time those of the yardstick. */
interface Pair {
  readonly ours: readonly number[];
  readonly plain: readonly number[];
}

interface Round {
  readonly alone: Pair;
  readonly beside: Pair;
}

/** p99 of each, the median of rounds: where the disk stands still for half a second, that round says nothing of the others. */
type Slowest = Readonly<Record<keyof Pair, number>>;

const p99 = (latencies: readonly number[]): number => quantile(latencies, 0.99);
const slowestOf = (pairs: readonly Pair[]): Slowest => ({
  ours: median(pairs.map(({ ours }) => p99(ours))),
  plain: median(pairs.map(({ plain }) => p99(plain))),
});

/** How many times as long the neighbour's slowest hundredth takes beside the flood, over what the machine makes of the yardstick's. */
const ratioOf = (beside: Slowest, alone: Slowest): number =>
  beside.ours / alone.ours / Math.max(1, beside.plain / alone.plain);

/** Where nine of ten such runs would have their ratio, as far as these rounds tell: by rounds drawn from them again and again. */
function intervalOf(pairs: readonly Pair[], alone: Slowest): readonly [number, number] {
  const drawn = Array.from({ length: 200 }, () =>
    ratioOf(slowestOf(pairs.map(() => pairs[Math.floor(Math.random() * pairs.length)] as Pair)), alone),
  );
  return [quantile(drawn, 0.05), quantile(drawn, 0.95)];
}

/** What is asked at the same time, in a process of its own. */
interface Plain {
  readonly name: string;
  readonly process: Yardstick;
  /** What each of its answers has. */
  readonly mustContain: string;
}

const CALM_LOAD = {
  path: '/events',
  keys: [API_KEY],
  bodies: PLAIN_SINGLE,
  aggregates: 100,
  clients: 32,
  perSecond: PER_SECOND,
  durationMs: SECONDS * 1000,
  first: 0,
};

async function beside(where: string, env: Readonly<Record<string, string>>, plainly: Plain): Promise<void> {
  const service: Service = await startService(context, {
    readStore: true,
    env: { ...env, RATE_LIMIT_PER_SECOND: '1000000' },
  });
  const loud = await benchTenant(service, 1);
  await service.deploy('reducers', { 'Counter.cs': CALM });
  const form = new FormData();
  for (const [name, text] of Object.entries(sample('flights'))) form.append('file', new Blob([text]), name);
  const uploaded = await service.request('POST', '/projections/upload?waitSeconds=30', { raw: form, key: loud });
  if (uploaded.status !== 202) throw new Error(uploaded.text);
  const calm: Load = { ...CALM_LOAD, port: Number(new URL(service.url).port), mustContain: '"version":' };
  let first = 0;
  const generator = startLoadGenerator();
  const both = async (): Promise<Pair> => {
    const { port } = plainly.process;
    const [ours, plain] = await generator.runTogether([
      { ...calm, first },
      { ...calm, port, mustContain: plainly.mustContain, perSecond: PLAIN_PER_SECOND, phase: 0.1 },
    ]);
    first = ours.next;
    return { ours: ours.latencies, plain: plain.latencies };
  };
  await both();
  const { projectionId } = uploaded.json<{ projectionId: string }>();
  const rows: { readonly name: string; readonly shown: string; readonly rounds: readonly Round[] }[] = [];
  const kinds = (await kindsOf(projectionId)).filter(({ name }) => isWanted('BENCH_KINDS', name));
  if (isWanted('BENCH_KINDS', REBUILT.name)) kinds.push(await rebuilds(service, loud));
  for (const { name, clients, request, before } of kinds) {
    const flood = request && {
      port: calm.port,
      clients,
      request: { ...request, headers: { ...request.headers, 'x-api-key': loud } },
    };
    const rounds: Round[] = [];
    let shown = '';
    // The first one isn't measured: what a flood asks for hasn't been asked for before, and neither service nor broker have compiled it.
    for (let i = -1; i < ROUNDS; i++) {
      await idle(service);
      const alone = await both();
      const running = flood && (await startFlood(flood));
      await before?.();
      const beside = await both();
      if (i >= 0) rounds.push({ alone, beside });
      if (running === undefined) continue;
      const { perSecond, byStatus } = await running.end();
      const statuses = Object.entries(byStatus).sort(([, a], [, b]) => b - a);
      shown = ` (${Math.round(perSecond).toLocaleString('en')}/s, ${statuses.map(([status]) => status).join(' ')})`;
    }
    rows.push({ name, shown, rounds });
    const shownOf = (of: keyof Pair): string => rounds.map(({ beside: pair }) => p99(pair[of]).toFixed(1)).join(' ');
    console.error(`${where}: beside ${name} p99 in ms ${shownOf('ours')}; ${plainly.name} ${shownOf('plain')}`);
  }
  generator.end();
  await service.stop();
  // Alone it is the same whatever comes next: what three rounds say of it differs by as much as floods do, and some begin behind what another one left.
  const alone = slowestOf(rows.flatMap(({ rounds }) => rounds.map((round) => round.alone)));
  for (const { name, shown, rounds } of rows) {
    const pairs = rounds.map((round) => round.beside);
    const loaded = slowestOf(pairs);
    const [from, to] = intervalOf(pairs, alone);
    report(
      `${where}: p99 beside ${name}`,
      `${loaded.ours.toFixed(1)} ms${shown}`,
      `alone ${alone.ours.toFixed(1)}; ${plainly.name} ${loaded.plain.toFixed(1)}, alone ${alone.plain.toFixed(1)}`,
      ratioOf(loaded, alone),
      `goal 1.5 (${from.toFixed(2)} to ${to.toFixed(2)})`,
    );
  }
  if (isWanted('BENCH_KINDS', 'small appends')) await withoutTurns(where, plainly);
  plainly.process.stop();
}

/** What a service without turns makes of such a flood: the yardstick is flooded itself. */
async function withoutTurns(where: string, { name, process: { port }, mustContain }: Plain): Promise<void> {
  const generator = startLoadGenerator();
  const calm = { ...CALM_LOAD, port, mustContain };
  const text = numbered(PLAIN_SINGLE.join(''));
  const request = { method: 'POST', path: '/events', headers: JSON_TYPE, text };
  const [alone, beside]: [number[], number[]] = [[], []];
  let perSecond = 0;
  // Alone first: behind a flood it may still have to read what it sent.
  for (let i = -1; i < ROUNDS; i++) alone.push(p99((await generator.run(calm)).latencies));
  for (let i = -1; i < ROUNDS; i++) {
    const running = await startFlood({ port, clients: 64, request });
    try {
      beside.push(p99((await generator.run(calm)).latencies));
    } finally {
      ({ perSecond } = await running.end());
    }
  }
  generator.end();
  for (const measured of [alone, beside]) measured.shift();
  const shown = `${median(beside).toFixed(1)} ms (${Math.round(perSecond).toLocaleString('en')}/s)`;
  report(
    `${where}: p99 of ${name} beside small appends to itself`,
    shown,
    `alone ${median(alone).toFixed(1)}`,
    median(beside) / median(alone),
  );
}

try {
  if (isWanted('BENCH_LOGS', 'embedded')) {
    const folder = mkdtempSync(join(tmpdir(), 'statefold-bench-'));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    const writes = await startExpress(join(folder, 'written'));
    await beside('embedded', {}, { name: 'express and a write', process: writes, mustContain: '"version":' });
  }
  const brokers = isWanted('BENCH_LOGS', 'Kafka') ? await brokersOfThisRun(cleanups) : undefined;
  if (brokers !== undefined) {
    const prefix = `neighbours${process.pid}`;
    const raw = await RawKafka.connect(brokers, prefix);
    cleanups.push(() => raw.close());
    const sends = await startPlainService(await raw.topic(), brokers);
    const env = { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: prefix };
    await beside('Kafka', env, { name: 'express and a send', process: sends, mustContain: '"eventIds":' });
  }
} finally {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
