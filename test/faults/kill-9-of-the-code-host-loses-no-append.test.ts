// Invariants 1 to 7 and 9 to 13: the processes of the tenants' code die under load, the service goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reducerOf } from '../support/checker-model.js';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const RUNNER = 'Statefold.Runner.dll';
const COMPILER = 'Statefold.Compiler.dll';
const KILLS = 4;

test('kill -9 of the runner and of the compiler under load', async (t) => {
  const scenario = Scenario.alone(t, { seed: 99, env: { COMPILATIONS_DIR: '' } });
  const { world, history, load } = scenario;
  await scenario.begin();
  load.start();
  const more = async (count: number): Promise<void> => {
    const due = history.acknowledged + count;
    await until(() => history.acknowledged >= due);
  };

  await step(t, 'the runner', async () => {
    const killed: number[] = [];
    for (let kill = 0; kill < KILLS; kill++) {
      const pid = await world.child(RUNNER, killed);
      await more(20);
      process.kill(pid, 'SIGKILL');
      killed.push(pid);
    }
    await world.child(RUNNER, killed);
    await more(20);
  });

  await step(t, 'the compiler, with a compilation under way', async () => {
    const uploads = await Promise.all(
      Array.from({ length: 4 }, () => world.service.upload('reducers', reducerOf('other'))),
    );
    const pid = await world.child(COMPILER);
    process.kill(pid, 'SIGKILL');
    for (const upload of uploads) {
      const { reducerId } = upload.json<{ reducerId: string }>();
      await until(async () => {
        const { status, compilationError } = (await world.service.get(`/reducers/${reducerId}/status`)).json<{
          status: string;
          compilationError?: string;
        }>();
        assert.notEqual(status, 'failed', compilationError);
        return status === 'compiled';
      });
    }
    await more(20);
  });

  await scenario.prove();
  const refused = history.operations.filter(
    ({ request, outcome }) => request.kind === 'append' && (outcome.kind === 'lost' || outcome.status >= 500),
  );
  assert.deepEqual(refused, [], 'an append needs no code: none was refused or lost');
});
