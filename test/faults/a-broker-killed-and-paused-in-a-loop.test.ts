// Invariants 1 to 7: the one broker is killed, restarted, and paused for longer than a request may take, under load. Appends
// are refused for now, then go on; nothing that was acknowledged is lost, doubled or moved.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsKafkaHome } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import { killed, paused, restarted } from '../support/nemesis.js';

/** More for a longer run. */
const ROUNDS = Number(process.env['BROKER_FAULTS'] ?? 5);
const SEED = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000);

test(
  '2: a broker killed and paused in a loop',
  { skip: needsKafkaHome, timeout: 60_000 + ROUNDS * 20_000 },
  async (t) => {
    // A broker that was killed is let in again when its session has ended.
    const scenario = await KafkaScenario.start(t, {
      seed: SEED,
      properties: { 'broker.heartbeat.interval.ms': 250, 'broker.session.timeout.ms': 1_000 },
    });
    const [node] = scenario.cluster.nodes;
    assert.ok(node);
    await scenario
      .nemesis([killed(node), killed(node), paused(node), paused(node), restarted(node)], () => scenario.unanswered(5))
      .run(ROUNDS);
    const { epochs } = await scenario.prove();
    assert.ok(epochs > 1, 'no fault ended an epoch');
  },
);
