import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { KeyState } from '../../src/store/partition-tables.js';
import { RecordedChanges } from '../../src/store/recorded-changes.js';
import type { Change } from '../../src/core/change.js';
import { localTables } from '../support/local-tables.js';
import { watchHolds } from '../support/holds.js';

const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };
const row = (text: string, fault = false): KeyState => ({
  state: Buffer.from(text),
  sequence: 1,
  lastModified: 1,
  fault: fault ? { ...origin, className: 'C', message: 'bad', file: null, line: null, at: '' } : undefined,
  origin,
});

describe('the index of changes', () => {
  it('finds what was added, by cursor, before and after it is written and trimmed', async (t) => {
    const tables = localTables(t);
    let n = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 900 }),
        fc.array(fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), flush: fc.boolean() }), { maxLength: 4 }),
        async (gaps, trims) => {
          const id = `p${++n}`;
          const all: number[] = [];
          let next = 0;
          const addTo = (end: number): void => {
            for (const gap of gaps.slice(all.length, end)) {
              all.push((next += gap));
              tables.changes.add(id, next);
              // Others' rows are none of its own.
              tables.changes.add(`${id}x`, next);
            }
          };
          let kept = 0;
          for (const { at, flush } of trims) {
            addTo(Math.floor(gaps.length * at));
            if (flush) await tables.section.flush();
            const start = Math.floor(next * at);
            tables.trimChanges(id, start);
            while (tables.drops.removeSome(2)) if (flush) await tables.section.flush();
            kept = Math.max(kept, all.findLast((one) => one < start) ?? 0);
            assert.equal(tables.trimmed(id), kept);
          }
          addTo(gaps.length);
          for (const from of [kept, kept + 1, all[Math.floor(all.length / 2)] ?? 0, next])
            if (from >= kept)
              for (const limit of [1, 7, 1000])
                assert.deepEqual(
                  tables.changes.after(id, from, limit),
                  all.filter((one) => one > from).slice(0, limit),
                );
          assert.equal(
            tables.changes.lastBelow(id, next + 1),
            all.findLast((one) => one <= next),
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  it('tells in milliseconds where to begin when 500,000 changes were trimmed', async (t) => {
    const tables = localTables(t);
    for (let sequence = 1; sequence <= 500_000; sequence++) {
      tables.changes.add('p', sequence);
      if (sequence % 50_000 === 0) await tables.section.flush();
    }
    const holds = watchHolds();
    t.after(() => holds.end());
    tables.trimChanges('p', 499_990);
    assert.equal(tables.trimmed('p'), 499_989);
    assert.deepEqual(tables.changes.after('p', 499_989, 3), [499_990, 499_991, 499_992]);
    const longest = holds.longest();
    assert.ok(longest < 20, `${longest} ms`);
    const blocks = (): number => tables.section.keys('n', 'o', Number.MAX_SAFE_INTEGER).length;
    assert.ok(blocks() < 2100);
    while (tables.drops.removeSome(256)) await tables.section.room();
    assert.equal(blocks(), 1);
  });
});

describe('what is given up', () => {
  it('is gone at once, and removed by and by: what is built under the same number meanwhile stays', async (t) => {
    const tables = localTables(t);
    for (let i = 0; i < 10; i++) tables.setKeyState('p', 1, `old-${i}`, 0, row('old', i < 3));
    for (let i = 0; i < 3; i++) tables.faults.setKey('p', 1, `old-${i}`, 0, true);
    await tables.section.flush();
    tables.dropRevision('p', 1);
    assert.deepEqual([[...tables.keyStates('p', 1)], [...tables.faults.keys('p', 1)]], [[], []]);
    assert.equal(tables.faults.keyCount('p', 1), 0);
    tables.setKeyState('p', 1, 'old-1', 0, row('new'));
    tables.faults.setKey('p', 1, 'old-1', 0, true);
    let slices = 0;
    for (; tables.drops.removeSome(2); slices++) await tables.section.flush();
    assert.ok(slices >= 7, `${slices} slices`);
    assert.deepEqual(
      [...tables.keyStates('p', 1)].map(([key, , { state }]) => [key, state?.toString()]),
      [['old-1', 'new']],
    );
    assert.deepEqual([...tables.faults.keys('p', 1)], [['old-1', 0]]);
    const section = tables.section;
    assert.deepEqual([section.keys('s', 't', 99).length, section.keys('f', 'g', 99).length], [1, 1]);
  });

  it('counts faults of the live revision alone', (t) => {
    const tables = localTables(t);
    tables.setLiveProjection('p', { revision: 1, artefactId: 'x', classNames: ['C'] });
    tables.faults.setKey('p', 1, 'k', 0, true);
    tables.faults.setKey('p', 2, 'k', 0, true);
    tables.faults.setKey('p', 2, 'l', 0, true);
    tables.faults.setKey('q', 1, 'k', 0, true);
    const count = (): number => tables.faults.allKeys((id) => tables.liveProjection(id)?.revision);
    assert.equal(count(), 1);
    tables.setLiveProjection('p', { revision: 2, artefactId: 'y', classNames: ['C'] });
    assert.equal(count(), 2);
    tables.dropProjection('p');
    assert.equal(count(), 0);
  });

  it('holds the changes of an input with many, which go by and by once it was passed', async (t) => {
    const tables = localTables(t);
    const recorded = new RecordedChanges(tables, 20_000);
    const change = (sequence: number): Change => ({
      sequence,
      projectionId: 'p',
      revision: 2,
      className: 'C',
      key: `k${sequence}`,
      ...origin,
      state: Buffer.from('{}'),
      timestamp: 1,
      cause: 'redeploy',
      fault: undefined,
    });
    for (let i = 0; i < 2000; i++) recorded.add(7, `p/${i}`, change(i + 1));
    recorded.add(8, 'p/0', change(3000));
    // From any of them on, in one order, whether it is in memory or in the store.
    const names = [...recorded.past(7, '')].map(([name]) => name);
    assert.equal(new Set(names).size, 2000);
    assert.deepEqual(
      [...recorded.past(7, names[1200] ?? '')].map(([name]) => name),
      names.slice(1201),
    );
    recorded.passed(7);
    while (tables.drops.removeSome(100)) await tables.section.flush();
    assert.deepEqual([[...recorded.of(7)].length, [...recorded.of(8)].length], [0, 1]);
    recorded.save();
    assert.equal(tables.section.keys('w', 'x', 9999).length, 1);
  });
});
