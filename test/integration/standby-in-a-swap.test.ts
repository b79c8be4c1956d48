// Invariants 11, 12, 13: a process begins to follow a tenant for whoever notifies of it while its owner is in the middle of a swap, and retention
// takes what that swap told first.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import type { Change } from '../../src/core/change.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import { pushedInto } from '../support/all-changes.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { keyOf, ManyKeysWorld, PROJECTION, stateOf, type Seat } from '../support/many-keys-world.js';
import { until } from '../support/service.js';

const KEYS = 2000;
/** A swap goes in produces of some 250 changes. */
const ROWS = 100;
const HOUR_MS = 3_600_000;

interface Ground {
  readonly world: ManyKeysWorld;
  readonly log: Log;
  /** What is written from now on is so much younger that retention takes all that was written before, and no more. */
  readonly laterOn: () => void;
  /** Takes it; the changes begin at that offset then. */
  readonly expire: (offset: number) => Promise<void>;
}

function embedded(t: TestContext): Promise<Ground> {
  const world = new ManyKeysWorld(t, { rowsPerSlice: ROWS, flushEntries: 50 });
  const { log } = world;
  return Promise.resolve({
    world,
    log,
    laterOn: () => {
      world.now = () => Date.now() + 2 * HOUR_MS;
    },
    expire: async (offset) => {
      await world.clean();
      assert.equal(await log.startOffset(world.changes), offset);
    },
  });
}

async function onKafka(t: TestContext): Promise<Ground> {
  const { brokers } = await kafkaForTests();
  const prefix = freshPrefix();
  const log = new KafkaLog({ brokers: [...brokers], prefix });
  const world = new ManyKeysWorld(t, { log, rowsPerSlice: ROWS, flushEntries: 50 });
  t.after(() => log.close());
  const admin = new Kafka({ clientId: 'retention', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  return {
    world,
    log,
    laterOn: () => undefined,
    expire: async (offset) => {
      const topic = prefix + world.changes.topic.slice('statefold'.length);
      await admin.fetchTopicOffsets(topic); // else the client does not know who leads it
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(offset) }] });
      await until(async () => (await log.startOffset(world.changes)) === offset);
    },
  };
}

/** The log as the owner has it: from `hold` on, changes pass `produces` times, and then wait until it is opened. */
class Gate {
  readonly log: Log;
  /** Called before a claim is written, which passes. */
  atClaim: () => void = () => undefined;
  #left = Infinity;
  #held: (() => void)[] = [];

  constructor(log: Log, changes: { readonly topic: string }) {
    this.log = new Proxy(log, {
      get: (of, name) => {
        const member: unknown = Reflect.get(of, name, of);
        if (name !== 'append' || typeof member !== 'function')
          return typeof member === 'function' ? (member.bind(of) as unknown) : member;
        return async (...[to, records]: Parameters<Log['append']>) => {
          if (to.topic === changes.topic && records.length === 1) this.atClaim();
          else if (to.topic === changes.topic && --this.#left < 0)
            await new Promise<void>((resolve) => this.#held.push(resolve));
          return of.append(to, records);
        };
      },
    });
  }

  hold(produces: number): void {
    this.#left = produces;
    this.#go();
  }

  get isHeld(): boolean {
    return this.#held.length > 0;
  }

  open(): void {
    this.#left = Infinity;
    this.#go();
  }

  #go(): void {
    for (const go of this.#held.splice(0)) {
      this.#left--;
      go();
    }
  }
}

const sequences = (changes: readonly Change[]): readonly string[] =>
  changes.map(({ sequence, key, state }) => `${sequence} ${key} ${state?.toString() ?? ''}`);

/** Both tell the same; of a cursor before it the owner may have more in memory. */
async function same(standby: Seat, owner: Seat): Promise<void> {
  await standby.task.changes.caughtUp();
  assert.equal(standby.task.changes.lastSequence(), owner.task.changes.lastSequence());
  const told = await standby.told();
  assert.deepEqual(sequences(told), sequences(await owner.told()));
  const feed = standby.task.changes.of(PROJECTION);
  const start = await feed.start();
  assert.equal(start, await owner.task.changes.of(PROJECTION).start());
  if (start > 1)
    await assert.rejects(feed.read(start - 1, { items: 1 }), {
      code: 'CURSOR_EXPIRED',
      details: { oldestSequence: told[0]?.sequence },
    });
}

async function holds(seat: Seat, code: number, times: number): Promise<void> {
  const states = await seat.states();
  assert.equal(states.size, KEYS);
  for (let i = 0; i < KEYS; i++) assert.equal(states.get(keyOf(i)), stateOf(code, keyOf(i), times), keyOf(i));
}

for (const { name, skip, ground } of [
  { name: 'the embedded log', skip: false, ground: embedded },
  { name: 'Kafka', skip: needsKafka, ground: onKafka },
] as const)
  for (const retention of [false, true])
    test(
      `on ${name}, 11, 12, 13: a standby that begins in the middle of a swap${retention ? ', of which retention took the first part,' : ''} tells the rest of it once, and takes over`,
      { skip, timeout: 180_000 },
      async (t) => {
        const { world, log, laterOn, expire } = await ground(t);
        const gate = new Gate(log, world.changes);
        const owner = await world.open('owner', { log: gate.log });
        world.deploy(owner, 1, 1);
        await owner.untilLive(1);
        await world.append(owner, KEYS);

        gate.hold(3);
        world.deploy(owner, 2, 2);
        await until(() => gate.isHeld);
        const first = await log.endOffset(world.changes);
        gate.atClaim = laterOn;
        const claimed = owner.task.repeatClaim();
        gate.hold(3);
        await claimed;
        await until(() => gate.isHeld);
        const between = owner.task.changes.lastSequence();
        assert.ok(between > first + 1, 'some of the swap came behind the claim');
        if (retention) {
          const { records } = await log.read(world.changes, first, 1024 * 1024);
          const claim = records.find(({ key }) => key.toString().startsWith('claim#'))?.offset ?? 0;
          assert.ok(claim > KEYS && claim < between, `the claim is at ${claim}`);
          await expire(claim);
        }

        const standby = await world.open('standby', { standby: true });
        await same(standby, owner);
        const told = await standby.told();
        if (retention) assert.ok(told.length > 0 && told.length < KEYS, `${told.length} of the swap are left`);
        else assert.ok(told.length > KEYS && told.length < 2 * KEYS, `${told.length} changes were told`);
        const pushed: Change[] = [];
        pushedInto(standby.task, pushed);
        gate.open();
        await owner.untilLive(2);
        await until(() => standby.task.changes.lastSequence() === owner.task.changes.lastSequence());
        await same(standby, owner);
        const after = (await owner.told()).filter(({ sequence }) => sequence > between);
        assert.ok(after.length > 0);
        assert.deepEqual(sequences(pushed), sequences(after), 'who follows is told of the rest, once');
        // Each key once: of the swap all that retention left.
        const swapped = (await standby.told()).filter(({ cause }) => cause === 'redeploy');
        assert.equal(new Set(swapped.map(({ key }) => key)).size, swapped.length);
        if (!retention) assert.equal(swapped.length, KEYS);

        await owner.close();
        await standby.task.promote();
        await until(() => standby.task.projectionLag === 0);
        await holds(standby, 2, 1);
        assert.deepEqual(
          sequences(pushed),
          sequences((await standby.told()).filter(({ sequence }) => sequence > between)),
          'it tells nothing of it again',
        );
        await world.append(standby, KEYS);
        await holds(standby, 2, 2);
      },
    );
