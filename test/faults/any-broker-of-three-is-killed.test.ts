// Invariants 1 to 7: three brokers, three replicas, two in sync. Any one is killed or paused, and appends go on without it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { needsKafkaHome } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import { killed, paused } from '../support/nemesis.js';
import { until } from '../support/service.js';

test(
  '2: any broker of three is killed or paused, and appends go on',
  { skip: needsKafkaHome, timeout: 180_000 },
  async (t) => {
    const scenario = await KafkaScenario.start(t, {
      seed: 3,
      brokers: 3,
      properties: { 'broker.heartbeat.interval.ms': 400, 'broker.session.timeout.ms': 2_000 },
    });
    const { nodes, brokers } = scenario.cluster;
    const admin = new Kafka({ clientId: 'faults', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    t.after(() => admin.disconnect());
    /** Brokers that have led the tenant's events. */
    const led = new Set<number>();
    /** All replicas have everything: the next broker may go. */
    const whole = async (): Promise<boolean> => {
      const { topics } = await admin.fetchTopicMetadata().catch(() => ({ topics: [] }));
      const partitions = topics.flatMap((topic) => topic.partitions);
      if (partitions.length === 0 || partitions.some(({ isr }) => isr.length < 3)) return false;
      for (const { name, partitions: own } of topics)
        if (name.endsWith('.events')) for (const { leader } of own) led.add(leader);
      return true;
    };
    const [any] = nodes;
    assert.ok(any);
    await until(whole);
    await scenario
      .nemesis(
        [...nodes.map(killed), paused(any)],
        () => scenario.acknowledged(60),
        () => until(whole, 60_000),
      )
      .run();
    await scenario.acknowledged(30);
    await scenario.prove();
    assert.ok(led.size > 1, 'no leader was killed');
  },
);
