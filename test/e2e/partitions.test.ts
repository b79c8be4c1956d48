import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AS_ADMIN, startService, until, type Answer, type Service } from '../support/service.js';

const ACCOUNTS = 24;
const REDUCER = `public record Total(long Sum, int Entries);
[AggregateType("account")]
public class TotalReducer : IReducer<Total>
{
    public Total? Apply(Total? s, Event e) => new((s?.Sum ?? 0) + e.Data.GetProperty("n").GetInt64(), (s?.Entries ?? 0) + 1);
}`;
/** Its state is the order in which it was given the events of all accounts. */
const JOURNAL = `public record Journal(string Order, int Count);
public class JournalProjection : IProjection<Journal>
{
    public string? ResolveKey(Event e) => "all";
    public Journal? Apply(Journal? s, Event e) => new((s?.Order + " " + e.Data.GetProperty("n").GetInt64()).Trim(), (s?.Count ?? 0) + 1);
}`;

let service: Service;
let key = '';
const closers: (() => Promise<void> | void)[] = [];
const ask = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  service.request(method, path, { key, headers, ...(body === undefined ? {} : { body }) });
const append = (n: number, more: object = {}, headers: Record<string, string> = {}): Promise<Answer> =>
  ask('POST', '/events', { aggregateId: `account-${n % ACCOUNTS}`, eventType: 'Paid', data: { n }, ...more }, headers);

before(async () => {
  service = await startService({ after: (closer: () => Promise<void> | void) => void closers.unshift(closer) });
  const made = await service.post('/admin/tenants', { tenantId: 'wide', name: 'Wide', partitions: 4 }, AS_ADMIN);
  assert.equal(made.status, 201, made.text);
  const { apiKey, partitions } = made.json<{ apiKey: string; partitions: number }>();
  assert.equal(partitions, 4);
  key = apiKey;
});

after(async () => {
  for (const close of closers) await close();
});

test('a tenant of four partitions serves its clients as any other', async () => {
  const form = new FormData();
  form.append('file', new Blob([REDUCER]), 'Total.cs');
  assert.equal((await service.request('POST', '/reducers/upload', { key, raw: form })).status, 202);
  await until(async () => (await ask('GET', '/aggregate-types/account')).status === 200);

  const answers = await Promise.all(Array.from({ length: 10 * ACCOUNTS }, (_, n) => append(n)));
  for (const answer of answers) assert.equal(answer.status, 201, answer.text);
  const last = await append(0, { expectedVersion: 10 }, { 'idempotency-key': 'k' });
  assert.deepEqual([last.status, last.json<{ version: number }>().version], [201, 11], last.text);
  assert.equal(last.json<{ state: { entries: number } }>().state.entries, 11);
  assert.equal((await append(0, { expectedVersion: 10 }, { 'idempotency-key': 'k' })).text, last.text);
  assert.equal((await append(0, { expectedVersion: 10 })).status, 409);
  assert.equal((await ask('POST', '/events', '{')).status, 400);

  const listed: string[] = [];
  for (let cursor = ''; ;) {
    const page = (await ask('GET', `/aggregates?limit=7${cursor}`)).json<{
      aggregates: { aggregateId: string; version: number }[];
      nextCursor?: string;
    }>();
    listed.push(...page.aggregates.map(({ aggregateId }) => aggregateId));
    if (page.nextCursor === undefined) break;
    cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
  }
  assert.deepEqual(listed, Array.from({ length: ACCOUNTS }, (_, n) => `account-${n}`).sort());
  const { aggregateTypes } = (await ask('GET', '/aggregate-types')).json<{
    aggregateTypes: { aggregates: number }[];
  }>();
  assert.deepEqual(
    aggregateTypes.map(({ aggregates }) => aggregates),
    [ACCOUNTS],
  );
  for (const aggregateId of listed) {
    const { events } = (await ask('GET', `/events/${aggregateId}`)).json<{ events: { version: number }[] }>();
    assert.equal(events.length, aggregateId === 'account-0' ? 11 : 10);
    const state = (await ask('GET', `/aggregate-types/account/${aggregateId}/state`)).json<{
      version: number;
      state: { entries: number };
    }>();
    assert.deepEqual([state.version, state.state.entries], [events.length, events.length]);
  }
  assert.equal((await ask('GET', '/events/account-none')).status, 404);

  const upload = new FormData();
  upload.append('file', new Blob([JOURNAL]), 'Journal.cs');
  const { projectionId } = (await service.request('POST', '/projections/upload', { key, raw: upload })).json<{
    projectionId: string;
  }>();
  const states = async (): Promise<{ order: string; count: number } | undefined> =>
    (await ask('GET', `/projections/${projectionId}/states`)).json<{
      states: { state: { order: string; count: number } }[];
    }>().states[0]?.state;
  await until(async () => ((await states())?.count ?? 0) === 10 * ACCOUNTS + 1);
  await Promise.all(Array.from({ length: 2 * ACCOUNTS }, (_, n) => append(1000 + n)));
  await until(async () => ((await states())?.count ?? 0) === 12 * ACCOUNTS + 1);
  const before = await states();
  const polled = (await ask('GET', `/projections/${projectionId}/notifications?afterSequence=0&limit=1000`)).json<{
    notifications: { state: { count: number } }[];
  }>();
  assert.deepEqual(
    polled.notifications.map(({ state }) => state.count),
    Array.from({ length: 2 * ACCOUNTS + 1 }, (_, n) => 10 * ACCOUNTS + 1 + n),
  );

  // The same code once more: folded over history, it comes to the same order.
  const again = new FormData();
  again.append('file', new Blob([JOURNAL]), 'Journal.cs');
  again.append('projectionId', projectionId);
  assert.equal((await service.request('POST', '/projections/upload', { key, raw: again })).status, 202);
  await until(async () => {
    const { revision, build } = (await ask('GET', `/projections/${projectionId}/status`)).json<{
      revision: number;
      build?: object;
    }>();
    return revision === 2 && build === undefined;
  });
  assert.deepEqual(await states(), before);
  await append(5000);
  await until(async () => ((await states())?.count ?? 0) === 12 * ACCOUNTS + 2);
  assert.equal((await states())?.order, `${before?.order} 5000`);
});

test('16: what it takes to be deleted is deleted', async () => {
  assert.equal((await service.request('DELETE', '/admin/tenants/wide', AS_ADMIN)).status, 204);
  assert.equal((await ask('GET', '/aggregates')).status, 401);
  const made = await service.post('/admin/tenants', { tenantId: 'wide', partitions: 2 }, AS_ADMIN);
  assert.equal(made.status, 201, made.text);
  key = made.json<{ apiKey: string }>().apiKey;
  assert.deepEqual((await ask('GET', '/aggregates')).json<{ aggregates: unknown[] }>().aggregates, []);
  assert.equal((await append(3)).json<{ version: number }>().version, 1);
  assert.equal((await service.post('/admin/tenants', { tenantId: 'wider', partitions: 257 }, AS_ADMIN)).status, 400);
});
