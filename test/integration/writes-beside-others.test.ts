// What one tenant has waiting at once is written, and answered, in pieces while others ask: each is in the way of theirs.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { background } from '../../src/core/background.js';
import type { AppendResult, ExpectedVersion, NewEvent } from '../../src/core/event.js';
import { uuidv7 } from '../../src/core/ids.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { NewRecord, PartitionRef } from '../../src/log/log.js';
import { eventsTopic } from '../../src/log/topics.js';
import { openSnapshots, openTasks } from '../../src/app/open-tasks.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { ToldOwnership } from '../support/edge-pair.js';
import { chainCode } from '../support/partition-world.js';
import { codecs, NO_CODE, openRunners, openStore, testGround } from '../support/ground.js';
import { temporaryDirectory } from '../support/service.js';

const TENANT = 'acme';
const EVENT: NewEvent = { eventType: 'Paid', data: Buffer.from('{"n":1}') };

/** Tells how many records each produce of events has. */
class CountedLog extends LmdbLog {
  readonly produces: number[] = [];

  override append(to: PartitionRef, records: readonly NewRecord[]): ReturnType<LmdbLog['append']> {
    if (to.topic === eventsTopic(TENANT)) this.produces.push(records.length);
    return super.append(to, records);
  }
}

/** Clients of two tenants have asked just now. */
function others(): void {
  background.asked('loud');
  background.asked('calm');
}

async function world(t: TestContext, definitions: TenantDefinitions = NO_CODE, partitions = 1) {
  const log = new CountedLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  // On a busy machine a runner takes longer to begin than an append would wait for its state.
  const env = { SNAPSHOT_AFTER_RECORDS: '1000000', FOLD_DEADLINE_MS: '60000' };
  const ground = testGround({ directory: temporaryDirectory(t), env });
  t.after(() => ground.close());
  const ownership = new ToldOwnership();
  ownership.tell(() => 'self');
  const storage = { log, codecs, store: openStore(ground), ownership };
  const registry = openTasks(ground, storage, openRunners(ground), {
    definitionsOf: () => definitions,
    partitionsOf: () => partitions,
    snapshots: openSnapshots(ground, storage, () => partitions),
  });
  await registry.open(TENANT);
  const turn = { count: 0, going: true, others: false };
  t.after(() => (turn.going = false));
  const next = (): void => {
    turn.count++;
    if (turn.others) others();
    if (turn.going) setImmediate(next);
  };
  next();
  const append = async (
    aggregateId: string,
    expectedVersion: ExpectedVersion,
    events: readonly NewEvent[],
    keyed = false,
  ): Promise<AppendResult> => {
    const home = registry.home(TENANT, aggregateId);
    return (home instanceof Promise ? await home : home).append({
      ...{ commandId: keyed ? 'once' : uuidv7(), keyed, requestHash: Buffer.alloc(0) },
      ...{ aggregateId, aggregateType: 'account', expectedVersion, events },
      ...{ correlationId: undefined, causationId: undefined, metadata: undefined },
    });
  };
  /** All at once; gives the records of each produce, and the most that were answered in one turn. */
  const appendAll = async (
    count: number,
    events: number,
    keyed = false,
  ): Promise<{ produces: number[]; answered: number }> => {
    const before = log.produces.length;
    const answers: number[] = [];
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const stored = await append(`a-${i}`, 'any', Array<NewEvent>(events).fill(EVENT), keyed);
        assert.equal(stored.eventIds.length, events);
        if (definitions !== NO_CODE) assert.ok(stored.state !== undefined, stored.stateStatus);
        answers.push(turn.count);
      }),
    );
    const ofTurns = [...new Set(answers)].map((at) => answers.filter((one) => one === at).length);
    return { produces: log.produces.slice(before), answered: Math.max(...ofTurns) };
  };
  /** Appends to one aggregate that are refused, asked for at once; gives on how many turns they were answered. */
  const refuseAll = async (count: number): Promise<number> => {
    const refusal = async (): Promise<number> => {
      await assert.rejects(append('a-refused', 7, [EVENT]), { code: 'VERSION_CONFLICT' });
      return turn.count;
    };
    return new Set(await Promise.all(Array.from({ length: count }, refusal))).size;
  };
  /** From now on clients of others ask on each turn, and time stands still: how long a produce takes decides how much the next one has. */
  const share = (): void => {
    const now = performance.now();
    t.mock.method(performance, 'now', () => now);
    turn.others = true;
    others();
  };
  return { appendAll, refuseAll, share };
}

test('what waits of a tenant that is alone goes in one produce', async (t) => {
  const { appendAll } = await world(t);
  assert.deepEqual((await appendAll(300, 1)).produces, [300]);
  const batches = await appendAll(20, 100);
  assert.deepEqual(batches.produces, [20]);
  assert.ok(batches.answered > 2, `${batches.answered} in a turn`);
});

test('what waits of one tenant goes in several produces, and few of its appends are answered in one turn, while others ask', async (t) => {
  const { appendAll, share } = await world(t);
  share();
  const small = await appendAll(300, 1);
  // Each costs 7, of 200 a produce and 38 a turn.
  assert.deepEqual(small.produces, [...Array<number>(10).fill(29), 10]);
  assert.ok(small.answered <= 6, `${small.answered} in a turn`);
  const batches = await appendAll(20, 100);
  assert.deepEqual(batches.produces, Array<number>(10).fill(2));
  assert.ok(batches.answered <= 1, `${batches.answered} in a turn`);
  assert.deepEqual((await appendAll(3, 1000)).produces, [1, 1, 1], 'one that is larger goes by itself');
});

test('what is refused of one tenant is decided on several turns while others ask', async (t) => {
  const { refuseAll, share } = await world(t);
  share();
  const turns = await refuseAll(300);
  assert.ok(turns >= 8, `on ${turns}`);
});

test('repeated appends, which are answered without a produce, do not hold up what waits behind them', async (t) => {
  const { appendAll, share } = await world(t);
  await appendAll(300, 1, true);
  share();
  assert.deepEqual((await appendAll(300, 1, true)).produces, []);
});

test('few appends are answered in one turn with the states that were folded together, while others ask', async (t) => {
  const { appendAll, share } = await world(t, await chainCode(t));
  // The runner has begun.
  await appendAll(1, 1);
  share();
  // Turns of the runner end whenever it has folded them: also right behind one whose states are being answered.
  for (let i = 0; i < 20; i++) {
    const { answered } = await appendAll(300, 1);
    assert.ok(answered <= 16, `${answered} in a turn`);
  }
});

test('few appends over several partitions are answered in one turn with their places, while others ask', async (t) => {
  const { appendAll, share } = await world(t, NO_CODE, 4);
  // All partitions are open.
  await appendAll(40, 1);
  share();
  const { answered } = await appendAll(300, 1);
  assert.ok(answered <= 32, `${answered} in a turn`);
});
