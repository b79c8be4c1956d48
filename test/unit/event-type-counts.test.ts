import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { firstOf } from '../../src/core/reads.js';
import { EventTypeCounts } from '../../src/store/event-type-counts.js';
import { LocalStore } from '../../src/store/local-store.js';
import { silentLogger } from '../../src/core/logger.js';
import { temporaryDirectory } from '../support/service.js';

const shown = (counts: EventTypeCounts): (readonly [string, number, number, number, string])[] =>
  [...counts.past('')].map(({ eventType, events, firstSeen, lastSeen, aggregateTypes }) => [
    eventType,
    events,
    firstSeen,
    lastSeen,
    aggregateTypes.join(),
  ]);

test('counts are those of the records that the checkpoint names', async (t) => {
  const path = join(temporaryDirectory(t), 'store');
  const open = () => new LocalStore({ path, logger: silentLogger });
  let store = open();
  let section = store.section('acme');
  let counts = new EventTypeCounts(section);
  section.onCheckpoint(() => {
    counts.save();
    section.set('m', 1);
  });
  counts.add('B', 'order', 5);
  counts.add('A', 'order', 7);
  counts.add('B', 'cart', 6);
  counts.add('B', 'order', 9);
  const all = [
    ['A', 1, 7, 7, 'order'],
    ['B', 3, 5, 9, 'order,cart'],
  ];
  assert.deepEqual(shown(counts), all);
  section.set('h', 1);
  await section.flush();
  counts.add('B', 'order', 11); // not in the checkpoint: whoever opens the store folds it again
  assert.equal(counts.of('B')?.events, 4);
  // As a kill leaves it.
  await store.close();
  store = open();
  t.after(() => store.close());
  section = store.section('acme');
  counts = new EventTypeCounts(section);
  assert.deepEqual(shown(counts), all);
  counts.add('B', 'order', 11);
  assert.equal(counts.of('B')?.events, 4);
  assert.equal(counts.of('C'), undefined);
});

test('a tenant that makes up types takes no more than its share', (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger: silentLogger });
  t.after(() => store.close());
  const section = store.section('acme');
  let counts = new EventTypeCounts(section, 300);
  const add = (from: number, to: number): void => {
    for (let i = from; i < to; i++) counts.add(`T${i}`, `a${i % 70}`, i);
  };
  add(0, 290);
  counts.save();
  add(250, 500); // the last ten that find room, and 200 that don't
  for (let i = 0; i < 70; i++) counts.add('T1', `a${i}`, 1);
  assert.equal([...counts.past('')].length, 300);
  assert.equal(counts.others, 200);
  assert.equal(counts.of('T299')?.events, 1);
  assert.equal(counts.of('T260')?.events, 2);
  assert.equal(counts.of('T1')?.aggregateTypes.length, 50);
  counts.save();
  counts = new EventTypeCounts(section, 300);
  assert.deepEqual([[...counts.past('')].length, counts.others, counts.of('T260')?.events], [300, 200, 2]);
  add(299, 301);
  assert.deepEqual([counts.others, counts.of('T299')?.events], [201, 2]);
});

test('a list is read part by part, and each type is there once whatever is counted and written meanwhile', (t) => {
  const store = new LocalStore({ path: join(temporaryDirectory(t), 'store'), logger: silentLogger });
  t.after(() => store.close());
  const counts = new EventTypeCounts(store.section('acme'), 2_000);
  for (let i = 0; i < 950; i++) counts.add(`T${String(i).padStart(4, '0')}`, 'order', i);
  counts.save();
  counts.add('T0950', 'order', 1);
  counts.add('A', 'order', 1);
  const names: string[] = [];
  for (let read = 100; read === 100;) {
    const part = [...firstOf(counts.past(names.at(-1) ?? ''), 100)];
    read = part.length;
    names.push(...part.map(({ eventType }) => eventType));
    counts.add('T0001', 'order', 2);
    counts.add(`U${names.length}`, 'order', 1);
    if (names.length === 300) counts.save();
  }
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(names, names.toSorted());
  assert.ok(names.includes('A') && names.includes('T0950') && names.length >= 952);
});
