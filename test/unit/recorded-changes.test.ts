import assert from 'node:assert/strict';
import test from 'node:test';
import type { Change } from '../../src/core/change.js';
import { RecordedChanges } from '../../src/store/recorded-changes.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { silentLogger } from '../../src/core/logger.js';
import { seeded } from '../support/load.js';
import { temporaryDirectory } from '../support/service.js';

const change = (input: number, name: string): Change =>
  ({
    sequence: input,
    key: name,
    projectionId: 'p',
    revision: 1,
    className: 'C',
    state: Buffer.from(`${input}/${name}`),
  }) as unknown as Change;
const shown = (changes: Iterable<Change>): string[] => [...changes].map(({ state }) => state?.toString() ?? '').sort();

test('what was recorded of an input is found until it is passed, wherever it lies, also by the next owner', async (t) => {
  const store = new LocalStore({ path: temporaryDirectory(t), logger: silentLogger });
  t.after(() => store.close());
  for (let seed = 1; seed <= 30; seed++) {
    const random = seeded(seed);
    const below = (count: number): number => Math.floor(random() * count);
    const section = store.section(`t${seed}`);
    const tables = new PartitionTables(section);
    const heldBytes = 500 + below(8000);
    let recorded = new RecordedChanges(tables, heldBytes);
    const model = new Map<number, Set<string>>();
    let next = 0;
    let passed = 0;
    for (let step = 0; step < 400; step++) {
      const what = below(10);
      if (what < 5) {
        const input = below(4) === 0 && next > passed ? next - 1 : (next += 1 + below(2)) - 1;
        // Now and then an input has more changes than a page.
        for (let n = below(40) === 0 ? 700 : 1 + below(4); n > 0; n--) {
          const name = `p/${model.get(input)?.size ?? 0}`;
          recorded.add(input, name, change(input, name));
          model.set(input, (model.get(input) ?? new Set()).add(name));
        }
      } else if (what < 8) {
        if (passed >= next) continue;
        assert.deepEqual(
          shown(recorded.of(passed)),
          [...(model.get(passed) ?? [])].map((name) => `${passed}/${name}`).sort(),
          `seed ${seed}, input ${passed}`,
        );
        recorded.passed(passed);
        model.delete(passed++);
      } else if (what === 8) recorded.save();
      else {
        const input = passed + below(next - passed + 2);
        const name = `p/${below(3)}`;
        assert.equal(
          recorded.get(input, name)?.state?.toString(),
          model.get(input)?.has(name) === true ? `${input}/${name}` : undefined,
        );
        assert.deepEqual(
          shown(recorded.of(input)),
          [...(model.get(input) ?? [])].map((one) => `${input}/${one}`).sort(),
        );
        const [from, end] = [passed + below(3), passed + below(next - passed + 3)];
        assert.deepEqual(
          recorded.between(from, end),
          [...model.keys()].filter((one) => one >= from && one < end).sort((a, b) => a - b),
          `seed ${seed}, inputs from ${from} to ${end}`,
        );
        if (below(4) > 0) continue;
        recorded.save();
        await section.flush();
        recorded = new RecordedChanges(tables, heldBytes);
      }
      assert.equal(recorded.last, Math.max(recorded.last, ...model.keys()));
    }
    recorded.save();
    await section.close();
  }
});

test('the recorded inputs of a page are found by few looks into the store: each goes over all that is not written yet', async (t) => {
  const store = new LocalStore({ path: temporaryDirectory(t), logger: silentLogger });
  t.after(() => store.close());
  const section = store.section('t');
  const recorded = new RecordedChanges(new PartitionTables(section), 1000);
  for (let input = 0; input < 5000; input++) recorded.add(input, 'p/0', change(input, 'p/0'));
  recorded.save();
  let looks = 0;
  for (const name of ['keys', 'range'] as const) {
    const real = section[name].bind(section) as (...args: unknown[]) => never;
    section[name] = (...args: unknown[]) => {
      looks++;
      return real(...args);
    };
  }
  assert.equal(recorded.between(1000, 4000).length, 3000);
  assert.ok(looks <= 10, `${looks} looks for 3,000 inputs`);
  await section.close();
});
