// Invariants 1 to 7: the broker's disk is full. Kafka then ends; appends are refused for now, and go on when there is space and
// the broker was started again.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsKafkaHome } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import { until } from '../support/service.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';

const MEGABYTES = 96;

test('2: the broker has a full disk', { skip: needsKafkaHome, timeout: 120_000 }, async (t) => {
  const disk = smallDisk(t, MEGABYTES);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const scenario = await KafkaScenario.start(t, {
    seed: 64,
    dataDirectory: join(disk, 'kafka'),
    properties: { 'broker.heartbeat.interval.ms': 250, 'broker.session.timeout.ms': 1_000 },
  });
  const [node] = scenario.cluster.nodes;
  assert.ok(node);
  const balloon = join(disk, 'balloon');
  await until(() => {
    fill(balloon);
    return node.pid === undefined;
  });
  await scenario.unanswered(10);
  rmSync(balloon);
  await node.start();
  await scenario.acknowledged(50);
  await scenario.prove();
});
