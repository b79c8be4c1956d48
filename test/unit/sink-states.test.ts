// How many states the sink of the read store asks for at once, and that it gives way to others meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SinkTenant } from '../../src/read-store/sink-tenant.js';
import { ListedLog } from '../integration/sink-fixture.js';
import { busy, turnsDuring } from '../support/loop-turns.js';

const MOST = 32;

test('however small states were, few of those that come are asked for at once: each may be a megabyte', async () => {
  const source = new ListedLog('t');
  const asked: number[] = [];
  const ask = source.aggregateStates.bind(source);
  source.aggregateStates = (ids, ...rest) => {
    asked.push(ids.length);
    return ask(ids, ...rest);
  };
  for (let i = 0; i < 2_000; i++) source.append(`a-${i}`, ['{}']);
  const tenant = new SinkTenant(source, 10_000);
  tenant.start({ events: 0, states: 0, changes: 0 });
  const rows = new Set<string>();
  for (let isEnd = false; !isEnd;) {
    const gathered = await tenant.gather(1024 * 1024);
    for (const row of gathered.rows.aggregateStates) rows.add(row.aggregate_id);
    isEnd = gathered.progress.size === 0;
    tenant.commit(gathered);
  }
  assert.equal(rows.size, 2_000);
  assert.ok(Math.max(...asked) <= MOST, String(Math.max(...asked)));
});

test('others have their turn between the states of a page that are all there already', async () => {
  const source = new ListedLog('t');
  let asked = 0;
  const ask = source.aggregateStates.bind(source);
  source.aggregateStates = (ids, ...rest) => {
    asked++;
    busy(1);
    return ask(ids, ...rest);
  };
  for (let i = 0; i < 2_000; i++) source.append(`a-${i}`, ['{}']);
  const tenant = new SinkTenant(source, 10_000);
  tenant.start({ events: 0, states: 0, changes: 0 });
  const { turns, made } = await turnsDuring(() => tenant.gather(64 * 1024 * 1024));
  assert.equal(made.rows.aggregateStates.length, 2_000);
  assert.ok(asked >= 2_000 / MOST && turns >= asked / 4, `${turns} turns, asked ${asked} times`);
});
