import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import type { AppendResult, ExpectedVersion } from '../../src/core/event.js';
import { KeptRevisions } from '../../src/store/kept-revisions.js';
import { calm, simulate } from './plans.js';
import type { Action, SimProcess } from './scheduler.js';
import { mutant } from './mutant.js';
import { Erasures } from '../../src/aggregates/erasures.js';
import { PartitionReader } from '../../src/log/journal/partition-reader.js';
import { ToldOfSwap } from '../../src/projections/told-of-swap.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { truthOf } from './truth.js';
import {
  CHANGES,
  codecs,
  EVENTS,
  REDACTIONS,
  type AskedErasure,
  type Machine,
  type Running,
  type World,
  type WorldOptions,
} from './world.js';

interface Sent {
  answer: AppendResult | StatefoldError | undefined;
}
interface Command {
  readonly aggregateId?: string;
  readonly expected?: ExpectedVersion;
  readonly key?: string;
  readonly body?: string;
  readonly keys?: readonly string[];
  /** Projections throw on it. */
  readonly bad?: boolean;
}

const machine = (world: World, i: number): Machine => world.machines[i] ?? assert.fail(`no machine ${i}`);

async function drain(world: World, only?: (action: Action) => boolean): Promise<void> {
  for (let steps = 0; await world.scheduler.next([], only); steps++) assert.ok(steps < 5000, 'comes to an end');
}

async function up(world: World, i: number): Promise<Running> {
  const running = world.start(machine(world, i));
  await drain(world);
  assert.ok(running.open, `machine ${i} serves`);
  return running;
}

/** What was sent to a process and not yet taken, in order: whichever action runs first takes the first. */
const inbox = new WeakMap<SimProcess, (() => void)[]>();
function post(world: World, owner: SimProcess, label: string, run: () => void): void {
  const waiting = inbox.get(owner) ?? [];
  inbox.set(owner, waiting);
  waiting.push(run);
  world.scheduler.add({ owner, label, weight: 1e9, run: () => waiting.shift()?.() });
}

let sent = 0;
function send(
  world: World,
  { process, task }: Running,
  { aggregateId = 'acc-0', expected = 'any', key, body = '', keys = ['k'], bad = false }: Command = {},
): Sent {
  const outcome: Sent = { answer: undefined };
  const number = sent++;
  const events = [{ eventType: 'happened', data: Buffer.from(JSON.stringify({ c: number, i: 0, k: keys, bad })) }];
  const identity = { commandId: key ?? `command-${number}`, keyed: key !== undefined, requestHash: Buffer.from(body) };
  const rest = { aggregateType: undefined, correlationId: undefined, causationId: undefined, metadata: undefined };
  post(world, process, `append ${number}`, () => {
    task.first.append({ ...identity, ...rest, aggregateId, expectedVersion: expected, events }).then(
      (result) => (outcome.answer = result),
      (error: unknown) => (outcome.answer = error as StatefoldError),
    );
  });
  return outcome;
}

const versionOf = ({ answer }: Sent): number | string | undefined =>
  answer instanceof StatefoldError ? answer.code : answer?.endVersion;

async function append(world: World, running: Running, command?: Command): Promise<number | string | undefined> {
  const outcome = send(world, running, command);
  await drain(world);
  return versionOf(outcome);
}

/** Without clients of its own: what happens, the case says. The run is then held against the truth of its log. */
function named(name: string, more: Partial<WorldOptions>, play: (world: World) => Promise<void>): void {
  it(name, () => play20(more, play));
}

async function play20(more: Partial<WorldOptions>, play: (world: World) => Promise<void>): Promise<void> {
  for (let seed = 1; seed <= 20; seed++) {
    const outcome = await simulate({ ...calm(seed), clients: 0, machines: 2, deploys: [], ...more }, async (world) => {
      await play(world);
      await world.settle();
    });
    assert.deepEqual(outcome.problems, [], `seed ${seed}\n${outcome.trace.slice(-30).join('\n')}`);
  }
}

const p = (revision: number): WorldOptions['deploys'][number] => ({
  projectionId: 'p',
  revision,
  artefactId: `p-${revision}`,
  classNames: ['C'],
});
const unheard = (topic: string) => (action: Action) =>
  !(action.label.includes(`to ${topic} land`) || action.label.includes(`to ${topic} are acknowledged`));

/** Appends an event to each of the aggregates, all or none. */
async function transact(world: World, { process, task }: Running, ...aggregateIds: readonly string[]): Promise<void> {
  let stored = false;
  const number = sent++;
  const data = Buffer.from(JSON.stringify({ c: number, i: 0, k: ['k'], bad: false }));
  const rest = { correlationId: undefined, causationId: undefined, metadata: undefined };
  const appends = aggregateIds.map((aggregateId) => ({
    ...{ aggregateId, aggregateType: undefined, expectedVersion: 'any' as const },
    events: [{ eventType: 'happened', data }],
  }));
  post(world, process, `transaction ${number}`, () => {
    void task.first
      .transact({ ...rest, commandId: `command-${number}`, keyed: false, requestHash: Buffer.alloc(0), appends })
      .then(() => (stored = true));
  });
  await drain(world);
  assert.ok(stored);
}

/** Asks the owner to take the aggregate out. */
function erase(world: World, { process, task }: Running, aggregateId: string): void {
  const asked: AskedErasure = { aggregateId, sent: world.scheduler.step, answered: undefined };
  world.erasures.push(asked);
  post(world, process, `erase ${aggregateId}`, () => {
    void task.first.erase(aggregateId, undefined).then(() => (asked.answered = world.scheduler.step));
  });
}

/**
 * Two aggregates of one transaction are erased. What the first owner redacts of the one lands when it has crashed, right before what the
 * next one redacts of the other: of the two the first counts, which still has the other.
 */
async function lateRedaction(world: World): Promise<void> {
  const redactionBy =
    ({ id }: SimProcess) =>
    ({ label }: Action): boolean =>
      label === `(${id}) 1 record to redactions land`;
  const owner = await up(world, 0);
  await transact(world, owner, 'acc-0', 'acc-1');
  const late = redactionBy(owner.process);
  // What stands in the way of the one that came first lets the other pass; the next owner begins with the first again.
  world.log.fate = (process, to, [record]) =>
    process === owner.process && to.topic === REDACTIONS && record?.value?.includes('["acc-0"]') === true
      ? 'refused'
      : undefined;
  erase(world, owner, 'acc-0');
  erase(world, owner, 'acc-1');
  await drain(world, (action) => !late(action));
  assert.ok(world.scheduler.has(late), 'the first owner is writing');
  world.crash(machine(world, 0));
  const next = world.start(machine(world, 1));
  const other = redactionBy(next.process);
  await drain(world, (action) => !late(action) && !other(action));
  assert.ok(world.scheduler.has(late) && world.scheduler.has(other), 'both are on their way');
  await drain(world, late);
  await drain(world);
}

/**
 * An owner ends between two redactions of an aggregate, and one without a local store folds what it left, from a log in which an
 * earlier erasure's records are gone. Gives what becomes of an append that rests on both transactions.
 */
async function halfErased(world: World): Promise<number | string | undefined> {
  const owner = await up(world, 0);
  await append(world, owner, { aggregateId: 'acc-2' });
  erase(world, owner, 'acc-2');
  await drain(world);
  await transact(world, owner, 'acc-0', 'acc-1');
  await transact(world, owner, 'acc-0', 'acc-1');
  world.compact();
  erase(world, owner, 'acc-0');
  await drain(world, ({ label }) => !label.includes('to redactions are acknowledged'));
  world.crash(machine(world, 0));
  const next = await up(world, 1);
  return append(world, next, { aggregateId: 'acc-1', expected: 2 });
}

/** The next reads of the topic by the process are answered by a leader that knows it up to `end` only. */
function lagging(world: World, process: SimProcess, topic: string, end: number): { left: number } {
  const reads = { left: 5 };
  world.log.lags = (by, of) => (by === process && of.topic === topic && reads.left-- > 0 ? end : undefined);
  return reads;
}

/** The machine crashes when it has told some more changes; what it was about to write never arrives. */
async function crashAfterPart(world: World, i: number): Promise<void> {
  await part(world);
  crashUnheard(world, i);
}

const changesLand = ({ label }: Action): boolean => label.includes('to changes land');

/** Some more changes are told, and no others land. */
async function part(world: World): Promise<void> {
  const told = (): number => truthOf(world.log).changes.length;
  const before = told();
  await drain(world, (action) => told() === before || !changesLand(action));
  assert.ok(told() > before);
}

/** The machine crashes, and no change of its process lands any more. */
function crashUnheard(world: World, i: number): void {
  world.crash(machine(world, i));
  const late: Action[] = [];
  world.scheduler.has((action) => (changesLand(action) && late.push(action), false));
  for (const action of late) world.scheduler.cancel(action);
}

/** Of a swap the first owner tells one key, an aggregate is erased, and an owner that builds without it goes on. Gives the keys that are told. */
async function erasedAmidSwap(world: World): Promise<string> {
  const owner = await up(world, 0);
  await append(world, owner, { aggregateId: 'acc-1', keys: ['a'] });
  await append(world, owner, { keys: ['b', 'c', 'd'] });
  world.deployed.set('p', p(1));
  post(world, owner.process, 'a deployment', () => owner.task.deploy(p(1)));
  await part(world);
  erase(world, owner, 'acc-1');
  await drain(world, (action) => !changesLand(action));
  crashUnheard(world, 0);
  await up(world, 1);
  return truthOf(world.log)
    .changes.map(({ value }) => value.key)
    .join();
}

/** More than two owners have under way at one time. */
const MANY = Array.from({ length: 30 }, (_, i) => `k${i + 10}`);

const LATE_CLAIM = { machines: 3, deploys: [p(1)] };

/** A claim lands behind one of a higher epoch, and changes in that; retention leaves it as the first record. */
async function lateClaim(world: World, repeated: boolean): Promise<void> {
  world.deployed.set('p', p(1));
  await up(world, 0);
  await world.close(machine(world, 0));
  const { process } = world.start(machine(world, 0));
  const late = ({ label }: Action): boolean => label === `(${process.id}) 1 record to changes land`;
  await drain(world, (action) => !late(action));
  assert.ok(world.scheduler.has(late));
  const owner = world.start(machine(world, 1));
  await drain(world, (action) => !late(action));
  send(world, owner, { keys: ['a'] });
  await drain(world, (action) => !late(action));
  const first = world.log.records(CHANGES).length;
  await drain(world);
  assert.ok(world.log.records(CHANGES).length > first, 'it has landed');
  for (const key of ['b', 'c']) await append(world, owner, { keys: [key] });
  if (repeated) {
    post(world, owner.process, 'repeats its claim', () => void owner.task.repeatClaim());
    await drain(world);
  }
  world.log.fate = (_, to) => (to.topic === CHANGES ? 'dropped' : undefined);
  const last = send(world, owner, { keys: ['d'] });
  while (last.answer === undefined) await world.scheduler.next();
  world.crash(machine(world, 1));
  world.log.fate = undefined;
  world.log.trim(CHANGES, first);
  await up(world, 2);
  assert.deepEqual(
    truthOf(world.log).changes.map(({ value }) => value.key),
    ['a', 'b', 'c', 'd'],
    'the last one was not told by anybody before',
  );
}

/** Retention has taken the changes below `from`; a process on an empty machine reads those up to `end`, and is about to read on. */
async function interrupted(
  world: World,
  i: number,
  { from, end }: { readonly from: number; readonly end: number },
): Promise<void> {
  world.log.trim(CHANGES, from);
  const { process } = world.start(machine(world, i));
  world.log.lags = (by, of) => (by === process && of.topic === CHANGES ? end : undefined);
  await drain(world, ({ label }) => label !== 'timer');
  world.log.lags = undefined;
}

describe('cases of the model', () => {
  named(
    '8, 20: the gap before an acknowledgement is not passed while the leader does not show it',
    {},
    async (world) => {
      const former = await up(world, 0);
      assert.equal(await append(world, former), 1);
      const next = await up(world, 1); // its claim is at offset 2, and the former owner has not seen it
      const reads = lagging(world, former.process, EVENTS, 2);
      assert.equal(await append(world, former), 'UNAVAILABLE', 'what landed past the claim is void');
      assert.ok(reads.left < 0, 'it was asked until the answer went far enough');
      assert.equal(await append(world, next), 2);
    },
  );

  named(
    '9, 20: a new owner whose leader lags restores all that was acknowledged',
    { flushEntries: 1 },
    async (world) => {
      const former = await up(world, 0);
      for (const version of [1, 2, 3]) assert.equal(await append(world, former), version);
      world.crash(machine(world, 0));
      const restored = world.start(machine(world, 1));
      const reads = lagging(world, restored.process, EVENTS, 2);
      await drain(world);
      assert.ok(restored.open && reads.left < 0);
      assert.equal(await append(world, restored), 4);
    },
  );

  named('20: a log that stays behind what it acknowledged has lost data: its reader stops', {}, async (world) => {
    const former = await up(world, 0);
    assert.equal(await append(world, former), 1);
    await up(world, 1);
    lagging(world, former.process, EVENTS, 2).left = Infinity;
    assert.equal(await append(world, former), 'UNAVAILABLE');
    assert.equal(former.task.status, 'CLOSED');
    assert.match(
      world.problems.splice(0).join(),
      /statefold\.t\.events-0: the log goes to 2, .* up to 3: the log lost data/,
    );
  });

  named(
    '12: retention empties the changes: a fresh process, one with an old store and a standby agree on what comes after',
    { machines: 3, deploys: [p(1)] },
    async (world) => {
      world.deployed.set('p', p(1));
      const old = await up(world, 1);
      await append(world, old);
      await world.close(machine(world, 1));
      for (let owner = 0; owner < 3; owner++) {
        await append(world, await up(world, 0));
        await world.close(machine(world, 0));
      }
      assert.ok(world.trim(true), 'all is told');
      assert.equal(world.log.start(CHANGES), world.log.records(CHANGES).length);

      const fresh = await up(world, 2);
      const standbys = [world.start(machine(world, 0), true), world.start(machine(world, 1), true)];
      await drain(world);
      const told = truthOf(world.log).changes.length;
      await append(world, fresh);
      const after = truthOf(world.log).changes.slice(told);
      assert.equal(after.length, 1, 'it counts for who knows all of the log');
      for (const { pushed } of [fresh, ...standbys])
        assert.deepEqual(
          pushed.slice(-1).map(({ sequence }) => sequence),
          after.map(({ sequence }) => sequence),
        );
      await world.close(machine(world, 2));
      for (const [i, standby] of standbys.entries()) {
        world.promote(standby);
        await drain(world);
        assert.equal(await append(world, standby), 6 + i);
        await world.close(machine(world, i));
      }
    },
  );

  named('12: retention takes what a process is about to read: it opens anew', { deploys: [p(1)] }, async (world) => {
    world.deployed.set('p', p(1));
    for (let owner = 0; owner < 2; owner++) {
      const running = await up(world, 0);
      for (let i = 0; i < 2; i++) await append(world, running);
      await world.close(machine(world, 0));
    }
    const late = world.start(machine(world, 1));
    await drain(world, ({ label }) => !label.startsWith('(m1.1) read changes'));
    assert.ok(world.trim() && world.log.start(CHANGES) > 0);
    await drain(world);
    assert.ok(!late.open && machine(world, 1).running === undefined, 'the records between were not read');
    assert.equal(await append(world, await up(world, 1)), 5);
  });

  named(
    '12: retention takes the later part of a release: who comes back with the first part tells nothing again',
    { deploys: [p(1)], changesPerProduce: 1, flushEntries: 1 },
    async (world) => {
      world.deployed.set('p', p(1));
      const old = await up(world, 0);
      await append(world, old, { bad: true });
      for (let i = 0; i < 3; i++) await append(world, old);
      post(world, old.process, 'a skip', () => {
        const any = { projectionId: 'p', eventId: undefined, version: undefined, className: undefined };
        old.task.faults.releaseKeys({ ...any, mode: 'skip', key: 'k' }).catch(() => undefined);
      });
      const told = (): number => truthOf(world.log).changes.filter(({ value }) => value.cause === 'skip').length;
      await drain(world, ({ label }) => told() === 0 || !label.includes('to changes land'));
      assert.equal(told(), 1);
      world.crash(machine(world, 0));
      for (let owner = 0; owner < 2; owner++) {
        await up(world, 1);
        assert.equal(told(), 3, 'the next owner tells the rest, once');
        await world.close(machine(world, 1));
      }
      assert.ok(world.trim(), 'all is told');
      const late = await up(world, 0);
      assert.equal(told(), 3);
      assert.deepEqual(late.pushed, [], 'nobody else would take it for a change');
      assert.equal(await append(world, late), 5);
    },
  );

  named(
    '12: retention takes all that came after the first part of a release: its store does not tell how far inputs were told',
    { deploys: [p(1)], changesPerProduce: 1, flushEntries: 1 },
    async (world) => {
      world.deployed.set('p', p(1));
      const old = await up(world, 0);
      await append(world, old, { bad: true });
      for (let i = 0; i < 3; i++) await append(world, old);
      post(world, old.process, 'a skip', () => {
        const any = { projectionId: 'p', eventId: undefined, version: undefined, className: undefined };
        old.task.faults.releaseKeys({ ...any, mode: 'skip', key: 'k' }).catch(() => undefined);
      });
      const told = (): number => truthOf(world.log).changes.filter(({ value }) => value.cause === 'skip').length;
      await drain(world, ({ label }) => told() === 0 || !label.includes('to changes land'));
      assert.equal(told(), 1);
      world.crash(machine(world, 0));
      for (let owner = 0; owner < 2; owner++) {
        await append(world, await up(world, 1), { keys: ['z'], aggregateId: 'acc-1' });
        assert.equal(told(), 3, 'the next owner tells the rest, once');
        await world.close(machine(world, 1));
      }
      assert.ok(world.trim(true), 'all is told');
      const late = await up(world, 0);
      assert.equal(told(), 3);
      assert.deepEqual(late.pushed, [], 'nobody else would take it for a change');
      assert.equal(await append(world, late), 5);
    },
  );

  named(
    '11: retention takes parts of an input between the first one, which a store has, and the last ones',
    { machines: 3, deploys: [p(1)], changesPerProduce: 1, flushEntries: 1 },
    async (world) => {
      world.deployed.set('p', p(1));
      const told = (): number => truthOf(world.log).changes.length;
      const first = await up(world, 0);
      await append(world, first, { keys: MANY });
      const [before, all] = [told(), told() + MANY.length];
      send(world, first, { keys: MANY });
      await crashAfterPart(world, 0);
      world.start(machine(world, 1));
      await crashAfterPart(world, 1);
      assert.ok(told() > before && told() < all);
      await up(world, 2);
      await world.close(machine(world, 2));
      const { claims, changes } = truthOf(world.log);
      const last = claims.at(-1) ?? 0;
      world.log.trim(CHANGES, last);
      const seen = await up(world, 0);
      assert.equal(told(), all);
      assert.deepEqual(
        seen.pushed.map(({ key }) => key),
        changes.filter(({ sequence }) => sequence > last).map(({ value }) => value.key),
        'these were left',
      );
    },
  );

  for (const left of ['the last part', 'nothing'])
    named(
      `11: of an input in parts a store has those in the middle alone, and then retention leaves ${left}`,
      { machines: 3, deploys: [p(1)], changesPerProduce: 1, flushEntries: 1 },
      async (world) => {
        world.deployed.set('p', p(1));
        const told = (): number => truthOf(world.log).changes.length;
        const first = await up(world, 0);
        await append(world, first, { keys: MANY });
        const all = told() + MANY.length;
        send(world, first, { keys: MANY });
        await crashAfterPart(world, 0);
        world.start(machine(world, 1));
        await crashAfterPart(world, 1);
        assert.ok(told() < all);
        await up(world, 0);
        const { claims } = truthOf(world.log);
        const [middle = 0, last = 0] = claims.slice(-2);
        await interrupted(world, 2, { from: middle, end: middle + 2 });
        world.log.trim(CHANGES, left === 'nothing' ? world.log.records(CHANGES).length : last);
        await drain(world);
        await world.close(machine(world, 0));
        assert.equal(await append(world, await up(world, 2), { keys: ['z'] }), 3);
        assert.equal(told(), all + 1);
      },
    );

  for (const repeated of [true, false])
    named(
      `11, 12: retention leaves a claim that came late as the first, ${repeated ? 'and one that the owner repeated' : 'and no other'}`,
      LATE_CLAIM,
      (world) => lateClaim(world, repeated),
    );

  mutant(
    'a reader that believes the first claim that retention left',
    async (seed) =>
      (await simulate({ ...calm(seed), clients: 0, ...LATE_CLAIM }, (world) => lateClaim(world, false))).problems
        .length,
    PartitionReader.prototype,
    'isSure',
    () => () => true,
  );

  for (const left of ['those of a later one', 'nothing'])
    named(
      `11, 12: a store has the changes of one input past what retention took, and then retention leaves ${left}`,
      { machines: 3, deploys: [p(1)], flushEntries: 1 },
      async (world) => {
        world.deployed.set('p', p(1));
        const told = (): number => truthOf(world.log).changes.length;
        for (const key of ['a', 'a', 'b', 'b']) {
          await append(world, await up(world, 0), { keys: [key] });
          await world.close(machine(world, 0));
        }
        const [, from = 0, end = 0, last = 0] = truthOf(world.log).claims;
        await interrupted(world, 2, { from, end });
        world.log.trim(CHANGES, left === 'nothing' ? world.log.records(CHANGES).length : last);
        await drain(world);
        assert.equal(await append(world, await up(world, 2), { keys: ['z'] }), 5);
        assert.equal(told(), 5, 'none is told twice');
      },
    );

  named(
    '12: a swap that is told in part past what retention took is told to its end by an owner without a store',
    { changesPerProduce: 1 },
    async (world) => {
      await up(world, 0);
      await world.close(machine(world, 0));
      assert.ok(world.trim(true) && world.log.start(CHANGES) > 0);
      const former = await up(world, 0);
      await append(world, former, { keys: ['a', 'b', 'c'] });
      world.deployed.set('p', p(1));
      post(world, former.process, 'a deployment', () => former.task.deploy(p(1)));
      const told = (): number => truthOf(world.log).changes.length;
      await drain(world, ({ label }) => told() === 0 || !label.includes('to changes land'));
      assert.equal(told(), 1);
      world.crash(machine(world, 0));
      await up(world, 1);
      assert.equal(told(), 3);
    },
  );

  named(
    '11: a standby on a store that retention has left behind takes no input for one without changes',
    { deploys: [p(1)] },
    async (world) => {
      world.deployed.set('p', p(1));
      let owner = await up(world, 0);
      await append(world, owner, { bad: true });
      await append(world, owner, { aggregateId: 'acc-1', keys: ['j'] });
      await world.close(machine(world, 0));
      assert.ok(world.trim(true), 'all is told');
      owner = await up(world, 0);
      for (let standby = 0; standby < 2; standby++) {
        const { process } = world.start(machine(world, 1), true);
        await append(world, owner, { aggregateId: 'acc-1', keys: ['j'] });
        assert.ok(process.alive);
        if (standby === 0) await world.close(machine(world, 1));
      }
      const { running } = machine(world, 1);
      assert.ok(running?.standby);
      const told = truthOf(world.log).changes.length;
      world.promote(running);
      await drain(world);
      assert.equal(await append(world, running), 2);
      assert.equal(truthOf(world.log).changes.length, told, 'the key still stands at its fault');
    },
  );

  named(
    '11: changes that the log refuses are tried again after a pause, and what comes meanwhile goes with them',
    { deploys: [p(1)] },
    async (world) => {
      world.deployed.set('p', p(1));
      const owner = await up(world, 0);
      let [refusing, tries] = [true, 0];
      world.log.fate = (_process, to) => {
        if (to.topic !== CHANGES) return undefined;
        tries++;
        return refusing ? 'refused' : undefined;
      };
      const noTimer = ({ label }: Action): boolean => label !== 'timer';
      for (let i = 0; i < 3; i++) {
        const sent = send(world, owner);
        await drain(world, noTimer);
        assert.equal(versionOf(sent), i + 1, 'appends go on');
      }
      assert.equal(tries, 1, 'not tried again before a pause is over');
      for (let steps = 0; tries < 4; steps++) {
        assert.ok(steps < 5000 && (await world.scheduler.next()));
      }
      refusing = false;
      await drain(world);
      assert.equal(tries, 5, 'all in one produce');
      assert.equal(truthOf(world.log).changes.length, 3);
    },
  );

  for (const strictReads of [false, true])
    named(
      `7: an owner that is cut off with a deposed leader ${strictReads ? 'answers no read under strictReads' : 'answers from what it knew'}`,
      { strictReads },
      async (world) => {
        const former = await up(world, 0);
        assert.equal(await append(world, former), 1);
        const next = await up(world, 1);
        assert.equal(await append(world, next), 2);
        world.log.deposed = (process, of) => (process === former.process && of.topic === EVENTS ? 2 : undefined);
        world.log.fate = (process, to) => (process === former.process && to.topic === EVENTS ? 'dropped' : undefined);
        let seen: number | string | undefined;
        post(world, former.process, 'a read', () => {
          former.task.first
            .events({ aggregateId: 'acc-0', fromVersion: 1, toVersion: undefined, limit: 10, direction: 'forward' })
            .then(
              ({ events }) => (seen = events.length),
              (error: unknown) => (seen = (error as StatefoldError).code),
            );
        });
        await drain(world);
        assert.equal(seen, strictReads ? 'UNAVAILABLE' : 1);
        world.log.deposed = world.log.fate = undefined;
      },
    );

  named(
    '7: strict reads answer past a write: one that is under way for all that wait, a claim where nothing is',
    { strictReads: true },
    async (world) => {
      const owner = await up(world, 0);
      assert.equal(await append(world, owner), 1);
      const before = world.log.records(EVENTS).length;
      const answers = [0, 0, 0, 0].map(() => send(world, owner, { expected: 9 }));
      await drain(world);
      assert.deepEqual(answers.map(versionOf), Array(4).fill('VERSION_CONFLICT'));
      const { length } = world.log.records(EVENTS);
      assert.ok(length > before && length <= before + 4);
      assert.equal(truthOf(world.log).epochs, 1, 'the epoch goes on');
      assert.equal(await append(world, owner), 2);
      assert.equal(await append(world, await up(world, 1)), 3);
    },
  );

  named('3, 4: a produce whose answer was lost is answered once, at the place where it landed', {}, async (world) => {
    const owner = await up(world, 0);
    let lost = 0;
    world.log.fate = (_process, to) => (to.topic === EVENTS && lost++ === 0 ? 'lost' : undefined);
    const first = send(world, owner);
    const second = send(world, owner, { aggregateId: 'acc-1' });
    await drain(world);
    assert.deepEqual([versionOf(first), versionOf(second)], [1, 1]);
    assert.equal(await append(world, owner), 2);
    assert.equal(truthOf(world.log).commits.length, 3);
    assert.equal(truthOf(world.log).epochs, 2, 'the epoch ended');
  });

  named('3: a produce that never arrived is decided again', {}, async (world) => {
    const owner = await up(world, 0);
    let dropped = 0;
    world.log.fate = (_process, to) => (to.topic === EVENTS && dropped++ === 0 ? 'dropped' : undefined);
    assert.equal(await append(world, owner, { expected: 0 }), 1);
    assert.equal(truthOf(world.log).commits.length, 1);
  });

  named('3: a refused produce is answered as not stored, and the epoch goes on', {}, async (world) => {
    const owner = await up(world, 0);
    let refused = 0;
    world.log.fate = (_process, to) => (to.topic === EVENTS && refused++ === 0 ? 'refused' : undefined);
    assert.equal(await append(world, owner), 'UNAVAILABLE');
    assert.equal(await append(world, owner), 1);
    assert.equal(truthOf(world.log).epochs, 1);
  });

  named(
    '8: a produce of the former owner that lands after the claim is void, and nobody is told otherwise',
    {},
    async (world) => {
      const former = await up(world, 0);
      const late = send(world, former);
      await drain(world, (action) => !action.label.includes('record to events land'));
      const next = world.start(machine(world, 1));
      // Only the new owner's records arrive.
      await drain(world, (action) => !action.label.includes('(m0.1)'));
      assert.ok(next.open);
      const mine = send(world, next, { expected: 0 });
      await drain(world, (action) => !action.label.includes('(m0.1)'));
      assert.equal(versionOf(mine), 1);
      assert.equal(versionOf(late), undefined);
      await drain(world);
      assert.equal(versionOf(late), 'UNAVAILABLE');
      assert.equal(await append(world, next, { expected: 1 }), 2);
      assert.ok(truthOf(world.log).voids > 0);
    },
  );

  named('7, 8: a paused former owner neither reads nor refuses from what it knew', {}, async (world) => {
    const former = await up(world, 0);
    assert.equal(await append(world, former), 1);
    former.process.paused = true;
    const next = await up(world, 1);
    assert.equal(await append(world, next, { expected: 1 }), 2);
    former.process.paused = false;
    let read: unknown;
    const refused = send(world, former, { expected: 2 });
    post(world, former.process, 'read', () => {
      former.task.first
        .events({ aggregateId: 'acc-0', fromVersion: 1, toVersion: undefined, limit: 10, direction: 'forward' })
        .catch((error: unknown) => (read = error));
    });
    await drain(world);
    assert.equal(versionOf(refused), 'UNAVAILABLE', 'not a conflict: its version 1 is not the version');
    assert.equal((read as StatefoldError).code, 'UNAVAILABLE');
    assert.equal(former.task.status, 'CLOSED');
  });

  named('6: a refusal waits for the acknowledgement of what it rests on', {}, async (world) => {
    const owner = await up(world, 0);
    const first = send(world, owner);
    const second = send(world, owner, { expected: 0 });
    await drain(world, unheard('events'));
    assert.deepEqual([versionOf(first), versionOf(second)], [undefined, undefined]);
    await drain(world);
    assert.deepEqual([versionOf(first), versionOf(second)], [1, 'VERSION_CONFLICT']);
    // Where the first never makes it, there is nothing to refuse the second for.
    world.log.fate = (_process, to) => (to.topic === EVENTS ? 'dropped' : undefined);
    const third = send(world, owner, { aggregateId: 'acc-1' });
    const fourth = send(world, owner, { aggregateId: 'acc-1', expected: 0 });
    for (let i = 0; i < 60; i++) await world.scheduler.next();
    assert.equal(versionOf(fourth), undefined);
    world.crash(machine(world, 0));
    world.log.fate = undefined;
    const next = await up(world, 1);
    assert.deepEqual(
      [versionOf(third), await append(world, next, { aggregateId: 'acc-1', expected: 0 })],
      [undefined, 1],
    );
  });

  named('6: of racers with the same expected version one wins', {}, async (world) => {
    const owner = await up(world, 0);
    const racers = Array.from({ length: 8 }, () => send(world, owner, { expected: 0 }));
    await drain(world);
    const answers = racers.map(versionOf);
    assert.equal(answers.filter((answer) => answer === 1).length, 1);
    assert.equal(answers.filter((answer) => answer === 'VERSION_CONFLICT').length, 7);
  });

  named('4: a repeat while the first is under way gets its answer; another body is refused', {}, async (world) => {
    const owner = await up(world, 0);
    const calls = ['one', 'one', 'two'].map((body) => send(world, owner, { key: 'k', body }));
    await drain(world);
    assert.deepEqual(calls.map(versionOf), [1, 1, 'IDEMPOTENCY_KEY_REUSED']);
    const [first, second] = calls.map(({ answer }) => answer as AppendResult);
    assert.deepEqual(second, first);
    assert.equal(
      await append(world, owner, { key: 'k', body: 'one', aggregateId: 'acc-1' }),
      1,
      'the scope of a key is its aggregate',
    );
  });

  named(
    '4, 9: keys are forgotten by offset, at the same place by an owner without a store',
    { window: 6 },
    async (world) => {
      const owner = await up(world, 0);
      assert.equal(await append(world, owner, { key: 'k' }), 1); // at offset 1, after the claim
      for (let version = 2; version <= 6; version++) assert.equal(await append(world, owner), version);
      assert.equal(
        await append(world, owner, { key: 'k' }),
        1,
        'the end is 7: offset 1 is the last that is remembered',
      );
      world.crash(machine(world, 0));
      const next = await up(world, 1); // its claim is at offset 7: now the key is past the window
      assert.equal(await append(world, next, { key: 'k' }), 7);
      assert.equal(await append(world, next, { key: 'k' }), 7);
    },
  );

  named('11: all changes of an input go in one produce', { deploys: [p(1)] }, async (world) => {
    world.deployed.set('p', p(1));
    const owner = await up(world, 0);
    const produces: number[][] = [];
    world.log.fate = (_process, to, records) => {
      if (to.topic !== CHANGES) return undefined;
      const bodies = records.map(({ value }) => (value === null ? undefined : codecs.changes.decode(value)?.body));
      produces.push(bodies.flatMap((body) => (body?.kind === 'Change' ? [body.value.inputOffset] : [])));
      return undefined;
    };
    for (let i = 0; i < 5; i++) send(world, owner, { keys: ['x', 'y', 'z'] });
    await drain(world);
    const inputs = produces.flat();
    assert.equal(inputs.length, 15);
    for (const input of new Set(inputs))
      assert.equal(produces.filter((produce) => produce.includes(input)).length, 1, `input ${input}`);
  });

  const ERASED_AMID_SWAP = { aggregates: 2, erasures: 1, changesPerProduce: 1 };
  named(
    '11, 12: a swap in the middle of which an aggregate is erased tells each other key, once',
    ERASED_AMID_SWAP,
    async (world) => assert.equal(await erasedAmidSwap(world), 'a,b,c,d'),
  );
  mutant(
    'a swap that goes on by number behind what was told before an erasure',
    async (seed) => {
      let told: string | undefined;
      await simulate(
        { ...calm(seed), clients: 0, machines: 2, deploys: [], ...ERASED_AMID_SWAP },
        async (world) => void (told = await erasedAmidSwap(world)),
      );
      return told === 'a,b,c,d' ? 0 : 1;
    },
    ToldOfSwap,
    'of',
    () => () => Promise.resolve(undefined),
  );

  const HALF_ERASED = { aggregates: 3, erasures: 1 };
  named('an owner that ends between two redactions leaves all of the others’ events', HALF_ERASED, async (world) =>
    assert.equal(await halfErased(world), 3),
  );
  mutant(
    'redactions from the first record on',
    async (seed) => {
      let end: number | string | undefined;
      await simulate(
        { ...calm(seed), clients: 0, machines: 2, deploys: [], ...HALF_ERASED },
        async (world) => void (end = await halfErased(world)),
      );
      return end === 3 ? 0 : 1;
    },
    PartitionTables.prototype,
    'recordsOf',
    (original) =>
      function* (this: PartitionTables, aggregateId: string) {
        yield* [...original.call(this, aggregateId)].reverse();
      },
  );

  named('nothing is tombstoned before what counts of each record is without the aggregate', HALF_ERASED, lateRedaction);
  mutant(
    'tombstones that are written before it is verified what counts of each record',
    async (seed) => {
      const outcome = await simulate(
        { ...calm(seed), clients: 0, machines: 2, deploys: [], ...HALF_ERASED },
        async (world) => {
          await lateRedaction(world);
          await world.settle();
        },
      );
      return outcome.problems.length;
    },
    Erasures.prototype,
    'isTakenOut',
    () => () => Promise.resolve(true),
  );

  named(
    '11: a store that is written while changes are under way does not count them; a crash folds them again',
    { deploys: [p(1)], flushEntries: 1 },
    async (world) => {
      world.deployed.set('p', p(1));
      const owner = await up(world, 0);
      await append(world, owner, { keys: ['x', 'y'] });
      send(world, owner, { keys: ['x'] });
      // The store is committed as often as it likes; the changes don't arrive.
      await drain(world, (action) => !/to changes (land|are)/.test(action.label));
      world.crash(machine(world, 0));
      await up(world, 0);
      await drain(world);
      assert.equal(
        truthOf(world.log)
          .changes.filter(({ value }) => value.key === 'x')
          .at(-1)
          ?.value.state?.toString()
          .split(',').length,
        2,
      );
    },
  );

  named(
    '11, 12: a crash after changes landed and before the store knew takes them as recorded',
    { deploys: [p(1)] },
    async (world) => {
      world.deployed.set('p', p(1));
      const owner = await up(world, 0);
      await append(world, owner, { keys: ['x', 'y'] });
      for (let crash = 0; crash < 3; crash++) {
        const running = machine(world, 0).running ?? assert.fail();
        send(world, running, { keys: ['x', 'y'] });
        await drain(world, (action) => !action.label.includes('to changes are acknowledged'));
        world.crash(machine(world, 0));
        await up(world, 0);
      }
      const keys = truthOf(world.log).changes.map(({ value }) => `${value.inputOffset} ${value.key}`);
      assert.equal(new Set(keys).size, keys.length);
    },
  );

  named(
    '11, 12: a swap is told once, and a crash in the middle of it changes nothing',
    { deploys: [p(2)] },
    async (world) => {
      world.deployed.set('p', p(1));
      const owner = await up(world, 0);
      for (let i = 0; i < 6; i++) send(world, owner, { keys: [`k${i % 3}`] });
      await drain(world);
      world.deployed.set('p', p(2));
      post(world, owner.process, 'deploy', () => owner.task.deploy(p(2)));
      await drain(world, (action) => !action.label.includes('to changes are acknowledged'));
      world.crash(machine(world, 0));
      const next = await up(world, 1);
      assert.ok(await append(world, next, { keys: ['k0'] }));
      const swaps = truthOf(world.log)
        .changes.filter(({ value }) => value.revision === 2 && value.cause === 'redeploy')
        .map(({ value }) => value.key);
      assert.equal(new Set(swaps).size, swaps.length);
    },
  );

  named('11: a redeploy while the swap of the one before is written', {}, async (world) => {
    world.deployed.set('p', p(1));
    const owner = await up(world, 0);
    for (let i = 0; i < 6; i++) send(world, owner, { keys: [`k${i % 3}`] });
    await drain(world, (action) => !action.label.includes('to changes are acknowledged'));
    for (const revision of [2, 3]) {
      world.deployed.set('p', p(revision));
      post(world, owner.process, `deploy ${revision}`, () => owner.task.deploy(p(revision)));
    }
    for (let i = 0; i < 40; i++) await world.scheduler.next();
    assert.ok(await append(world, owner, { keys: ['k0'] }));
  });

  it('9, 11, 12: a rollback goes on from states that were kept; a crash in its swap, and an owner that has none of them, change nothing', async (t) => {
    let adopted = 0;
    const { adopt } = Object.getOwnPropertyDescriptors(KeptRevisions.prototype);
    t.after(() => void Object.defineProperty(KeptRevisions.prototype, 'adopt', adopt));
    KeptRevisions.prototype.adopt = function (...of) {
      const found = adopt.value?.apply(this, of);
      if (found !== undefined) adopted++;
      return found;
    };
    const deploy = (world: World, { process, task }: Running, target: WorldOptions['deploys'][number]): void => {
      world.deployed.set('p', target);
      post(world, process, `deploy ${target.revision}`, () => task.deploy(target));
    };
    await play20({}, async (world) => {
      world.deployed.set('p', p(1));
      const owner = await up(world, 0);
      for (const revision of [1, 2]) {
        deploy(world, owner, p(revision));
        await drain(world);
        for (let i = 0; i < 5; i++) send(world, owner, { keys: [`k${i % 3}`, `only-${revision}`] });
        await drain(world);
      }
      deploy(world, owner, { ...p(3), artefactId: 'p-1', cause: 'rollback' });
      await drain(world, (action) => !action.label.includes('to changes are acknowledged'));
      world.crash(machine(world, 0));
      const next = await up(world, world.options.seed % 2);
      assert.ok(await append(world, next, { keys: ['k0'] }));
      deploy(world, next, { ...p(4), artefactId: 'p-1', cause: 'rebuild' });
      await drain(world);
      const told = truthOf(world.log).changes.filter(({ value }) => value.cause === 'rebuild');
      assert.deepEqual(told, [], 'the same code from the start comes to the same states');
    });
    assert.ok(adopted > 0);
  });

  named(
    '9: a task that stopped is closed whole before the next one opens its store',
    { flushEntries: 1 },
    async (world) => {
      const former = await up(world, 0);
      assert.equal(await append(world, former), 1);
      const next = await up(world, 1);
      assert.equal(await append(world, next), 2);
      assert.equal(await append(world, former), 'UNAVAILABLE');
      assert.equal(machine(world, 0).running, undefined);
      const again = await up(world, 0);
      assert.equal(await append(world, again), 3);
    },
  );
});
