import assert from 'node:assert/strict';
import test from 'node:test';
import { Api } from '../support/api.js';
import { startService } from '../support/service.js';

const MIB = 1024 * 1024;
/** Types, ids and all: next to nothing of it is data. */
const batch = (aggregateId: string): object => ({
  aggregateId,
  correlationId: 'c'.repeat(128),
  causationId: 'd'.repeat(128),
  events: Array.from({ length: 900 }, () => ({ eventType: '€'.repeat(256), data: {} })),
});

test('appends that are more together than the log takes at once are all stored, whatever their bytes are of', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const sent = Array.from({ length: 30 }, async (_, i) => {
    const answer = await api.post('/events/batch', batch(`long-names-${i}`));
    return answer.status;
  });
  const small = Array.from({ length: 20 }, async (_, i) => {
    const answer = await api.post('/events', { aggregateId: `small-${i}`, eventType: 'Happened', data: {} });
    return answer.status;
  });
  const statuses = await Promise.all([...sent, ...small]);
  assert.deepEqual(
    statuses.filter((status) => status !== 201),
    [],
  );
});

test('an append that the log takes on no day is refused as too large, and others go on', async (t) => {
  const service = await startService(t, { env: { MAX_BODY_BYTES: String(32 * MIB) } });
  const api = new Api(service);
  const append = (aggregateId: string, bytes: number) =>
    api.post('/events', { aggregateId, eventType: 'Happened', data: { text: 'x'.repeat(bytes) } });
  const answer = await append('large', 18 * MIB);
  assert.equal(answer.status, 413);
  assert.match(answer.json<{ detail: string }>().detail, /the log, which takes \d+ of one append; send fewer events/);
  assert.equal((await append('large', 15 * MIB)).status, 201);
});
