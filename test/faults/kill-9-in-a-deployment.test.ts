// Invariants 1 to 7 and 9 to 13: the service dies while new code folds an old history, and the load goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JOURNAL, LANES } from '../support/checker-model.js';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

/** More than some turns of a catch-up, more than what a build leaves to its swap, and more keys than go in a produce. */
const COMMITS = 1400;
const LANES_OF_HISTORY = 2500;

test('kill -9 in a catch-up, a build and a swap', async (t) => {
  const scenario = Scenario.alone(t, { seed: 2310 });
  const { world, load } = scenario;
  await scenario.begin('in-catch-up:3');
  await load.fill('plain', COMMITS, LANES_OF_HISTORY);

  await step(t, 'in-catch-up', async () => {
    // The upload's answer may be lost with the process; the binding is in the log or it isn't, and so it is asked for again.
    await scenario.crash('its own', () => scenario.bind('plain').catch(() => undefined));
    await scenario.logOnlyGrew();
    await world.start('in-build:1');
    await load.stop();
    await scenario.bind('plain');
    await until(async () => {
      const { catchUp } = (await world.service.get('/aggregate-types/plain')).json<{ catchUp?: { status: string } }>();
      return catchUp?.status === 'done';
    });
  });

  // The first fold of a build is behind the live projections' back, the last ones are while they wait for the swap.
  for (const [point, next, projection] of [
    ['in-build, in the background', 'in-build:2', LANES],
    ['in-build, before the swap', 'in-swap:1', JOURNAL],
    ['in-swap', undefined, LANES],
  ] as const)
    await step(t, point, async () => {
      const before = scenario.history.acknowledged;
      // The build of the crash before goes on by itself: the fuse is for the next one alone.
      await scenario.built();
      // A build begins as soon as the upload is stored: its answer may be lost with the process, as above.
      await scenario.crash('its own', () => scenario.project(projection, true).catch(() => undefined));
      await scenario.logOnlyGrew();
      await world.start(next);
      await scenario.findUnanswered();
      await load.stop();
      assert.ok(scenario.history.acknowledged > before);
    });

  const { log, projections } = await scenario.prove();
  assert.equal(new Set(log.swaps.map(({ projectionId }) => projectionId)).size, projections.length);
});
