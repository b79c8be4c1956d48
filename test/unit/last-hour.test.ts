// The last hour of a process: samples of counters, the busiest tenants, and bounds on what is kept.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { LastHour, quantileOf } from '../../src/telemetry/last-hour.js';
import { Metrics } from '../../src/telemetry/metrics.js';

function world(t: TestContext): { metrics: Metrics; hour: LastHour; clock: { at: number } } {
  const metrics = new Metrics();
  const clock = { at: Date.parse('2026-01-01T00:00:00Z') };
  const hour = new LastHour({ metrics, now: () => clock.at });
  t.after(() => hour.close());
  return { metrics, hour, clock };
}

test('a sample has what happened since the one before, and nothing twice', (t) => {
  const { metrics, hour } = world(t);
  metrics.tasks.appended(3);
  metrics.tasks.folded(3, 0.001);
  metrics.http.answered('/events', 'POST', 201, 0.004);
  metrics.http.answered('/events', 'POST', 503, 2);
  hour.count('acme', 'events', 3);
  hour.sample();
  metrics.tasks.appended(1);
  hour.sample();
  const [first, second] = hour.samples;
  assert.deepEqual([first?.requests, first?.failures, first?.appends, first?.events, first?.folded], [2, 1, 1, 3, 3]);
  // Of what was accepted alone, which was in the bucket of 2.5 to 5 ms.
  assert.ok((first?.appendP50Ms ?? 0) > 2.5 && (first?.appendP99Ms ?? 9) <= 5);
  assert.deepEqual(first?.tenants, [{ tenantId: 'acme', events: 3, folded: 0, changes: 0 }]);
  assert.deepEqual([second?.events, second?.requests, second?.appendP50Ms, second?.tenants], [1, 0, undefined, []]);
});

test('of many tenants the ten that took most are kept, and of a long time the last hour', (t) => {
  const { hour, clock } = world(t);
  for (let i = 0; i < 1_000; i += 1) hour.count(`t-${i}`, 'folded', i);
  hour.sample();
  assert.deepEqual(
    hour.samples[0]?.tenants.map(({ tenantId }) => tenantId),
    Array.from({ length: 10 }, (_, i) => `t-${999 - i}`),
  );
  for (let i = 0; i < 500; i += 1) {
    clock.at += 15_000;
    hour.sample();
  }
  assert.equal(hour.samples.length, 240);
  assert.equal(Date.parse(hour.samples[239]?.at ?? '') - Date.parse(hour.samples[0]?.at ?? ''), 239 * 15_000);
  for (let i = 0; i < 600; i += 1) hour.moved({ tenantId: `t-${i}`, partition: 0, what: 'restored', tookMs: i });
  assert.deepEqual([hour.moves.length, hour.moves[0]?.tenantId, hour.moves.at(-1)?.tenantId], [500, 't-100', 't-599']);
});

test('a quantile is read off its bucket', () => {
  assert.equal(quantileOf(0.5, [1, 2], [0, 0, 0]), undefined);
  assert.equal(quantileOf(0.5, [1, 2], [10, 0, 0]), 500);
  assert.equal(quantileOf(0.99, [1, 2], [0, 100, 0]), 1990);
  assert.equal(quantileOf(0.5, [1, 2], [0, 0, 7]), 2_000);
});
