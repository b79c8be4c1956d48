// What a calm tenant notices of another one that floods the service with one kind of request: the p99 of its appends beside the
// flood over the p99 alone, in turn. On a machine with few processors much of that is the machine's doing: the yardstick is a bare
// express in a process of its own, asked at the same pace beside the same flood of the service. On the embedded log, and on Kafka
// when there is one: there the yardstick sends what it is asked to a topic of its own, since a broker that is busy with a flood is
// part of the machine.
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
  report,
  startExpress,
  startLoadGenerator,
  startPlainService,
  type Load,
  type Yardstick,
} from './load.js';
import { RawKafka } from './raw-kafka.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);
/** For a shorter run: `BENCH_KINDS=small,rebuild`, parts of the names of floods; `BENCH_LOGS=Kafka`, or embedded. */
const isWanted = (setting: string, name: string): boolean =>
  process.env[setting]?.split(',').some((part) => name.includes(part)) !== false;
const PER_SECOND = 200;
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

/** p99 in milliseconds: of the calm tenant, and of the yardstick at the same pace, alone and beside the flood. */
interface Round {
  readonly alone: number;
  readonly beside: number;
  readonly plain: number;
  readonly under: number;
}

/** What is asked at the same pace, in a process of its own. */
interface Plain {
  readonly name: string;
  readonly process: Yardstick;
  /** What each of its answers has. */
  readonly mustContain: string;
}

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
  const calm: Load = {
    port: Number(new URL(service.url).port),
    path: '/events',
    keys: [API_KEY],
    bodies: PLAIN_SINGLE,
    aggregates: 100,
    clients: 32,
    perSecond: PER_SECOND,
    durationMs: SECONDS * 1000,
    first: 0,
    mustContain: '"version":',
  };
  let first = 0;
  const generator = startLoadGenerator();
  const ours = async (): Promise<number> => {
    const result = await generator.run({ ...calm, first });
    first = result.next;
    return result.p99;
  };
  const machine = async (): Promise<number> =>
    (await generator.run({ ...calm, port: plainly.process.port, mustContain: plainly.mustContain })).p99;
  await ours();
  await machine();
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
    for (let i = 0; i < ROUNDS; i++) {
      await idle(service);
      const [alone, plain] = [await ours(), await machine()];
      const running = flood && (await startFlood(flood));
      const besideIt = async (measure: () => Promise<number>): Promise<number> => {
        if (before !== undefined) await idle(service);
        await before?.();
        return measure();
      };
      // What a flood begins with may be worse than what comes then: they have it in turn.
      let [loaded, under] = [0, 0];
      if (i % 2 === 0) [loaded, under] = [await besideIt(ours), await besideIt(machine)];
      else [under, loaded] = [await besideIt(machine), await besideIt(ours)];
      rounds.push({ alone, plain, beside: loaded, under });
      if (running === undefined) continue;
      const { perSecond, byStatus } = await running.end();
      const statuses = Object.entries(byStatus).sort(([, a], [, b]) => b - a);
      shown = ` (${Math.round(perSecond).toLocaleString('en')}/s, ${statuses.map(([status]) => status).join(' ')})`;
    }
    rows.push({ name, shown, rounds });
    const shownOf = (what: keyof Round): string => rounds.map((round) => round[what].toFixed(1)).join(' ');
    console.error(`${where}: beside ${name} p99 in ms ${shownOf('beside')}; ${plainly.name} ${shownOf('under')}`);
  }
  generator.end();
  plainly.process.stop();
  await service.stop();
  // Alone it is the same whatever comes next: what three rounds say of it differs by as much as floods do, and some begin behind what another one left.
  const all = rows.flatMap(({ rounds }) => rounds);
  const [alone, plain] = [median(all.map((round) => round.alone)), median(all.map((round) => round.plain))];
  for (const { name, shown, rounds } of rows) {
    const of = (what: keyof Round): number => median(rounds.map((round) => round[what]));
    const [loaded, under] = [of('beside'), of('under')];
    report(
      `${where}: p99 beside ${name}`,
      `${loaded.toFixed(1)} ms${shown}`,
      `alone ${alone.toFixed(1)} (then ${of('alone').toFixed(1)}); ${plainly.name} ${under.toFixed(1)}, alone ${plain.toFixed(1)}`,
      loaded / alone / Math.max(1, under / plain),
      'goal 1.5',
    );
  }
}

try {
  if (isWanted('BENCH_LOGS', 'embedded'))
    await beside('embedded', {}, { name: 'express', process: await startExpress(), mustContain: '"version":' });
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
