#!/usr/bin/env node
// Applies the definitions of this folder to Kafka Connect, for one tenant: `node connectors/apply.mjs --help`.
// The same command again changes nothing, or what was changed; connectors that had failed are restarted.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const KINDS = ['events', 'changes'];
/** Between two looks at a connector's status. */
const LOOK_MS = 1000;
/** So long after a restart its status may be the one before. */
const RESTART_MS = 3000;
const HELP = `Lands a tenant's topics in a ClickHouse of your own, through Kafka Connect.

  node connectors/apply.mjs --tenant acme --clickhouse https://analysts.example.com:8443

  --tenant ID         whose topics
  --clickhouse URL    where to; database and user may be in it: https://user@host:8443/database
  --only KIND         events or changes; both unless given
  --connect URL       Kafka Connect (CONNECT_URL, else http://127.0.0.1:8083)
  --registry URL      the schema registry, as Connect reaches it (SCHEMA_REGISTRY_URL)
  --prefix NAME       of the topics (KAFKA_TOPIC_PREFIX, else statefold)
  --replication N     of the dead letter topic (3)
  --set KEY=VALUE     another key of the definition, or another value; may be repeated
  --wait SECONDS      for connectors and tasks to run (60)
  --dry-run           prints what would be applied
  --delete            removes the connectors; what was landed stays

The password is not sent: Connect takes it from its own environment, CLICKHOUSE_PASSWORD (config.providers=env). Another place: --set password=…`;

/** The caller's mistake, or Connect's answer: told in a sentence, without a stack. */
class ApplyError extends Error {}

function readOptions() {
  const text = { type: 'string' };
  const flag = { type: 'boolean', default: false };
  const { values } = parseArgs({
    options: {
      tenant: text,
      clickhouse: text,
      only: text,
      connect: { ...text, default: process.env.CONNECT_URL || 'http://127.0.0.1:8083' },
      registry: { ...text, default: process.env.SCHEMA_REGISTRY_URL || '' },
      prefix: { ...text, default: process.env.KAFKA_TOPIC_PREFIX || 'statefold' },
      replication: { ...text, default: '3' },
      set: { ...text, multiple: true, default: [] },
      wait: { ...text, default: '60' },
      'dry-run': flag,
      delete: flag,
      help: flag,
    },
  });
  if (values.help) return { help: true };
  // A tenant of an id that was used before has its incarnation behind it.
  if (!/^[a-z0-9][a-z0-9-]{0,63}(?:_[0-9a-f]{8})?$/.test(values.tenant ?? ''))
    throw new ApplyError('--tenant is missing or no id of a tenant.');
  if (values.only !== undefined && !KINDS.includes(values.only))
    throw new ApplyError(`--only is ${KINDS.join(' or ')}.`);
  if (!/^\d+$/.test(values.wait)) throw new ApplyError('--wait is a whole number of seconds.');
  const set = values.set.map(
    (pair) => /^([^=]+)=([^]*)$/.exec(pair)?.slice(1) ?? fail(`--set ${pair} is not KEY=VALUE.`),
  );
  return {
    ...values,
    set,
    kinds: values.only === undefined ? KINDS : [values.only],
    waitMs: Number(values.wait) * 1000,
    connect: serverOf(values.connect, '--connect'),
  };
}

function fail(message) {
  throw new ApplyError(message);
}

/** A base URL, and the header for the credentials that it has. */
function serverOf(text, option) {
  if (!URL.canParse(text)) throw new ApplyError(`${option} ${text} is no URL.`);
  const url = new URL(text);
  const { username, password } = url;
  url.username = url.password = '';
  const authorization = `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`;
  return { base: url.href.replace(/\/$/, ''), headers: username === '' ? {} : { authorization } };
}

/** The definition of `kind` with its {{places}} filled in. */
function definitionOf(kind, options) {
  const clickhouse = placesOfClickHouse(options);
  const places = {
    tenant: options.tenant,
    prefix: options.prefix,
    registry: options.registry,
    replication: options.replication,
    ...clickhouse,
  };
  const text = readFileSync(new URL(`${kind}.json`, import.meta.url), 'utf8');
  const { name, config } = JSON.parse(
    text.replace(/\{\{(\w+)\}\}/g, (_, place) =>
      JSON.stringify(places[place] ?? fail(`${kind}.json has an unknown place {{${place}}}.`)).slice(1, -1),
    ),
  );
  for (const [key, value] of options.set) config[key] = value;
  return { name, config };
}

function placesOfClickHouse({ clickhouse, registry }) {
  if (!URL.canParse(clickhouse ?? '')) throw new ApplyError('--clickhouse is missing or no URL.');
  if (!URL.canParse(registry)) throw new ApplyError('--registry is missing or no URL.');
  const { protocol, hostname, port, username, password, pathname } = new URL(clickhouse);
  if (password !== '')
    throw new ApplyError(
      'Leave the password out of --clickhouse: Connect shows its configuration to whoever may read it.',
    );
  const secure = protocol === 'https:';
  const [, database = ''] = pathname.split('/');
  return {
    host: hostname,
    port: port || (secure ? '443' : '80'),
    ssl: String(secure),
    user: decodeURIComponent(username) || 'default',
    database: decodeURIComponent(database) || 'default',
    password: '${env:CLICKHOUSE_PASSWORD}',
  };
}

/** One request to Connect's REST interface. A rebalance of its workers answers 409: it is asked again until `deadline`. */
async function request({ base, headers }, method, path, body, deadline) {
  for (;;) {
    const init = {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(30_000),
    };
    const response = await fetch(
      `${base}${path}`,
      body === undefined ? init : { ...init, body: JSON.stringify(body) },
    ).catch((error) => fail(`Kafka Connect at ${base} does not answer: ${error.cause?.message ?? error.message}.`));
    const text = await response.text();
    if (response.status === 409 && Date.now() < deadline) {
      await delay(500);
      continue;
    }
    if (response.ok || response.status === 404)
      return { status: response.status, answer: response.ok && text !== '' ? JSON.parse(text) : undefined, text };
    throw new ApplyError(`Kafka Connect answered ${response.status} to ${method} ${path}: ${messageOf(text)}`);
  }
}

function messageOf(text) {
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text;
  }
}

const firstLines = (trace) =>
  trace
    .split('\n')
    .filter((line) => !/^\s*(at |\.\.\. )/.test(line))
    .slice(0, 5)
    .join('\n    ');

/** Resolves with the number of tasks when they and the connector run, at two looks in a row: right after a change the old tasks still show. */
async function running(connect, name, deadline) {
  const path = `/connectors/${encodeURIComponent(name)}`;
  let restartedAt;
  let ranBefore = false;
  let last = 'nothing is known of it yet';
  for (; Date.now() < deadline; await delay(LOOK_MS)) {
    const { answer } = await request(connect, 'GET', `${path}/status`, undefined, deadline);
    if (answer === undefined) continue;
    const parts = [
      { what: 'the connector', ...answer.connector },
      ...answer.tasks.map((task) => ({ what: `task ${task.id}`, ...task })),
    ];
    last = parts.map(({ what, state }) => `${what} is ${state}`).join(', ');
    const failed = parts.find(({ state }) => state === 'FAILED');
    const runs = answer.tasks.length > 0 && parts.every(({ state }) => state === 'RUNNING');
    if (runs && ranBefore) return answer.tasks.length;
    ranBefore = runs;
    if (failed === undefined) continue;
    if (restartedAt === undefined) {
      // It may have failed before: the same definition again does not start it.
      await request(connect, 'POST', `${path}/restart?includeTasks=true&onlyFailed=true`, undefined, deadline);
      restartedAt = Date.now();
    } else if (Date.now() - restartedAt > RESTART_MS)
      throw new ApplyError(`${name}: ${failed.what} failed:\n    ${firstLines(failed.trace ?? 'without a reason')}`);
  }
  throw new ApplyError(`${name} does not run: ${last}.`);
}

async function apply(options) {
  const { connect, kinds } = options;
  const deadline = Date.now() + options.waitMs;
  if (options.delete) {
    for (const kind of kinds) {
      const name = `statefold-${options.tenant}-${kind}`;
      const { status } = await request(
        connect,
        'DELETE',
        `/connectors/${encodeURIComponent(name)}`,
        undefined,
        deadline,
      );
      console.log(status === 404 ? `${name} is not there` : `${name} removed`);
    }
    return;
  }
  const definitions = kinds.map((kind) => definitionOf(kind, options));
  if (options['dry-run']) {
    console.log(JSON.stringify(definitions, null, 2));
    return;
  }
  for (const { name, config } of definitions) {
    const { status, text } = await request(
      connect,
      'PUT',
      `/connectors/${encodeURIComponent(name)}/config`,
      config,
      deadline,
    );
    if (status === 404) throw new ApplyError(`Kafka Connect at ${connect.base} has no connectors: ${messageOf(text)}`);
    console.log(`${name} ${status === 201 ? 'made' : 'is there, and has this definition'}`);
  }
  for (const { name } of definitions)
    console.log(`${name} runs with ${await running(connect, name, deadline)} task(s)`);
}

try {
  const options = readOptions();
  if (options.help) console.log(HELP);
  else await apply(options);
} catch (error) {
  if (!(error instanceof ApplyError) && !String(error.code).startsWith('ERR_PARSE_ARGS')) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
