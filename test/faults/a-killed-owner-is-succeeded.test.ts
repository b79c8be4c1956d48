// Invariants 1 to 13: of two processes on Kafka the owner dies at a named place, time and again; the other goes on from there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const POINTS: readonly CrashPoint[] = [
  'before-log-write',
  'after-log-write',
  'after-ack',
  'before-changes-write',
  'after-changes-write',
  'between-log-and-store',
];
const TIMES = 60;

test('a killed owner is succeeded', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2 });
  const scenario = new Scenario(t, { seed: 5001 }, world);
  await scenario.begin();
  scenario.load.start();
  for (const point of POINTS)
    await step(t, point, async () => {
      const owner = await world.owner();
      const dying = world.at(owner);
      world.lightOne(owner, `${point}:${TIMES}`);
      await dying.exited();
      const before = scenario.history.acknowledged;
      await until(() => scenario.history.acknowledged > before + 20);
      assert.notEqual(await world.owner(), owner);
      await world.startOne(owner);
    });
  const { log } = await scenario.prove();
  assert.ok(log.epochs > POINTS.length, `each successor claims the log: ${log.epochs} epochs`);
  t.diagnostic(
    `${scenario.history.acknowledged} appends acknowledged, ${log.epochs} epochs, ${log.voids} void records`,
  );
});
