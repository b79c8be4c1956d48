// Invariants 1 to 13: a cluster goes from one version to the next and back, process by process, under load; tenants are taken over from
// the former by the newer and the other way round. The newer one is a second build, whose local stores and snapshots the other can't use.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { Scenario, step } from '../support/load-scenario.js';
import { newerBuild } from '../support/newer-build.js';
import { until } from '../support/service.js';

const GATEWAY = 0;

test('a rolling upgrade, and the way back', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const newer = newerBuild(t);
  const world = new ClusterWorld(t, {
    brokers,
    processes: 3,
    entry: GATEWAY,
    env: { SNAPSHOT_AFTER_RECORDS: '100' },
    envOf: (process) => (process === GATEWAY ? { ROLES: 'gateway', FORWARD_DEADLINE_MS: '15000' } : {}),
  });
  const scenario = new Scenario(t, { seed: 5011 }, world);
  const { history, load } = scenario;
  await scenario.begin();
  load.start();
  for (const [process, program] of [
    [1, newer],
    [2, newer],
    [1, undefined],
    [2, undefined],
  ] as const)
    await step(t, `process ${process} becomes ${program === undefined ? 'what it was' : 'newer'}`, async () => {
      const begun = history.acknowledged;
      await until(() => history.acknowledged > begun + 50);
      await world.endOne(process, 'SIGTERM');
      world.becomes(process, program);
      await world.startOne(process);
    });
  await load.stop();
  const failed = history.operations.filter(({ outcome }) => outcome.kind === 'lost' || outcome.status >= 500);
  assert.deepEqual(failed, []);
  const { log } = await scenario.prove();
  t.diagnostic(`${history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`);
});
