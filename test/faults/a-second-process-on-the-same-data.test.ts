// One data directory has one writer: a second process says so and ends, and the first does not notice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Scenario } from '../support/load-scenario.js';
import { startService, until } from '../support/service.js';

test('a second process on the same data directory says so and stops', async (t) => {
  const scenario = Scenario.alone(t, { seed: 2 });
  const { world, history, load } = scenario;
  await scenario.begin();
  load.start();
  await until(() => history.acknowledged > 20);
  await assert.rejects(startService(t, { dataDirectory: world.dataDirectory }), (error: Error) => {
    assert.match(error.message, /exit 1/);
    assert.ok(error.message.includes(`is in use by another Statefold (process ${world.service.pid})`), error.message);
    return true;
  });
  const before = history.acknowledged;
  await until(() => history.acknowledged > before + 20);
  const { log } = await scenario.prove();
  assert.equal(log.epochs, 1, 'the second one claimed nothing');
  assert.equal(history.operations.filter(({ outcome }) => outcome.kind === 'lost' || outcome.status >= 500).length, 0);
});
