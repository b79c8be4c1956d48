// What a calm tenant notices of another one that reads: each route that a tenant can read, asked by 32 clients at once of a tenant
// that has much to be told of. The p50 and p99 of the calm one's appends, with states, and the longest that the event loop was held.
// The routes are those that the service describes: one whose parameters are not known here is an error.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { API_KEY, startService, type Service } from '../support/service.js';
import { startFlood } from './flood.js';
import { benchTenant, median, report, SINGLE, startLoadGenerator, type Load } from './load.js';

const MS = Number(process.env['BENCH_SECONDS'] ?? 1.5) * 1000;
/** For a shorter run: `BENCH_KINDS=faults,sources`, parts of the paths. */
const isWanted = (path: string): boolean =>
  process.env['BENCH_KINDS']?.split(',').some((part) => path.includes(part)) !== false;
const CLIENTS = 32;
const MANY = 1_000;
const PROJECTIONS = 30;
const WEBHOOKS = 90;

const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

const COUNTER = `public record Counter(long Total);
public class CounterReducer : IReducer<Counter>
{
    public Counter? Apply(Counter? s, Event e) => new((s?.Total ?? 0) + e.Data.GetProperty("amount").GetInt64());
}`;
/** Throws at the second event of an aggregate; with a megabyte of comments. */
const BRITTLE = `${COUNTER.replaceAll('Counter', 'Brittle').replace('e.Data.GetProperty("amount").GetInt64()', 'e.Data.GetProperty("missing").GetInt64()')}
${`// ${'x'.repeat(97)}\n`.repeat(15_000)}`;
const sums = (name: string): string => `public record ${name}State(long Total, string Note, List<string> Names);
public class ${name} : IProjection<${name}State>
{
    public string? ResolveKey(Event e) => e.AggregateId;
    public ${name}State? Apply(${name}State? s, Event e) =>
        e.EventType == "Broke" ? throw new Exception("broke") : new((s?.Total ?? 0) + 1, "a note", []);
}`;

async function upload(service: Service, key: string, kind: string, source: string): Promise<Record<string, string>> {
  const form = new FormData();
  form.append('file', new Blob([source]), 'Code.cs');
  const answer = await service.request('POST', `/${kind}/upload?waitSeconds=30`, { raw: form, key });
  if (answer.status !== 202) throw new Error(answer.text);
  return answer.json<Record<string, string>>();
}

async function append(service: Service, key: string, events: readonly object[]): Promise<void> {
  for (let at = 0; at < events.length; at += 5000) {
    const answer = await fetch(`${service.url}/events/bulk`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/x-ndjson' },
      body: `${events
        .slice(at, at + 5000)
        .map((event) => JSON.stringify(event))
        .join('\n')}\n`,
    });
    const text = await answer.text();
    if (!answer.ok || text.includes('"error"')) throw new Error(text.slice(0, 500));
  }
}

/** A tenant with much to tell of; gives what stands for the parameters of paths. */
async function stock(service: Service, key: string): Promise<(path: string, name: string) => string | undefined> {
  const send = async (method: string, path: string, body: object): Promise<void> => {
    const answer = await service.request(method, path, { key, body });
    if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
  };
  const { reducerId = '' } = await upload(service, key, 'reducers', BRITTLE);
  const { projectionId = '' } = await upload(service, key, 'projections', sums('Sums'));
  for (let i = 1; i < PROJECTIONS; i++) await upload(service, key, 'projections', sums(`Sums${i}`));
  const each = Array.from({ length: MANY }, (_, i) => i);
  const data = { amount: 1, note: 'x'.repeat(100) };
  await append(service, key, [
    ...each.flatMap((i) => [
      { aggregateType: 'brittle', aggregateId: `brittle-${i}`, eventType: 'Added', data },
      { aggregateType: 'brittle', aggregateId: `brittle-${i}`, eventType: 'Broke', data },
    ]),
    ...each.map((i) => ({ aggregateType: `type${i}`, aggregateId: `type${i}-1`, eventType: `Kind${i}`, data })),
    ...Array.from({ length: 5 * MANY }, () => ({
      aggregateType: 'long',
      aggregateId: 'long-1',
      eventType: 'Added',
      data,
    })),
  ]);
  for (const i of each) await send('PUT', `/aggregate-types/type${i}`, { reducerId, className: 'BrittleReducer' });
  const receiver = createServer((request, response) => void request.resume().on('end', () => response.end()));
  cleanups.push(() => receiver.close().closeAllConnections());
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  let endpointId = '';
  for (let i = 0; i < WEBHOOKS; i++) {
    const made = await service.request('POST', '/webhooks/endpoints', {
      key,
      body: { url, source: { projectionId }, description: 'a receiver', ...(i === 0 ? { from: 'start' } : {}) },
    });
    if (made.status !== 201) throw new Error(made.text);
    if (i === 0) ({ endpointId } = made.json<{ endpointId: string }>());
  }
  return (path, name) => {
    if (name === 'id')
      return path.startsWith('/projections/')
        ? projectionId
        : path.startsWith('/reducers/')
          ? reducerId
          : path.startsWith('/webhooks/')
            ? endpointId
            : path.startsWith('/aggregate-types/')
              ? 'brittle-1'
              : undefined;
    return {
      type: path.startsWith('/event-types/') ? 'Added' : 'brittle',
      aggregateId: 'long-1',
      key: 'brittle-1',
      revision: '1',
      messageId: 'none',
    }[name];
  };
}

interface Described {
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: { readonly maximum?: number };
  }[];
  readonly security?: readonly object[];
}

async function readsOf(service: Service, key: string): Promise<readonly string[]> {
  const valueOf = await stock(service, key);
  const { paths } = (await service.request('GET', '/openapi.json', {})).json<{
    paths: Record<string, { get?: Described }>;
  }>();
  return Object.entries(paths).flatMap(([path, { get }]) => {
    // A stream is no page, and the operator is nobody's neighbour.
    if (get === undefined || path.startsWith('/admin/') || path.endsWith('/stream')) return [];
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = valueOf(path, name);
      if (value === undefined) throw new Error(`what is the ${name} of ${path}?`);
      return encodeURIComponent(value);
    });
    const limit = get.parameters?.find((one) => one.in === 'query' && one.name === 'limit')?.schema?.maximum;
    return [limit === undefined ? filled : `${filled}?limit=${limit}`];
  });
}

interface Beside {
  readonly p50: number;
  readonly p99: number;
}

try {
  const service = await startService(context, { readStore: true, env: { RATE_LIMIT_PER_SECOND: '1000000' } });
  const loud = await benchTenant(service, 1);
  await service.deploy('reducers', { 'Counter.cs': COUNTER });
  const reads = (await readsOf(service, loud)).filter(isWanted);
  const port = Number(new URL(service.url).port);
  const calm: Load = {
    port,
    path: '/events',
    keys: [API_KEY],
    bodies: SINGLE,
    aggregates: 100,
    clients: 32,
    perSecond: 200,
    durationMs: MS,
    first: 0,
    mustContain: '"state":',
  };
  let first = 0;
  const generator = startLoadGenerator();
  const ours = async (): Promise<Beside> => {
    const result = await generator.run({ ...calm, first });
    first = result.next;
    return result;
  };
  await ours();
  const alone: Beside[] = [];
  for (const path of reads) {
    alone.push(await ours());
    const flood = await startFlood({
      port,
      clients: CLIENTS,
      request: { method: 'GET', path, headers: { 'x-api-key': loud } },
    });
    const { p50, p99 } = await ours();
    const { perSecond, byStatus } = await flood.end();
    const p99Alone = median(alone.map((one) => one.p99));
    const statuses = Object.keys(byStatus).join(' ');
    report(
      path.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '…'),
      `${p50.toFixed(1)} / ${p99.toFixed(1)} ms`,
      `alone / ${p99Alone.toFixed(1)}; ${Math.round(perSecond).toLocaleString('en')}/s, ${statuses}`,
      p99 / p99Alone,
    );
  }
  generator.end();
  await service.stop();
} finally {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
