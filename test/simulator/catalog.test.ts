import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { PartitionReader } from '../../src/log/journal/partition-reader.js';
import { catalogPlanOf, simulateCatalog } from './catalog-world.js';
import { mutant } from './mutant.js';

/** `SIM_SEED=n` replays one seed with its trace; `SIM_SEEDS=n` runs so many. */
const only = process.env['SIM_SEED'];
const SEEDS = Number(process.env['SIM_SEEDS'] ?? 300);
const BUDGET_MS = 5_000;

it(
  'several processes write one catalog: nothing is lost, doubled or held up',
  { timeout: 24 * BUDGET_MS },
  async (t) => {
    if (only !== undefined) {
      const outcome = await simulateCatalog(catalogPlanOf(Number(only)));
      t.diagnostic(outcome.trace.join('\n'));
      assert.deepEqual(outcome.problems, []);
      return;
    }
    const until = performance.now() + BUDGET_MS;
    const total = { accepted: 0, voids: 0, epochs: 0 };
    let seed = 1;
    for (; seed <= SEEDS && performance.now() < until; seed++) {
      const { problems, trace, ...counts } = await simulateCatalog(catalogPlanOf(seed));
      if (problems.length > 0)
        assert.fail(
          `seed ${seed}: ${problems.join('\n')}\n\nlast steps (SIM_SEED=${seed} prints all):\n${trace.slice(-40).join('\n')}`,
        );
      total.accepted += counts.accepted;
      total.voids += counts.voids;
      total.epochs += counts.epochs;
    }
    t.diagnostic(
      `${seed - 1} of ${SEEDS} seeds: ${total.accepted} writes, ${total.voids} void records, ${total.epochs} epochs`,
    );
    assert.ok(total.voids > seed && total.epochs > 4 * seed, 'faults did happen');
  },
);

const problemsOf = async (seed: number): Promise<number> =>
  (await simulateCatalog(catalogPlanOf(seed))).problems.length;

mutant(
  'a shared writer that forgets a write in flight',
  problemsOf,
  FencedCatalog.prototype,
  'undecided',
  () => () => undefined,
);

mutant(
  'a shared writer that decides a write again without looking whether it landed',
  problemsOf,
  PartitionReader.prototype,
  'readTo',
  (readTo) =>
    function (this: PartitionReader<never>, end) {
      return readTo.call(this, end);
    },
);
