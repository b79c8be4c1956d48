// Invariants 1 to 7 and 9 to 13: the service dies at random moments under load; and what is left is what a cold replay gives.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { seeded } from '../support/load.js';
import { Scenario } from '../support/load-scenario.js';

const KILLS = 7;
const LONGEST_MS = 1200;

test('kill -9 in a loop at random moments', async (t) => {
  const seed = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000);
  const random = seeded(seed);
  const scenario = new Scenario(t, { seed, rows: true });
  const { world, history, load } = scenario;
  await scenario.begin();
  for (let kill = 1; kill <= KILLS; kill++) {
    await scenario.crash('SIGKILL', () => new Promise((resolve) => setTimeout(resolve, random() * LONGEST_MS)));
    await scenario.logOnlyGrew();
    await world.start();
    await load.stop();
  }
  const lost = history.operations.filter(({ outcome }) => outcome.kind === 'lost').length;
  assert.ok(lost > 0, 'no request was lost: the kills hit nothing');
  const warm = await scenario.prove();
  t.diagnostic(`${history.operations.length} requests, ${lost} lost, ${warm.log.commits.length} commits, ${warm.log.changes.length} changes, ${warm.log.voids} void`);

  await t.test('a cold replay gives the same', async () => {
    rmSync(join(world.dataDirectory, 'store'), { recursive: true });
    await world.start();
    const cold = await scenario.settle();
    await world.end('SIGTERM');
    assert.deepEqual([...cold.states], [...warm.states]);
    assert.deepEqual(cold.listed, warm.listed);
    for (const [i, projection] of cold.projections.entries()) {
      assert.deepEqual([...projection.states], [...(warm.projections[i]?.states ?? [])]);
      assert.deepEqual(projection.polled, warm.projections[i]?.polled);
    }
    scenario.judge({ ...cold, log: await scenario.logOnlyGrew() });
  });
});
