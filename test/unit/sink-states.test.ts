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

test('a reading ends soon when its tenant is closed meanwhile, however many states the page has', async () => {
  const source = new ListedLog('t');
  const tenant = new SinkTenant(source, 10_000);
  let asked = 0;
  const ask = source.aggregateStates.bind(source);
  source.aggregateStates = (ids, ...rest) => {
    if (++asked === 2) tenant.detached = true;
    busy(1);
    return ask(ids, ...rest);
  };
  for (let i = 0; i < 2_000; i++) source.append(`a-${i}`, ['{}']);
  tenant.start({ events: 0, states: 0, changes: 0 });
  const gathered = await tenant.gather(64 * 1024 * 1024);
  assert.equal(tenant.isCurrent(gathered), false);
  // A slice has some of them yet, of which the page has 63.
  assert.ok(asked < 20, String(asked));
});

/** Keys whose changes retention took, told by their states; a reading that is under way in one of its phases may come to nothing. */
async function keysTold(forgottenIn: 'states' | 'the fill' | undefined): Promise<readonly string[]> {
  const source = new ListedLog('t');
  for (let i = 0; i < 5; i++) source.change(`k-${i}`, `{"n":${i}}`);
  source.trimmedTo = 4;
  source.append('a', ['{}']);
  const tenant = new SinkTenant(source, 10_000);
  const start = (): void => tenant.start({ events: 0, states: 0, changes: 0 });
  start();
  if (forgottenIn !== undefined) {
    let forgets = true;
    const forget = (): void => {
      if (forgets) tenant.forget();
      forgets = false;
    };
    const [states, fill] = [source.aggregateStates.bind(source), source.projectionStates.bind(source)];
    source.aggregateStates = (...of) => {
      if (forgottenIn === 'states') forget();
      return states(...of);
    };
    source.projectionStates = (...of) => {
      if (forgottenIn === 'the fill') forget();
      return fill(...of);
    };
    assert.equal(tenant.isCurrent(await tenant.gather(1024 * 1024)), false);
    start();
  }
  const keys = new Set<string>();
  for (let isEnd = false; !isEnd;) {
    const gathered = await tenant.gather(1024 * 1024);
    for (const { key } of gathered.rows.projectionStates) keys.add(key);
    isEnd = gathered.progress.size === 0 && !gathered.isPartial;
    tenant.commit(gathered);
  }
  return [...keys].sort();
}

test('a reading that came to nothing does not count as having told states in place of changes that retention took', async () => {
  const all = await keysTold(undefined);
  assert.deepEqual(all, ['k-0', 'k-1', 'k-2', 'k-3', 'k-4']);
  for (const phase of ['states', 'the fill'] as const) assert.deepEqual(await keysTold(phase), all, phase);
});
