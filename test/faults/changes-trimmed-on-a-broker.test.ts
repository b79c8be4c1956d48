// Invariants 11, 12 and 20: retention takes changes on a real broker, between the parts of one input too, while a process with an older store is away.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { AppendIndefiniteError, type Log } from '../../src/log/log.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { keyOf, ManyKeysWorld, stateOf, type Seat } from '../support/many-keys-world.js';
import { until } from '../support/service.js';

/** One append of so many keys: two parts, and some. */
const KEYS = 1000;

interface Ground {
  readonly world: ManyKeysWorld;
  /** Of the changes: those below are gone, for every reader. */
  deleteBelow(offset: number): Promise<void>;
  end(): Promise<number>;
  /** The log as a process has it that dies when so many changes of it were taken. */
  cut(produces: number): Log & { readonly isCut: () => boolean };
}

async function ground(t: TestContext): Promise<Ground> {
  const { brokers } = await kafkaForTests();
  const prefix = freshPrefix();
  const log = new KafkaLog({ brokers: [...brokers], prefix });
  const world = new ManyKeysWorld(t, { log, flushEntries: 50 });
  t.after(() => log.close());
  const { changes } = world;
  const admin = new Kafka({ clientId: 'retention', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  return {
    world,
    end: () => log.endOffset(changes),
    deleteBelow: async (offset) => {
      const topic = prefix + changes.topic.slice('statefold'.length);
      await admin.fetchTopicOffsets(topic); // else the client does not know who leads it
      await admin.deleteTopicRecords({
        topic,
        partitions: [{ partition: 0, offset: String(offset) }],
      });
      await until(async () => (await log.startOffset(changes)) === offset);
    },
    cut: (produces) => {
      let left = produces;
      return {
        maxAppendBytes: log.maxAppendBytes,
        ensureTopics: (specs) => log.ensureTopics(specs),
        deleteTopic: (topic) => log.deleteTopic(topic),
        append: (to, records) => {
          if (to.topic !== changes.topic || records.length === 1) return log.append(to, records);
          if (left === 0) return Promise.reject(new AppendIndefiniteError('this process is gone'));
          left--;
          return log.append(to, records);
        },
        endOffset: (of) => log.endOffset(of),
        startOffset: (of) => log.startOffset(of),
        read: (of, from, maxBytes, waitMs) => log.read(of, from, maxBytes, waitMs),
        readAt: (of, offsets) => log.readAt(of, offsets),
        doubt: (of) => log.doubt(of),
        reportPositions: (positions) => log.reportPositions(positions),
        close: () => Promise.resolve(),
        isCut: () => left === 0,
      };
    },
  };
}

/** Every key came so often, and what is told is what the others tell. */
async function holds(seat: Seat, times: number, told?: readonly string[]): Promise<string[]> {
  const states = await seat.states();
  assert.equal(states.size, KEYS);
  for (let i = 0; i < KEYS; i++) assert.equal(states.get(keyOf(i)), stateOf(1, keyOf(i), times), keyOf(i));
  const now = (await seat.told()).map(({ sequence, key }) => `${sequence} ${key}`);
  if (told !== undefined) assert.deepEqual(now.slice(-told.length), told.slice(-now.length));
  return now;
}

test(
  '11, 12: an owner without a store, and one with an older one, come to the same states and tell nothing twice after retention took all but the last part of an input',
  { skip: needsKafka, timeout: 180_000 },
  async (t) => {
    const kafka = await ground(t);
    const { world } = kafka;
    const old = await world.open('old');
    world.deploy(old, 1, 1);
    await old.untilLive(1);
    await world.append(old, KEYS);
    await old.close();

    // The next append comes in parts, and its owner goes between them.
    const mortal = kafka.cut(1);
    const between = await world.open('between', { log: mortal });
    const [before] = [await kafka.end()];
    const sent = world.send(between.task, KEYS).catch(() => undefined);
    await until(() => mortal.isCut());
    await until(async () => (await kafka.end()) > before);
    await between.close().catch(() => undefined);
    await sent;
    const part = (await kafka.end()) - before;
    assert.ok(part > 0 && part < KEYS, `${part} of ${KEYS} changes were told`);

    const next = await world.open('next');
    const claim = (await kafka.end()) - 1;
    await until(() => next.task.projectionLag === 0);
    const told = await holds(next, 2);
    await next.close();
    const all = (await kafka.end()) - before;

    // Retention leaves the claim of the last owner, and the parts behind it.
    const records = await world.log.read(world.changes, before, 16 * 1024 * 1024);
    assert.ok(records.records.length > KEYS);
    await kafka.deleteBelow(Math.min(claim, before + part));
    for (const name of ['old', 'between', 'fresh', 'next']) {
      const seat = await world.open(name);
      await until(() => seat.task.projectionLag === 0);
      await holds(seat, 2, told);
      await seat.close();
    }
    // Claims alone came since.
    const since = (await kafka.end()) - before - all;
    assert.ok(since <= 12, `${since} records were written by processes that had nothing to tell`);

    // And then all of it goes.
    await kafka.deleteBelow(await kafka.end());
    for (const name of ['between', 'old', 'fresher']) {
      const seat = await world.open(name);
      await until(() => seat.task.projectionLag === 0);
      await holds(seat, 2, []);
      await seat.close();
    }
    const last = await world.open('fresher');
    await world.append(last, KEYS);
    await holds(last, 3);
    await last.close();
  },
);
