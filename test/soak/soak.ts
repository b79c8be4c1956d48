// Real processes under a steady load with bursts for minutes or hours: many tenants and aggregates, and one tenant with many
// projections. At the end memory must have stayed flat, the event loop free, every lag must be gone, and the checker must find
// all that was acknowledged. Settings: `SOAK_…` below. How little must leak of each append to be seen is a matter of how many there are:
// what is held, its garbage collected, may grow by 4 MiB, which 1 KB of every 100 appends is after 400,000 of them, under two hours at the
// usual rate; in the second half of the usual four minutes it is 700 bytes of each. `SOAK_LEAK=1000` has so much of each leak: the soak fails.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import { brokersOfThisRun } from '../bench/brokers.js';
import { median, quantile } from '../bench/load.js';
import {
  check,
  type FollowedProjection,
  type ListedEvent,
  type Notification,
  type StateAnswer,
} from '../support/checker.js';
import { readLog } from '../support/checker-log.js';
import { LANES, reducerOf, type Chain } from '../support/checker-model.js';
import { heldBy, liveBytesOf } from '../support/held.js';
import { MASTER_KEY } from '../support/peers.js';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { notificationOf } from '../support/load-followers.js';
import {
  WATCHED_SERVICE,
  AS_ADMIN,
  API_KEY,
  startService,
  temporaryDirectory,
  until,
  type Service,
} from '../support/service.js';
import type { Held } from '../support/watched-service.js';
import { storedName } from '../support/stored-name.js';
import { SoakLoad } from './soak-load.js';
import { LoadTenant } from './soak-tenant.js';

const setting = (name: string, otherwise: number): number => Number(process.env[`SOAK_${name}`] ?? otherwise);
const MINUTES = setting('MINUTES', 4);
const AGGREGATES = setting('AGGREGATES', 10_000);
const TENANTS = setting('TENANTS', 20);
/** Of the first tenant, which has half of the aggregates and of the appends, and a reducer. */
const PROJECTIONS = setting('PROJECTIONS', 10);
/** Appends a second, and in a burst. */
const RATE = setting('RATE', 50);
const BURST = setting('BURST', 4 * RATE);
const BURST_SECONDS = setting('BURST_SECONDS', 5);
const BURST_EVERY_SECONDS = setting('BURST_EVERY_SECONDS', 30);
const CLIENTS = setting('CLIENTS', 64);
/** Keys of each projection. */
const LANES_COUNT = setting('LANES', 500);
/** Aggregates whose events and states are asked for at the end, of the first tenant. */
const ASKED = setting('ASKED', 500);
/** On Kafka (`KAFKA_HOME`, `KAFKA_BROKERS`) there may be several; the embedded log has one. */
const PROCESSES = setting('PROCESSES', 2);
/** Of the time under load, before memory is looked at. */
const WARM_UP = 0.5;
/** From the end of the warm-up on: how often the load rests, with nothing under way, and what a process holds is looked at. */
const RESTS = 10;
const MIB = 1024 * 1024;
const GOALS = {
  holdMs: setting('HOLD_MS', 50),
  growth: 0.15,
  growthBytes: 48 * MIB,
  liveBytes: 4 * MIB,
  drainMs: 300_000,
};
/**
 * Of each process, unless told the least that it takes: rows, events and changes are kept in memory up to an eighth of it each, so these are full
 * when the warm-up ends, and what they forget at once is no more.
 */
const MEMORY_BUDGET_BYTES = setting('BUDGET_MIB', 16) * MIB;
/** Bytes of each append that the service is to keep for ever, to see that the soak fails. */
const LEAK = setting('LEAK', 0);

interface Sample {
  readonly at: number;
  /** Anonymous memory by process, bytes. */
  readonly memory: ReadonlyMap<string, number>;
  readonly lag: number;
  readonly readStoreBehind: number;
}

/** Of a moment in which nothing is under way, no lag is left, and garbage is collected. */
interface Rest {
  readonly appends: number;
  /** What is in the heap and in buffers, bytes, by service. */
  readonly live: readonly number[];
}

const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const say = (line: string): unknown => process.stdout.write(`${line}\n`);
const admin = AS_ADMIN;

function anonymous(pid: number): number {
  try {
    return Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0; // it has ended
  }
}

/** The service and all that it started, by what they are; those of one kind are added up. */
function memoryOf(services: readonly Service[]): Map<string, number> {
  const memory = new Map<string, number>();
  const add = (name: string, pid: number): unknown => memory.set(name, (memory.get(name) ?? 0) + anonymous(pid));
  const walk = (pid: number): void => {
    for (const child of childrenOf(pid)) {
      const line = commandLineOf(child);
      const kind = /engine-process/.test(line) ? 'engine' : /[Cc]ompiler/.test(line) ? 'compiler' : 'runners';
      add(kind, child);
      walk(child);
    }
  };
  services.forEach(({ pid }, i) => {
    add(`service ${i}`, pid);
    walk(pid);
  });
  return memory;
}

const metricOf = (text: string, name: string): number =>
  text
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);

async function sampleOf(services: readonly Service[]): Promise<Sample> {
  let [lag, readStoreBehind] = [0, 0];
  for (const service of services) {
    const { text } = await service.get('/metrics', admin);
    lag += metricOf(text, 'statefold_projection_lag_commits');
    readStoreBehind += metricOf(text, 'statefold_read_store_behind_tenants');
  }
  return { at: performance.now(), memory: memoryOf(services), lag, readStoreBehind };
}

/** Makes tenants, as many at a time as a client of the admin interface has. */
async function tenantsOf(service: Service): Promise<LoadTenant[]> {
  const others = TENANTS - 1;
  const share = others === 0 ? 0 : Math.floor(AGGREGATES / 2 / others);
  const tenants = [new LoadTenant('default', API_KEY, AGGREGATES - share * others)];
  let next = 0;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (next < others) {
        const tenantId = `soak-${next++}`;
        const made = await service.post('/admin/tenants', { tenantId }, admin);
        if (made.status !== 201) throw new Error(`${tenantId} was not made: ${made.text}`);
        tenants.push(new LoadTenant(tenantId, made.json<{ apiKey: string }>().apiKey, share));
      }
    }),
  );
  return tenants;
}

/** Asked again while the service can not say: a process that was busy may have been taken for gone. @throws Error for any other answer than 200 */
async function answered<T>(service: Service, path: string, key = API_KEY): Promise<T> {
  let answer = await service.get(path, { key });
  await until(
    async () => answer.status !== 503 || (answer = await service.get(path, { key })).status !== 503,
    GOALS.drainMs,
  );
  if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}: ${answer.text}`);
  return answer.json<T>();
}

/** The states of a projection, and all that it told, as a client gets them. */
async function followed(service: Service, projectionId: string): Promise<FollowedProjection> {
  const states = new Map<string, Chain>();
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const page: { states: { key: string; state: Chain }[]; nextCursor?: string } = await answered(
      service,
      `/projections/${projectionId}/states?limit=1000${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    for (const { key, state } of page.states) states.set(key, state);
    cursor = page.nextCursor;
  }
  const polled: Notification[] = [];
  for (;;) {
    const { notifications } = await answered<{ notifications: Record<string, unknown>[] }>(
      service,
      `/projections/${projectionId}/notifications?afterSequence=${polled.at(-1)?.sequence ?? 0}&limit=1000`,
    );
    if (notifications.length === 0) break;
    polled.push(...notifications.map(notificationOf));
  }
  return { projectionId, model: LANES, states, polled, followers: [], deliveries: undefined };
}

interface Asked {
  readonly listed: Map<string, readonly ListedEvent[]>;
  readonly states: Map<string, StateAnswer>;
}

/** Events and states of some aggregates of the tenant, as a client gets them. */
async function asked(service: Service, tenant: LoadTenant, bound: boolean): Promise<Asked> {
  const answer: Asked = { listed: new Map(), states: new Map() };
  const most = Math.min(tenant.aggregates, bound ? ASKED : Math.ceil(ASKED / TENANTS));
  for (let i = 0; i < most; i++) {
    const aggregateId = tenant.aggregateId(Math.floor((i * tenant.aggregates) / most));
    const path = `/events/${aggregateId}?limit=10000`;
    answer.listed.set(aggregateId, (await answered<{ events: ListedEvent[] }>(service, path, tenant.key)).events);
    if (!bound) continue;
    const state = await answered<StateAnswer>(service, `/aggregate-types/ledger/${aggregateId}/state`, tenant.key);
    answer.states.set(aggregateId, state);
  }
  return answer;
}

/**
 * What was held in the middle one of the first rests, and of the last ones. What caches forget at once is soon there again, so one rest
 * alone may be some MiB below those around it; what leaks stays.
 */
function heldOf(rests: readonly Rest[], service: number): { readonly from: number; readonly to: number } {
  const live = rests.map((rest) => rest.live[service] ?? 0);
  const some = Math.ceil(live.length / 3);
  return { from: median(live.slice(0, some)), to: median(live.slice(-some)) };
}

/** What the memory of a process was at the end over what it was after the warm-up. */
function growthOf(samples: readonly Sample[], name: string): { readonly from: number; readonly to: number } {
  const of = samples.map(({ memory }) => memory.get(name) ?? 0);
  const quarter = Math.max(1, Math.floor(of.length / 4));
  return { from: median(of.slice(0, quarter)), to: median(of.slice(-quarter)) };
}

const failures: string[] = [];
function hold(what: string, holds: boolean): void {
  say(`${holds ? 'ok    ' : 'FAILED'} ${what}`);
  if (!holds) failures.push(what);
}

async function run(): Promise<void> {
  const brokers = await brokersOfThisRun(cleanups);
  const prefix = `soak${process.pid}`;
  const env: Readonly<Record<string, string>> =
    brokers === undefined
      ? {}
      : { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: prefix, STATEFOLD_MASTER_KEY: MASTER_KEY };
  const settings = { ...env, MEMORY_BUDGET_BYTES: String(MEMORY_BUDGET_BYTES), WATCHED_LEAK: String(LEAK) };
  const services: Service[] = [];
  const dataDirectory = temporaryDirectory(context);
  for (let i = 0; i < (brokers === undefined ? 1 : PROCESSES); i++)
    services.push(
      await startService(context, {
        readStore: true,
        program: WATCHED_SERVICE,
        env: settings,
        dataDirectory: i === 0 ? dataDirectory : temporaryDirectory(context),
      }),
    );
  const [service] = services;
  if (service === undefined) throw new Error('no process was started');
  say(
    `${services.length} process(es) on ${brokers === undefined ? 'the embedded log' : 'Kafka'}, ${TENANTS} tenants, ${AGGREGATES} aggregates, ${PROJECTIONS} projections of one tenant, ${RATE}/s with bursts of ${BURST}/s, ${MINUTES} minutes`,
  );
  const tenants = await tenantsOf(service);
  const [first] = tenants;
  if (first === undefined) throw new Error('there is no tenant');
  await service.deploy('reducers', reducerOf('ledger'));
  const projectionIds: string[] = [];
  for (let i = 0; i < PROJECTIONS; i++) {
    const [source = ''] = Object.values(LANES.source);
    projectionIds.push(
      await service.deploy('projections', { 'lanes.cs': source.replace('class Lanes', `class Lanes${i}`) }),
    );
  }
  let rate = RATE;
  const load = new SoakLoad({
    urls: services.map(({ url }) => url),
    tenants,
    lanes: LANES_COUNT,
    clients: CLIENTS,
    rate: () => rate,
  });
  const began = performance.now();
  await load.seed((done) => {
    if (done % 100_000 === 0) say(`  ${done} aggregates after ${((performance.now() - began) / 1000).toFixed(0)} s`);
  });
  say(`seeded in ${((performance.now() - began) / 1000).toFixed(0)} s`);
  await drained(services);
  load.takeLatencies();
  for (const one of services) await heldBy(one);

  const samples: Sample[] = [];
  const rests: Rest[] = [];
  const held: Held[][] = services.map(() => []);
  const rest = async (): Promise<void> => {
    rate = 0;
    await until(() => load.isIdle, GOALS.drainMs);
    for (const [i, one] of services.entries()) held[i]?.push(await heldBy(one));
    await drained(services);
    const live: number[] = [];
    for (const one of services) {
      live.push(await liveBytesOf(one));
      // So long a turn of the event loop is not the service's own.
      await heldBy(one);
    }
    rests.push({ appends: load.appends, live });
    say(
      `  at rest after ${load.appends} appends: ${live.map((bytes) => (bytes / MIB).toFixed(2)).join(' and ')} MiB are held`,
    );
  };
  const running = load.run();
  let started = performance.now();
  let told = started;
  const restAt = (i: number): number => MINUTES * 60_000 * (WARM_UP + ((1 - WARM_UP) * i) / (RESTS - 1));
  while (rests.length < RESTS) {
    if (performance.now() - started >= restAt(rests.length)) {
      const from = performance.now();
      await rest();
      started += performance.now() - from;
      continue;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const second = ((performance.now() - started) / 1000) % BURST_EVERY_SECONDS;
    rate = second > BURST_EVERY_SECONDS - BURST_SECONDS ? BURST : RATE;
    const sample = await sampleOf(services);
    samples.push(sample);
    if (sample.at - told < 10_000) continue;
    told = sample.at;
    const memory = [...sample.memory].map(([name, bytes]) => `${name} ${Math.round(bytes / MIB)}`).join(', ');
    const latencies = load.takeLatencies();
    say(
      `  ${((sample.at - started) / 1000).toFixed(0)} s: lag ${sample.lag}, MiB: ${memory}; p50 ${quantile(latencies, 0.5).toFixed(1)} p99 ${quantile(latencies, 0.99).toFixed(0)} ms; ${[...load.answers].map(([status, count]) => `${count} x ${status}`).join(', ')}`,
    );
  }
  await load.stop();
  await running;
  const drain = performance.now();
  const drainedInTime = await drained(services).then(
    () => true,
    () => false,
  );
  say(
    `drained after ${((performance.now() - drain) / 1000).toFixed(1)} s; at most ${load.overdue} appends waited for a client`,
  );
  for (const one of services) say(await longestOf(one));

  const projections = await Promise.all(projectionIds.slice(0, 1).map((id) => followed(service, id)));
  const answers = new Map<LoadTenant, Asked>();
  for (const tenant of tenants) answers.set(tenant, await asked(service, tenant, tenant === first));
  const stored = await storedName(service);
  for (const one of services) await one.stop();

  const settled = samples.slice(Math.floor(samples.length * WARM_UP));
  for (const name of settled.at(-1)?.memory.keys() ?? []) {
    // Compiled code ends its processes when it is idle; the compiler has nothing to do by then.
    if (name === 'compiler') continue;
    const { from, to } = growthOf(settled, name);
    hold(
      `memory of ${name} is flat after the warm-up: ${Math.round(from / MIB)} MiB, then ${Math.round(to / MIB)} MiB`,
      to <= from * (1 + GOALS.growth) + GOALS.growthBytes,
    );
  }
  const appendsBetween = (rests.at(-1)?.appends ?? 0) - (rests[0]?.appends ?? 0);
  services.forEach((_, i) => {
    const { from, to } = heldOf(rests, i);
    hold(
      `what service ${i} holds is flat after the warm-up, over ${appendsBetween} appends: ${(from / MIB).toFixed(2)} MiB, then ${(to / MIB).toFixed(2)} MiB`,
      to <= from + GOALS.liveBytes,
    );
  });
  held.forEach((between, i) => {
    const worst = (of: (held: Held) => number): number => Math.max(...between.map(of));
    const p999 = worst((one) => one.p999);
    hold(
      `the event loop of service ${i} is free: p99.9 ${p999} ms of processor time a turn, between two rests at most (p50 ${worst((one) => one.p50)}, p99 ${worst((one) => one.p99)}, longest ${worst((one) => one.max)})`,
      p999 < GOALS.holdMs,
    );
  });
  hold('lag of projections and of the read store is back to 0', drainedInTime);
  const unexpected = [...load.answers].filter(([status]) => !['201', '409', '429', '503'].includes(status));
  hold(
    `no answer but 201, 409, and refusals for now: ${unexpected.map(([s, n]) => `${n} x ${s}`).join(', ')}`,
    unexpected.length === 0,
  );
  for (const loss of load.losses) say(`       lost: ${loss}`);
  let acknowledged = 0;
  for (const tenant of tenants) {
    const name = tenant === first ? stored : tenant.tenantId;
    const log = await readLog(openLog(), name);
    const findings = check({
      history: tenant.history.operations,
      log,
      listed: answers.get(tenant)?.listed ?? new Map(),
      sampled: true,
      states: answers.get(tenant)?.states ?? new Map(),
      boundSince: new Map(),
      projections: tenant === first ? projections : [],
    });
    acknowledged += tenant.history.acknowledged;
    for (const finding of findings) hold(`${tenant.tenantId}: ${finding}`, false);
  }
  hold(`${acknowledged} acknowledged appends are in the log, once, in order`, acknowledged >= AGGREGATES);

  function openLog(): Log {
    return brokers === undefined
      ? new LmdbLog({ path: join(dataDirectory, 'log') })
      : new KafkaLog({ brokers: [...brokers], prefix });
  }
}

/** @throws Error when lag is left after the time for it */
function drained(services: readonly Service[]): Promise<void> {
  return until(async () => {
    const { lag, readStoreBehind } = await sampleOf(services);
    return lag === 0 && readStoreBehind === 0;
  }, GOALS.drainMs);
}

async function longestOf(service: Service): Promise<string> {
  const { text } = await service.get('/metrics', admin);
  const of = (name: string): string =>
    [...text.matchAll(new RegExp(`^${name}\\{work="(\\w+)"\\} (\\S+)`, 'gm'))]
      .filter(([, , value]) => Number(value) > 0)
      .map(
        ([, kind, value]) => `${kind} ${name.endsWith('seconds') ? `${(Number(value) * 1000).toFixed(0)} ms` : value}`,
      )
      .join(', ');
  return `longest slices of the last minutes: ${of('statefold_event_loop_longest_hold_seconds')}; past 50 ms: ${of('statefold_event_loop_long_holds_total') || 'none'}`;
}

async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)));

try {
  await run();
} finally {
  await cleanUp();
}
say(failures.length === 0 ? 'the soak holds' : `${failures.length} of what a soak must hold failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
