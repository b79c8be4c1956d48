// One data directory has one writer: a second process says so and ends, and the first does not notice.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { Scenario } from '../support/load-scenario.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

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

const OTHER_NETWORK = ['unshare', '--net'];
const skip = spawnSync('unshare', ['--net', 'true']).status !== 0 && 'a network of its own can not be made here';

test(
  'of two containers on one volume the second one says so and stops, also while the first one stands still',
  { skip },
  async (t) => {
    const dataDirectory = temporaryDirectory(t);
    let service = await startService(t, { dataDirectory });
    const second = (said: string): Promise<void> =>
      assert.rejects(startService(t, { dataDirectory, within: OTHER_NETWORK }), (error: Error) => {
        assert.match(error.message, /exit 1/);
        assert.ok(error.message.includes(said), error.message);
        return true;
      });
    await second(`is in use by another Statefold (process ${service.pid})`);
    process.kill(service.pid, 'SIGSTOP');
    await second('is in use by another Statefold: stop that one first');
    process.kill(service.pid, 'SIGCONT');
    assert.equal((await service.get('/health/ready')).status, 200);
    // What a kill leaves of the lock keeps nobody out.
    await service.kill('SIGKILL');
    service = await startService(t, { dataDirectory });
    assert.equal((await service.get('/health/ready')).status, 200);
  },
);
