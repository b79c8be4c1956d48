// Folds that find no room in memory are dropped, and made good from the log: no state may lack an event, whatever was dropped.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/service.js';
import { slowTenant, upTo } from '../support/versions-world.js';

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
