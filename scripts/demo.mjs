// `npm run demo`, against a running server: 20,000 real flights as events, folded by uploaded C#, followed as they change, and
// checked against SQL over the raw events.
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { ROOT, setup } from './setup.mjs';

await setup();
const { ZipArchive } = await import('archiver');
const { default: progress } = await import('cli-progress');
const { Webhook } = await import('standardwebhooks');
const { default: WebSocket } = await import('ws');

const BASE = process.env.STATEFOLD_URL ?? `http://127.0.0.1:${process.env.PORT ?? 8080}`;
const DATA = process.env.STATEFOLD_DATA_DIR ?? join(ROOT, 'data');
const CLIENTS = 32;
const BATCH = 100;

/** A reason that the user can act on; shown without a stack. */
class DemoError extends Error {}

async function call(method, path, { body, form, headers = {}, key = apiKey } = {}) {
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(BASE + path, {
    method,
    headers: { 'x-api-key': key ?? '', ...json, ...headers },
    body: form ?? (body && JSON.stringify(body)),
  }).catch(() => {
    throw new DemoError(
      `No server answers at ${BASE}: start one with \`WEBHOOK_ALLOW_PRIVATE=true npm start\` in another terminal.`,
    );
  });
  const answer = await response.json();
  if (!response.ok)
    throw Object.assign(
      new DemoError(`${method} ${path} was answered ${response.status} ${answer.code}: ${answer.detail}`),
      { code: answer.code },
    );
  return answer;
}

function adminKey() {
  const file = join(DATA, 'admin-key');
  const key = process.env.STATEFOLD_ADMIN_KEY ?? (existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined);
  if (key === undefined)
    throw new DemoError(
      `The admin key is neither in STATEFOLD_ADMIN_KEY nor in ${file}: run the demo where the server runs, or set it.`,
    );
  return key;
}

async function until(holds, what) {
  const deadline = Date.now() + 120_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new DemoError(`Waited two minutes for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Zips files of `samples/flights` with archiver and uploads them; resolves with the id once they are compiled. */
async function deploy(kind, files, config) {
  const archive = new ZipArchive({ zlib: { level: 9 } });
  for (const file of files) archive.file(join(ROOT, 'samples', 'flights', file), { name: file });
  void archive.finalize();
  const chunks = [];
  for await (const chunk of archive) chunks.push(chunk);
  const form = new FormData();
  form.append('file', new Blob(chunks, { type: 'application/zip' }), 'flights.zip');
  if (config !== undefined) form.append('config', JSON.stringify(config));
  const answer = await call('POST', `/${kind}/upload`, { form });
  const id = answer.reducerId ?? answer.projectionId;
  await until(async () => {
    const { status, compilationError } = await call('GET', `/${kind}/${id}/status`);
    if (status === 'failed') throw new DemoError(`${kind} did not compile:\n${compilationError}`);
    return status === 'compiled';
  }, 'the compiler');
  return { id, answer };
}

/** Receives webhooks on this machine and verifies each with the Standard Webhooks library. */
async function receiver() {
  const seen = { sequences: new Set(), bad: 0, secret: undefined };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    try {
      const { data } = new Webhook(seen.secret).verify(Buffer.concat(chunks).toString(), request.headers);
      seen.sequences.add(data.sequence);
    } catch {
      seen.bad++;
    }
    response.writeHead(204).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    seen,
    url: `http://127.0.0.1:${server.address().port}/flights`,
    close: () => (server.closeAllConnections(), server.close()),
  };
}

async function deployProjection(url) {
  const files = ['AirportDelays.cs', 'Flight.cs'];
  try {
    return await deploy('projections', files, { webhook: { url }, isolateSecret: true, sse: true });
  } catch (error) {
    if (error.code !== 'WEBHOOK_URL_REFUSED') throw error;
    console.log(
      '  Webhooks to this machine are refused by default; start the server with WEBHOOK_ALLOW_PRIVATE=true to see them here.',
    );
    return deploy('projections', files, { sse: true });
  }
}

/** Follows the projection's changes; `changes` has the last sequence and state of each key. */
async function follow(projectionId) {
  const followed = { count: 0, last: 0, keys: new Map(), outOfOrder: 0 };
  const socket = new WebSocket(`${BASE.replace(/^http/, 'ws')}/projections/${projectionId}/stream?afterSequence=0`, {
    headers: { 'x-api-key': apiKey },
  });
  socket.on('message', (data) => {
    const message = JSON.parse(data.toString());
    if (message.type === 'ping') socket.send(JSON.stringify({ type: 'pong' }));
    if (message.type !== 'state_changed') return;
    if (message.sequence <= followed.last) followed.outOfOrder++;
    followed.last = message.sequence;
    followed.count++;
    followed.keys.set(message.key, message.state);
  });
  await once(socket, 'open');
  return { followed, close: () => socket.close() };
}

function batches() {
  const flights = JSON.parse(
    readFileSync(join(ROOT, 'node_modules', 'vega-datasets', 'data', 'flights-20k.json'), 'utf8'),
  );
  const routes = new Map();
  for (const flight of flights) {
    const id = `route-${flight.origin}-${flight.destination}`;
    if (!routes.has(id)) routes.set(id, []);
    routes.get(id).push({ eventType: 'FlightLanded', data: flight });
  }
  const out = [];
  for (const [aggregateId, events] of routes)
    for (let i = 0; i < events.length; i += BATCH) out.push({ aggregateId, events: events.slice(i, i + BATCH) });
  return { total: flights.length, batches: out };
}

async function load() {
  const { total, batches: work } = batches();
  const bar = new progress.SingleBar(
    { format: '  {bar} {value}/{total} events', hideCursor: true, noTTYOutput: false },
    progress.Presets.shades_classic,
  );
  bar.start(total, 0);
  const started = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (next < work.length) {
        const batch = work[next++];
        await call('POST', '/events/batch', { body: batch });
        bar.increment(batch.events.length);
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  bar.stop();
  return { total, appends: work.length, seconds };
}

async function statesOf(projectionId) {
  const states = [];
  for (let cursor = ''; cursor !== undefined;) {
    const page = await call(
      'GET',
      `/projections/${projectionId}/states?limit=500${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    states.push(...page.states);
    cursor = page.nextCursor;
  }
  return states.map(({ key, state }) => ({ airport: key, ...state }));
}

const SQL = `SELECT data.destination::String AS airport, count() AS flights, sum(data.delay::Int64) AS totalDelay, max(data.delay::Int64) AS worst
FROM events FINAL WHERE tenant = {tenant:String} AND aggregate_type = 'route' GROUP BY airport ORDER BY totalDelay DESC, airport`;

async function sqlRows(tenantId, total) {
  const access = await call('GET', '/admin/read-store', { headers: { 'x-admin-key': admin } });
  const query = async (sql) => {
    const url = new URL(access.url);
    url.search = new URLSearchParams({
      database: access.database,
      param_tenant: tenantId,
      default_format: 'JSONEachRow',
      output_format_json_quote_64bit_integers: '0',
    });
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'x-clickhouse-user': access.user, 'x-clickhouse-key': access.password },
      body: sql,
    });
    const text = await response.text();
    if (!response.ok) throw new DemoError(`ClickHouse answered: ${text}`);
    return text
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  };
  await until(
    async () => (await query('SELECT count() AS n FROM events FINAL WHERE tenant = {tenant:String}'))[0].n === total,
    'the events in ClickHouse',
  );
  return query(SQL);
}

const worstFirst = (a, b) => b.totalDelay - a.totalDelay || (a.airport < b.airport ? -1 : 1);

function print(states, rows) {
  const row = ({ airport, flights, totalDelay, worst }) =>
    `${airport.padEnd(7)}${String(flights).padStart(8)}${String(totalDelay).padStart(12)}${String(worst).padStart(7)}`;
  const head = `${'airport'.padEnd(7)}${'flights'.padStart(8)}${'delay (min)'.padStart(12)}${'worst'.padStart(7)}`;
  console.log(`\n  ${'the projection’s states'.padEnd(38)}SQL over the raw events`);
  console.log(`  ${head.padEnd(38)}${head}`);
  for (let i = 0; i < 10; i++) console.log(`  ${row(states[i]).padEnd(38)}${row(rows[i])}`);
  const same = states.length === rows.length && states.every((state, i) => row(state) === row(rows[i]));
  if (!same) throw new DemoError('The two tables differ.');
  console.log(`\n  All ${states.length} airports agree to the last digit.`);
}

let apiKey;
let admin;

async function main() {
  admin = adminKey();
  const { tenantId, apiKey: key } = await call('POST', '/admin/tenants', {
    key: '',
    headers: { 'x-admin-key': admin },
    body: { tenantId: `demo-${Date.now().toString(36)}`, name: 'Demo' },
  });
  apiKey = key;
  console.log(`Tenant ${tenantId}, API key ${apiKey}`);
  console.log('Uploading samples/flights: a reducer of routes, a projection of airports');
  await deploy('reducers', ['RouteReducer.cs', 'Flight.cs']);
  const hook = await receiver();
  const { id: projectionId, answer } = await deployProjection(hook.url);
  hook.seen.secret = answer.notifications?.webhook?.secret;
  const { followed, close } = await follow(projectionId);
  console.log('Loading the flights');
  const { total, appends, seconds } = await load();
  const states = (await statesUntil(projectionId, total)).sort(worstFirst);
  const rows = await sqlRows(tenantId, total);
  print(states, rows);
  await until(() => followed.count >= total, 'the pushes over WebSocket');
  if (followed.outOfOrder > 0) throw new DemoError('Pushes came out of order.');
  if (hook.seen.secret) await until(() => hook.seen.sequences.size >= total, 'the webhooks');
  if (hook.seen.bad > 0) throw new DemoError(`${hook.seen.bad} webhooks had a wrong signature.`);
  console.log(
    `  ${Math.round(total / seconds).toLocaleString('en')} events a second, in ${appends.toLocaleString('en')} appends with their states.`,
  );
  console.log(
    `  ${followed.count.toLocaleString('en')} changes over WebSocket, ${hook.seen.sequences.size.toLocaleString('en')} over webhooks, each verified.`,
  );
  console.log(
    `\nNext: npx statefold sql "SELECT aggregate_id, state.flights FROM aggregate_states WHERE tenant = '${tenantId}' ORDER BY state.flights::Int64 DESC LIMIT 5"`,
  );
  close();
  hook.close();
}

async function statesUntil(projectionId, total) {
  let states = [];
  await until(
    async () => (states = await statesOf(projectionId)).reduce((sum, state) => sum + state.flights, 0) === total,
    'the projection',
  );
  return states;
}

main().catch((error) => {
  console.error(error instanceof DemoError ? error.message : error);
  process.exitCode = 1;
});
