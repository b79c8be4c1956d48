// Invariants 1 to 7 and 9 to 13, and every row of the read store once: the service dies before and after it writes there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CrashPoint } from '../support/faulty-service.js';
import { Scenario, step } from '../support/load-scenario.js';

test('kill -9 between the log and the read store leaves every row there once', async (t) => {
  const scenario = Scenario.alone(t, { seed: 815, rows: true });
  const points: readonly `${CrashPoint}:${number}`[] = ['before-read-store-insert:4', 'after-read-store-insert:3'];
  await scenario.begin(points[0]);
  for (const [i, point] of points.entries())
    await step(t, point, async () => {
      await scenario.crash('its own');
      await scenario.logOnlyGrew();
      await scenario.world.start(points[i + 1]);
      await scenario.load.stop();
    });
  const { rows, log } = await scenario.prove();
  assert.equal(
    rows?.events.length,
    log.commits.reduce((sum, { events }) => sum + events.length, 0),
  );
});
