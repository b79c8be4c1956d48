// Invariant 21: a projection of which each append changes thousands of keys leaves the event loop to the others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldBy } from '../support/held.js';
import { WATCHED_SERVICE, AS_ADMIN, startService, until } from '../support/service.js';

/** Events of an append, each with a key of its own in every class of the projection. */
const KEYS = 1000;
const CLASSES = 4;
const APPENDS = 75;
const NEIGHBOURS = 200;
const MOST_MS = 50;

const FAN_OUT = {
  'fan-out.cs': `public sealed record Seen(long Times, string By);
public abstract class FanOut : IProjection<Seen>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("key").GetString();
    public Seen? Apply(Seen? seen, Event e) => new((seen?.Times ?? 0) + 1, e.AggregateId);
}
${Array.from({ length: CLASSES }, (_, i) => `public sealed class FanOut${i} : FanOut { }`).join('\n')}`,
};

test(`appends that each change ${KEYS * CLASSES} keys hold the event loop for less than ${MOST_MS} ms (p99.9, of a processor)`, async (t) => {
  const service = await startService(t, { program: WATCHED_SERVICE });
  const admin = AS_ADMIN;
  const made = await service.post('/admin/tenants', { tenantId: 'neighbour' }, admin);
  assert.equal(made.status, 201, made.text);
  const { apiKey: key } = made.json<{ apiKey: string }>();
  const projectionId = await service.deploy('projections', FAN_OUT);
  const events = Array.from({ length: KEYS }, (_, i) => ({ eventType: 'Came', data: { key: `key-${i}` } }));
  const append = async (i: number): Promise<void> => {
    const answer = await service.post('/events/batch', { aggregateId: `lot-${i}`, events });
    assert.equal(answer.status, 201, answer.text);
  };
  // The code is loaded, and what runs often is compiled.
  for (let i = 0; i < 5; i++) await append(i);
  const lag = async (): Promise<number> =>
    Number(/^statefold_projection_lag_commits (\S+)$/m.exec((await service.get('/metrics', admin)).text)?.[1] ?? NaN);
  await until(async () => (await lag()) === 0, 120_000);
  await heldBy(service);

  const neighbour = (async () => {
    for (let i = 0; i < NEIGHBOURS; i++) {
      const answer = await service.post('/events', { aggregateId: `n-${i}`, eventType: 'Came', data: {} }, { key });
      assert.equal(answer.status, 201, answer.text);
    }
  })();
  for (let i = 0; i < APPENDS; i++) await append(5 + i);
  await neighbour;
  await until(async () => (await lag()) === 0, 120_000);
  const { p50, p99, p999, max, slice } = await heldBy(service);
  t.diagnostic(`slices: p99.9 ${slice.p999} ms, longest ${slice.max} ms`);
  t.diagnostic(`turns of the event loop: p50 ${p50} ms, p99 ${p99} ms, p99.9 ${p999} ms, longest ${max} ms`);
  assert.ok(slice.p999 > 0, 'work was marked');
  assert.ok(slice.p999 < MOST_MS, `p99.9 of the slices is ${slice.p999} ms, the longest ${slice.max} ms`);
  assert.ok(p999 < MOST_MS, `p99.9 of the turns is ${p999} ms, the longest ${max} ms`);
  const page = (await service.get(`/projections/${projectionId}/states?prefix=key-7&limit=1`)).json<{
    states: { state: { times: number } }[];
  }>();
  assert.equal(page.states[0]?.state.times, 5 + APPENDS, 'and all of it was projected');
});
