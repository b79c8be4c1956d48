// Folds that find no room in memory are dropped, and made good from the log: no state may lack an event, whatever was dropped.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import type { CodeHost, FoldItem, FoldOutcome, Runner } from '../../src/code-host/code-host.js';
import { MemoryBudget } from '../../src/core/budget.js';
import type { AppendCommand } from '../../src/core/event.js';
import { uuidv7 } from '../../src/core/ids.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LocalStore } from '../../src/store/local-store.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { bindAll, codecs, NO_CODE, testGround } from '../support/ground.js';
import { temporaryDirectory, until } from '../support/service.js';

const MIB = 1024 * 1024;

/** A reducer whose state is the list of the versions that it folded. It waits at a gate. */
class VersionsRunner {
  waiting = 0;
  /** Most events of one aggregate that it was asked to fold at once. */
  most = 0;
  #open: (() => void) | undefined;
  #gate = new Promise<void>((resolve) => (this.#open = resolve));

  release(): void {
    this.#open?.();
  }

  shut(): void {
    this.#gate = new Promise((resolve) => (this.#open = resolve));
  }

  async fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    this.waiting++;
    await this.#gate;
    this.waiting--;
    return items.map(({ baseState, baseVersion, events, stateAt }) => {
      this.most = Math.max(this.most, events.length);
      const before = baseState();
      let versions = before === null ? [] : (JSON.parse(before.toString()) as number[]);
      const states: { version: number; state: Buffer }[] = [];
      for (const { version } of events) {
        versions = [...versions, version];
        if (stateAt.includes(version)) states.push({ version, state: Buffer.from(JSON.stringify(versions)) });
      }
      const last = events.at(-1)?.version ?? baseVersion;
      if (states.at(-1)?.version !== last) states.push({ version: last, state: Buffer.from(JSON.stringify(versions)) });
      return { states };
    });
  }
}

async function slowTenant(t: TestContext) {
  const directory = temporaryDirectory(t);
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const ground = { ...testGround({ directory }), budget };
  const log = new LmdbLog({ path: join(directory, 'log') });
  const store = new LocalStore({ path: join(directory, 'store'), logger: ground.logger, budget });
  const runner = new VersionsRunner();
  const host = {
    runner: () =>
      ({
        load: () => undefined,
        has: () => true,
        unload: () => undefined,
        forget: () => undefined,
        project: () => Promise.resolve([]),
        fold: (items: readonly FoldItem[]) => runner.fold(items),
      }) as unknown as Runner,
  } as unknown as CodeHost;
  const definitions = {
    ...NO_CODE,
    bindAll: bindAll({ aggregateType: 'T', artefactId: 'r', className: 'R', generation: 1 }),
    assembly: () => Promise.resolve(Buffer.alloc(1)),
  };
  const options = taskOptions(ground, { log, codecs, store }, host, 'acme', definitions);
  const task = new TenantTask({ ...options, onStopped: () => undefined });
  t.after(async () => {
    runner.release();
    await task.close();
    await store.close();
    await log.close();
    await ground.close();
  });
  await task.open();
  const append = (aggregateId: string, bytes: number) => {
    const command: AppendCommand = {
      commandId: uuidv7(),
      keyed: false,
      requestHash: Buffer.alloc(0),
      aggregateId,
      aggregateType: 'T',
      expectedVersion: 'any',
      correlationId: undefined,
      causationId: undefined,
      metadata: undefined,
      events: [{ eventType: 'e', data: Buffer.from(JSON.stringify('x'.repeat(bytes))) }],
    };
    return task.first.append(command);
  };
  return { task, runner, budget, append };
}

const upTo = (version: number): number[] => Array.from({ length: version }, (_, i) => i + 1);

test('a fold that is dropped between two of the same aggregate is made good before the second', async (t) => {
  const { task, runner, budget, append } = await slowTenant(t);
  const others: Promise<unknown>[] = [];
  // Two turns are under way, and most of what folds may hold is taken.
  for (let i = 1; i <= 2; i++) {
    others.push(append(`other-${i}`, 400_000));
    await until(() => runner.waiting === i);
  }
  for (let i = 3; i <= 9; i++) others.push(append(`other-${i}`, 400_000));
  const appends = [append('x', 100), append('x', 800_000), append('x', 100)];
  await until(() => budget.refusals('folds', 'tenant') > 0);
  runner.release();
  const answers = await Promise.all(appends);
  await Promise.all(others);
  for (const { endVersion, state } of answers)
    if (state !== undefined && state !== null) assert.deepEqual(JSON.parse(state.toString()), upTo(endVersion));
  const { version, state } = await task.first.state('T', 'x');
  assert.equal(version, 3);
  assert.deepEqual(JSON.parse(String(state)), upTo(3));
});

test('under more than can be folded no aggregate is left with a hole', async (t) => {
  const { task, runner, budget, append } = await slowTenant(t);
  const aggregates = Array.from({ length: 20 }, (_, i) => `busy-${i}`);
  const appends: Promise<unknown>[] = [];
  for (let round = 0; round < 300; round++) {
    for (const id of aggregates) appends.push(append(id, 1000));
    if (round % 10 === 9) await until(() => aggregates.every((id) => task.first.head(id)?.version === round + 1));
    if (round % 100 === 99) {
      runner.release();
      runner.shut();
    }
  }
  runner.release();
  await Promise.all(appends);
  assert.ok(budget.refusals('folds', 'tenant') > 0, 'nothing was dropped: nothing is proved');
  for (const id of aggregates) {
    const { version, state } = await task.first.state('T', id);
    assert.equal(version, 300);
    assert.deepEqual(JSON.parse(String(state)), upTo(300));
  }
});

test('a read of an aggregate of which many folds were dropped takes them some at a time', async (t) => {
  const { task, runner, budget, append } = await slowTenant(t);
  const appends: Promise<unknown>[] = [];
  // Two turns are under way, and one fold of the aggregate waits behind them.
  for (let i = 1; i <= 2; i++) {
    appends.push(append(`other-${i}`, 10));
    await until(() => runner.waiting === i);
  }
  appends.push(append('x', 10));
  for (let i = 3; budget.refusals('folds', 'tenant') === 0; i++) {
    appends.push(append(`other-${i}`, 400_000));
    await until(() => task.first.head(`other-${i}`) !== undefined);
  }
  const dropped = 6000;
  for (let version = 2; version <= dropped; version += 500) {
    for (let i = 0; i < 500; i++) appends.push(append('x', 10));
    await until(() => task.first.head('x')?.version === version + 499);
  }
  const read = task.first.state('T', 'x');
  await until(() => budget.refusals('folds', 'tenant') > dropped / 2);
  runner.release();
  const { version, state } = await read;
  assert.deepEqual(JSON.parse(String(state)), upTo(version));
  await Promise.all(appends);
  assert.ok(runner.most < 2000, `${runner.most} events of one aggregate were folded at once`);
});
