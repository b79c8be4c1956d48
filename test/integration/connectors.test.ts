// The definitions of connectors/ and the script that applies them, on a real Kafka Connect. ClickHouse's connector and Confluent's
// converter are not part of a Kafka release: a sink of this test takes the place of the first (and shows what would reach it), Connect's
// JSON that of the second. The transforms, predicates, dead letters and the REST interface are Kafka's own.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { planOf, simulate } from '../simulator/plans.js';
import type { Truth } from '../simulator/truth.js';
import { CHANGES, codecs, EVENTS } from '../simulator/world.js';
import { converter } from '../support/connect/converted.js';
import { needsConnect, startConnect, type ConnectWorker } from '../support/connect/worker.js';
import { freshPrefix, kafkaForTests } from '../support/kafka.js';
import { land, landedChange, landedEvent, makeLandingTables, select, type LandedRow } from '../support/landed.js';
import { ROOT } from '../support/service.js';
import { readyEngine, until } from './read-store-fixture.js';

const TENANT = 'acme';
/** Among them is one with several epochs and void records. */
const SEEDS = 50;

interface Answer {
  readonly code: number;
  readonly text: string;
}

describe('connectors', { skip: needsConnect, timeout: 240_000 }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-connect-'));
  const prefix = freshPrefix();
  const topics = { events: `${prefix}.${TENANT}.events`, changes: `${prefix}.${TENANT}.changes` };
  const files = { events: join(directory, 'rows', 'events'), changes: join(directory, 'rows', 'changes') };
  let connect: ConnectWorker;
  let kafka: Kafka;

  before(async () => {
    mkdirSync(join(directory, 'rows'));
    const { brokers } = await kafkaForTests();
    kafka = new Kafka({ clientId: 'connectors-test', brokers: [...brokers], logLevel: logLevel.NOTHING });
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({
      topics: Object.values(topics).map((topic) => ({ topic, numPartitions: 1, replicationFactor: 1 })),
    });
    await admin.disconnect();
    connect = await startConnect({ directory, brokers, prefix });
  });
  after(async () => {
    await connect.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const apply = (...args: string[]): Promise<Answer> =>
    new Promise((resolve) => {
      const common = ['--tenant', TENANT, '--prefix', prefix, '--connect', connect.url];
      execFile(process.execPath, [join(ROOT, 'connectors', 'apply.mjs'), ...common, ...args], (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
      );
    });
  /** With the sink and the converter that are to be had here. */
  const applied = (kind: 'events' | 'changes', ...args: string[]): Promise<Answer> => {
    const set = {
      'connector.class': 'dev.statefold.test.RowsConnector',
      file: files[kind],
      'value.converter': 'org.apache.kafka.connect.json.JsonConverter',
      'value.converter.schemas.enable': 'true',
    };
    const places = [
      '--only',
      kind,
      '--clickhouse',
      'http://clickhouse.invalid:8123',
      '--registry',
      'http://registry.invalid:8081',
      '--replication',
      '1',
    ];
    return apply(...places, ...Object.entries(set).flatMap(([key, value]) => ['--set', `${key}=${value}`]), ...args);
  };
  const rows = (kind: 'events' | 'changes'): LandedRow[] =>
    existsSync(files[kind])
      ? readFileSync(files[kind], 'utf8')
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line) as LandedRow)
      : [];
  const send = async (topic: string, values: readonly (Buffer | null)[]): Promise<void> => {
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic, messages: values.map((value, i) => ({ key: `k${i}`, value })) });
    await producer.disconnect();
  };

  it('says what is wrong, and goes on from there', async () => {
    const lost = await applied('events', '--set', `file=${join(directory, 'nowhere', 'events')}`, '--wait', '40');
    assert.equal(lost.code, 1);
    assert.match(lost.text, /statefold-acme-events: task 0 failed:\n.*there is no directory/s);
    const unknown = await apply(
      '--only',
      'events',
      '--clickhouse',
      'http://clickhouse.invalid:8123',
      '--registry',
      'http://registry.invalid:8081',
    );
    assert.equal(unknown.code, 1);
    assert.match(unknown.text, /answered 400 to PUT .*Failed to find any class .*ClickHouseSinkConnector/s);

    const made = await applied('events');
    assert.deepEqual(made, {
      code: 0,
      text: 'statefold-acme-events is there, and has this definition\nstatefold-acme-events runs with 1 task(s)\n',
    });
    const again = await applied('events');
    assert.deepEqual(again, made, 'the same again is no change');
    const config = (await (await fetch(`${connect.url}/connectors/statefold-acme-events/config`)).json()) as Record<
      string,
      string
    >;
    assert.equal(config['password'], '${env:CLICKHOUSE_PASSWORD}', 'Connect does not show the password');
  });

  it('lands every record with its place, and the views over it hold what was accepted', async (context) => {
    const values: Record<'events' | 'changes', Buffer[]> = { events: [], changes: [] };
    const expected: Record<'events' | 'changes', LandedRow[]> = { events: [], changes: [] };
    let truth: Truth | undefined;
    for (let seed = 1; seed <= SEEDS && truth === undefined; seed++) {
      const outcome = await simulate(planOf(seed), async (world) => {
        await world.run();
        values.events = world.log.records(EVENTS).map(({ value }) => value ?? Buffer.alloc(0));
        values.changes = world.log.records(CHANGES).map(({ value }) => value ?? Buffer.alloc(0));
      });
      const found = outcome.truth;
      if (found !== undefined && found.voids > 3 && found.epochs > 2 && found.changes.length > 3) truth = found;
    }
    assert.ok(truth !== undefined, 'a log worth landing');
    for (const [offset, value] of values.events.entries()) {
      const record = codecs.events.decode(value);
      assert.ok(record !== undefined);
      expected.events.push(landedEvent({ topic: topics.events, offset }, record));
    }
    for (const [offset, value] of values.changes.entries()) {
      const record = codecs.changes.decode(value);
      assert.ok(record !== undefined);
      expected.changes.push(landedChange({ topic: topics.changes, offset }, record));
    }

    assert.equal((await applied('changes')).code, 0);
    // A tombstone erases; it is no row.
    await send(topics.events, [...values.events.map(converter('events')), null]);
    await send(topics.changes, values.changes.map(converter('changes')));
    const engine = await readyEngine(context);
    const endpoint = engine.endpoint();
    assert.ok(endpoint !== undefined);
    await makeLandingTables(endpoint);
    for (const kind of ['events', 'changes'] as const) {
      await until(`${kind} are landed`, () => rows(kind).length >= expected[kind].length, 60_000);
      const landed = rows(kind);
      assert.deepEqual(landed.map(comparable), expected[kind].map(comparable), kind);
      await land(endpoint, kind, landed);
    }
    const [{ events } = { events: '' }] = await select<{ events: string }>(
      endpoint,
      `SELECT toString(count()) AS events FROM statefold_events WHERE tenant = '${TENANT}'`,
    );
    const [{ changes } = { changes: '' }] = await select<{ changes: string }>(
      endpoint,
      `SELECT toString(count()) AS changes FROM statefold_changes WHERE tenant = '${TENANT}'`,
    );
    assert.deepEqual(
      { events, changes },
      {
        events: String(truth.commits.reduce((sum, { value }) => sum + value.events.length, 0)),
        changes: String(truth.changes.length),
      },
    );
  });

  it('a record that can not be read stops the connector and is among the dead letters; it is passed when that is asked for', async () => {
    const before = rows('events').length;
    const [sample] = (await simulatedClaim()).map(converter('events'));
    assert.ok(sample !== undefined);
    await send(topics.events, [Buffer.from('not a record'), sample]);
    const status = async (): Promise<string> => {
      const { tasks } = (await (await fetch(`${connect.url}/connectors/statefold-acme-events/status`)).json()) as {
        tasks: { state: string }[];
      };
      return tasks.map(({ state }) => state).join();
    };
    await until('the task has stopped', async () => (await status()) === 'FAILED', 60_000);
    assert.equal(rows('events').length, before);

    const passed = await applied('events', '--set', 'errors.tolerance=all');
    assert.equal(passed.code, 0, passed.text);
    await until('the record behind it is landed', () => rows('events').length > before, 60_000);
    const dead = await deadLetters();
    assert.ok(dead.every(({ value }) => value === 'not a record') && dead.length > 0, JSON.stringify(dead));
    assert.equal(dead[0]?.topic, topics.events);
  });

  it('removes them', async () => {
    const removed = await apply('--delete');
    assert.deepEqual(removed, { code: 0, text: 'statefold-acme-events removed\nstatefold-acme-changes removed\n' });
    const again = await apply('--delete');
    assert.deepEqual(again, {
      code: 0,
      text: 'statefold-acme-events is not there\nstatefold-acme-changes is not there\n',
    });
    assert.deepEqual(await (await fetch(`${connect.url}/connectors`)).json(), []);
  });

  async function deadLetters(): Promise<{ readonly value: string; readonly topic: string }[]> {
    const found: { value: string; topic: string }[] = [];
    const consumer = kafka.consumer({ groupId: `${prefix}-dead-letters` });
    await consumer.connect();
    await consumer.subscribe({ topic: `${prefix}.connect-dead-letters`, fromBeginning: true });
    await consumer.run({
      eachMessage: ({ message }) => {
        found.push({ value: String(message.value), topic: String(message.headers?.['__connect.errors.topic']) });
        return Promise.resolve();
      },
    });
    await until('dead letters are read', () => found.length > 0, 30_000);
    await consumer.disconnect();
    return found;
  }
});

async function simulatedClaim(): Promise<Buffer[]> {
  let claim: Buffer | null | undefined;
  await simulate(planOf(1), async (world) => {
    await world.run();
    claim = world.log.records(EVENTS)[0]?.value;
  });
  return claim === undefined || claim === null ? [] : [claim];
}

/** Without what a row may leave out, and the time that the broker gave. */
const comparable = ({ log_time: _, ...row }: LandedRow): LandedRow =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));
