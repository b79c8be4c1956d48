// Lists of the catalog are in order without being sorted, and a page of one costs what it shows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrderedMap } from '../../src/catalog/ordered-map.js';

/** Numbers that look like chance, the same in each run. */
function* chance(seed: number): Generator<number> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state;
  }
}

test('whatever was set, replaced and deleted, all of it and all past a place are ascending', () => {
  const numbers = chance(7);
  const next = (below: number): number => (numbers.next().value as number) % below;
  const map = new OrderedMap<{ readonly id: string; readonly round: number }>();
  const model = new Map<string, { readonly id: string; readonly round: number }>();
  for (let round = 0; round < 30_000; round++) {
    const id = next(3) === 0 ? String(round).padStart(8, '0') : `id-${next(4_000)}`;
    // By turns it grows and shrinks, down to nothing.
    if (next(10) < (Math.floor(round / 6_000) % 2 === 0 ? 2 : 9)) {
      const gone = next(2) === 0 ? id : ([...model.keys()][0] ?? id);
      map.delete(gone);
      model.delete(gone);
    } else {
      map.set({ id, round });
      model.set(id, { id, round });
    }
    if (round % 1_000 !== 0) continue;
    const sorted = [...model.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    assert.deepEqual(map.all(), sorted);
    assert.equal(map.size, model.size);
    for (const after of ['', id, `${id}!`, sorted.at(-1)?.id ?? '', '~'])
      assert.deepEqual(
        [...map.past(after)],
        sorted.filter((one) => one.id > after),
      );
  }
  for (const id of [...model.keys()]) map.delete(id);
  assert.deepEqual([map.size, map.all(), [...map.past('')]], [0, [], []]);
});
