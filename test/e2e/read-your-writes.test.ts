// Invariant 7: a GET after a 201 sees it, whatever else goes on.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, success, type Listed } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { startService } from '../support/service.js';

test('what was answered is read', async (t) => {
  const api = new Api(await startService(t, { env: { FOLD_DEADLINE_MS: '30000' } }));
  await api.deployReducer({ 'Tally.cs': tally('read') });
  const projection = await api.deployProjection({ 'Totals.cs': totals() });

  await t.test('events, states and aggregates right after each 201, under load', async () => {
    let stop = false;
    const load = Array.from({ length: 4 }, async (_, i) => {
      for (let n = 0; !stop; n++)
        success(
          await api.post('/events/batch', {
            aggregateId: `load-${i}-${n % 7}`,
            events: Array.from({ length: 20 }, () => ({ eventType: 'A', data: { n, filling: 'x'.repeat(500) } })),
          }),
          201,
        );
    });
    const client = async (id: string): Promise<void> => {
      for (let n = 1; n <= 40; n++) {
        const { version, eventId } = await api.append(id, 'A', { key: id, n: 1 });
        assert.equal(version, n);
        const [listed, state, aggregates] = await Promise.all([
          api.read<Listed>(`/events/${id}?direction=backward&limit=2`),
          api.read<{ version: number; state: { count: number } }>(`/aggregate-types/read/${id}/state`),
          api.read<{ aggregates: { aggregateId: string; version: number }[] }>('/aggregates?type=read'),
        ]);
        assert.equal(listed.events[0]?.eventId, eventId);
        assert.deepEqual([listed.events[0]?.version, state.version, state.state.count], [n, n, n]);
        assert.equal(aggregates.aggregates.find(({ aggregateId }) => aggregateId === id)?.version, n);
      }
    };
    try {
      await Promise.all(Array.from({ length: 5 }, (_, i) => client(`read-${i}`)));
    } finally {
      stop = true;
      await Promise.all(load);
    }
    const changes = await api.notifications(projection, 200);
    assert.equal(changes.length, 200);
    for (let i = 0; i < 5; i++)
      assert.deepEqual(
        changes.filter(({ key }) => key === `read-${i}`).map(({ state }) => (state as { total: number }).total),
        Array.from({ length: 40 }, (_, n) => n + 1),
      );
  });

  await t.test('a batch is seen whole or not at all', async () => {
    let done = false;
    const writer = (async () => {
      for (let n = 0; n < 25; n++)
        success(
          await api.post('/events/batch', {
            aggregateId: 'whole-1',
            events: Array.from({ length: 10 }, () => ({ eventType: 'A', data: {} })),
          }),
          201,
        );
      done = true;
    })();
    let before = 0;
    while (!done) {
      const answer = await api.get('/events/whole-1');
      const count = answer.status === 404 ? 0 : answer.json<Listed>().events.length;
      assert.ok(count % 10 === 0 && count >= before, `${count} events`);
      before = count;
    }
    await writer;
    assert.equal((await api.read<Listed>('/events/whole-1')).events.length, 250);
  });
});
