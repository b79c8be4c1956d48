// Invariants 1 to 7 and 9 to 13: the service dies at random moments under load; and what is left is what a cold replay gives.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { seeded } from '../support/load.js';
import { Scenario, step } from '../support/load-scenario.js';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { until } from '../support/service.js';

const KILLS = 7;
const LONGEST_MS = 2000;

test('kill -9 in a loop at random moments', async (t) => {
  const seed = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000);
  const random = seeded(seed);
  const scenario = Scenario.alone(t, { seed, rows: true });
  const { world, history, load } = scenario;
  await scenario.begin();
  for (let kill = 1; kill <= KILLS; kill++) {
    const { pid } = world.service;
    let children: readonly number[] = [];
    await scenario.crash('SIGKILL', async () => {
      await new Promise((resolve) => setTimeout(resolve, random() * LONGEST_MS));
      children = childrenOf(pid);
    });
    await scenario.logOnlyGrew();
    assert.ok(children.length > 0);
    await until(() => children.every((child) => commandLineOf(child) === ''), 15_000); // none outlives the service
    await world.start();
    await load.stop();
  }
  const lost = history.operations.filter(({ outcome }) => outcome.kind === 'lost').length;
  assert.ok(lost > 0, 'no request was lost: the kills hit nothing');
  const warm = await scenario.prove();
  t.diagnostic(
    `${history.operations.length} requests, ${lost} lost, ${warm.log.commits.length} commits, ${warm.log.changes.length} changes, ${warm.log.voids} void`,
  );

  await step(t, 'a cold replay gives the same', async () => {
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
