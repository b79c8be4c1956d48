// Invariants 1 to 13: processes are ended and started in turn, as an upgrade does; clients of a gateway see nothing of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const GATEWAY = 0;

test('a rolling restart fails no request', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, {
    brokers,
    processes: 3,
    entry: GATEWAY,
    envOf: (process) => (process === GATEWAY ? { ROLES: 'gateway', FORWARD_DEADLINE_MS: '15000' } : {}),
  });
  const scenario = new Scenario(t, { seed: 5003 }, world);
  const { history, load } = scenario;
  await scenario.begin();
  load.start();
  for (const process of [1, 2, 1, 2])
    await step(t, `process ${process}`, async () => {
      const begun = history.acknowledged;
      await until(() => history.acknowledged > begun + 50);
      await world.endOne(process, 'SIGTERM');
      await world.startOne(process);
    });
  await load.stop();
  const failed = history.operations.filter(({ outcome }) => outcome.kind === 'lost' || outcome.status >= 500);
  assert.deepEqual(failed, []);
  const { log } = await scenario.prove();
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});
