// Invariants 1 to 7: the broker is well, and the network to it isn't: half-open, cut, slow.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsKafkaHome } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import { cut, halfOpen, slow } from '../support/nemesis.js';

test('2: half-open, cut and slow links', { skip: needsKafkaHome, timeout: 120_000 }, async (t) => {
  const scenario = await KafkaScenario.start(t, { seed: 7 });
  const [proxy] = scenario.cluster.proxies;
  assert.ok(proxy);
  const crawl = slow(proxy, 50);
  await scenario
    .nemesis([halfOpen(proxy), cut(proxy), crawl], (fault) =>
      fault === crawl ? scenario.acknowledged(30) : scenario.unanswered(5),
    )
    .run();
  await scenario.prove();
});
