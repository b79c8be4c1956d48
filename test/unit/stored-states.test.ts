import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { silentLogger } from '../../src/core/logger.js';
import { KeptStates } from '../../src/store/kept-states.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables, type ReducerState } from '../../src/store/partition-tables.js';

const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };
const fence = { epoch: 1, owner: 'o', position: 1, lastRecordId: '' };

/** What the states take that lie in the store, by going over all of them. */
function lying({ section }: PartitionTables): number {
  let bytes = 0;
  for (const [key, row] of section.range('r', 't'))
    bytes +=
      100 +
      (key.startsWith('r') ? key.length - 1 : key.length) +
      ((row as unknown[])[key.startsWith('r') ? 2 : 0] as Buffer).length;
  for (const [key, rows] of section.range('j', 'k'))
    for (const [, , state] of rows as [number, number, Buffer][]) bytes += 100 + key.length - 1 + state.length;
  return bytes;
}

test('the bytes of states are those that lie in the store, whatever sets, replaces, keeps, erases and drops them, and after a restart', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-states-'));
  const store = new LocalStore({ path, logger: silentLogger });
  t.after(async () => {
    await store.close();
    rmSync(path, { recursive: true });
  });
  let world = 0;
  const at = fc.nat(3);
  const length = fc.oneof(fc.nat(50), fc.constantFrom(700_000));
  const step = fc.oneof(
    fc.record({ what: fc.constant('reduce' as const), at, length, generation: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ what: fc.constant('project' as const), at, length, revision: fc.integer({ min: 1, max: 2 }) }),
    fc.record({ what: fc.constantFrom('unreduce' as const, 'unproject' as const, 'erase' as const), at }),
    fc.record({ what: fc.constantFrom('drop' as const, 'remove' as const, 'flush' as const, 'restart' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const section = store.section(`t${++world}`);
      let tables = new PartitionTables(section);
      section.onCheckpoint(() => tables.setCheckpoint({ events: fence, changes: fence, projected: 1 }));
      const stored = (): number => tables.bytes.total(0);
      for (const one of steps) {
        if (one.what === 'reduce') {
          const before = tables.reducerState(`a-${one.at}`);
          const state: ReducerState = {
            generation: one.generation,
            version: 1,
            state: Buffer.alloc(one.length),
            lastModified: 1,
            offset: 1,
            fault: undefined,
          };
          const former = [1, 2, 3].map((generation) => ({ generation, artefactId: `f${generation}`, className: 'C' }));
          if (before !== undefined && before.generation !== one.generation)
            new KeptStates(tables, 2).replaced(`a-${one.at}`, before, {
              aggregateType: 'a',
              generation: one.generation,
              artefactId: `f${one.generation}`,
              className: 'C',
              former,
            });
          tables.setReducerState(`a-${one.at}`, state, before);
        } else if (one.what === 'project')
          tables.setKeyState('p', one.revision, `k${one.at}`, 0, {
            state: Buffer.alloc(one.length),
            sequence: 1,
            lastModified: 1,
            fault: undefined,
            origin,
          });
        else if (one.what === 'unreduce') tables.dropReducerState(`a-${one.at}`);
        else if (one.what === 'erase') tables.erase(`a-${one.at}`, { aggregateType: 'a', offset: 1, timestamp: 1 });
        else if (one.what === 'unproject') tables.dropKeyState('p', 1, `k${one.at}`, 0);
        else if (one.what === 'drop') tables.dropRevision('p', 1);
        else if (one.what === 'remove') tables.drops.removeSome(2);
        else {
          await section.flush();
          if (one.what === 'restart') tables = new PartitionTables(section);
        }
        assert.equal(stored(), lying(tables));
      }
      tables.dropRevision('p', 1);
      tables.dropRevision('p', 2);
      while (tables.drops.removeSome(2));
      for (let i = 0; i < 4; i++) tables.dropReducerState(`a-${i}`);
      assert.equal(stored(), lying(tables));
      await section.close();
    }),
    { numRuns: 60 },
  );
});
