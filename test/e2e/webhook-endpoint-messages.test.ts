// What an endpoint is sent: attempts, dead letters, replays, filters, the pace, and all events of the tenant.
import assert from 'node:assert/strict';
import test from 'node:test';
import { problem, success } from '../support/api.js';
import type { Delivery } from '../support/api-channels.js';
import { until } from '../support/service.js';
import { ENDPOINTS, idOf, verify, World, type Attempt } from '../support/webhook-world.js';

test('attempts are listed, what is given up is parked, and both can be sent again', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0,0' });
  const endpoint = await w.create('/hook');
  w.receiver.answers.set('/hook', ({ record }) =>
    record.key === 'bad' ? { status: 422, text: 'unknown transfer' } : { status: 200 },
  );
  await w.add('bad');
  await w.add('good');
  await until(async () => (await w.parked(endpoint)).length === 1);
  const [letter] = await w.parked(endpoint);
  const bad = w.receiver.of('/hook').filter(({ record }) => record.key === 'bad');
  assert.deepEqual(
    [letter?.key, letter?.attempts, letter?.reason, letter?.messageId, letter?.sequence],
    ['bad', 3, 'answered 422', idOf(bad[0] as Delivery), bad[0]?.record.sequence],
  );
  await until(async () => (await w.attempts(endpoint)).length === 4);
  const failed = await w.attempts(endpoint, '?status=failed');
  assert.deepEqual(
    failed.map(({ messageId, attempt, status, error, responseExcerpt }) => [
      messageId,
      attempt,
      status,
      error,
      responseExcerpt,
    ]),
    [3, 2, 1].map((n) => [letter?.messageId, n, 422, 'answered 422', 'unknown transfer']),
  );
  assert.deepEqual((await w.attempts(endpoint, '?status=4xx')).length, 3);
  assert.deepEqual(
    (await w.attempts(endpoint, '?status=200')).map(({ attempt }) => attempt),
    [1],
  );
  assert.equal((await w.attempts(endpoint, '?status=delivered')).length, 1);
  problem(await w.api.get(`${ENDPOINTS}/${endpoint.endpointId}/attempts?status=bad`), 400, 'INVALID_REQUEST');

  // Page by page it is the same list.
  const all = await w.attempts(endpoint);
  const paged: Attempt[] = [];
  let cursor = '';
  do {
    const page = await w.api.read<{ attempts: Attempt[]; nextCursor?: string }>(
      `${ENDPOINTS}/${endpoint.endpointId}/attempts?limit=1${cursor}`,
    );
    paged.push(...page.attempts);
    cursor = page.nextCursor === undefined ? '' : `&cursor=${page.nextCursor}`;
  } while (cursor !== '');
  assert.deepEqual(paged, all);

  await t.test('both are there after a restart', async () => {
    await w.service.stop();
    await w.start();
    assert.deepEqual(await w.parked(endpoint), [letter]);
    assert.deepEqual(await w.attempts(endpoint), all);
  });

  await t.test('one that was given up is sent again under its id, and is parked no more when it is taken', async () => {
    problem(await w.post(endpoint, 'parked/msg_nothing/resend'), 404, 'NOT_FOUND');
    w.receiver.answers.delete('/hook');
    const range = success(await w.post(endpoint, `parked/${letter?.messageId}/resend`), 202).json();
    assert.deepEqual(range, { endpointId: endpoint.endpointId, from: letter?.sequence, to: letter?.sequence });
    await until(async () => (await w.parked(endpoint)).length === 0);
    const sent = w.receiver.of('/hook').filter((one) => idOf(one) === letter?.messageId);
    assert.equal(sent.length, 4);
    assert.equal(sent[3]?.body, sent[0]?.body);
  });

  await t.test('a range is sent again, inclusive, also one asked for just before a kill', async () => {
    for (let i = 0; i < 6; i++) await w.add(`k${i}`);
    // In this order: before the last of them came to the endpoint nothing was pending either.
    await until(async () => w.receiver.of('/hook').length >= 11 && (await w.get(endpoint)).pending === 0);
    const sequences = [...new Set(w.receiver.of('/hook').map(({ record }) => record.sequence))].sort((a, b) => a - b);
    const [from = 0, , to = 0] = sequences.slice(-4);
    const times = (sequence: number): number =>
      w.receiver.of('/hook').filter(({ record }) => record.sequence === sequence).length;
    const before = new Map(sequences.map((sequence) => [sequence, times(sequence)]));
    success(await w.post(endpoint, 'pause'), 200);
    success(await w.post(endpoint, 'replay', { from, to }), 202);
    await w.service.kill();
    await w.start();
    success(await w.post(endpoint, 'resume'), 200);
    const more = (sequence: number): number => times(sequence) - (before.get(sequence) ?? 0);
    await until(() => sequences.filter((one) => one >= from && one <= to).every((one) => more(one) >= 1));
    await w.add('after');
    await until(() => w.receiver.of('/hook').some(({ record }) => record.key === 'after'));
    assert.deepEqual(
      sequences.filter((one) => more(one) > 0),
      sequences.filter((one) => one >= from && one <= to),
    );
    problem(await w.post(endpoint, 'replay', { from: 1_000_000 }), 400, 'INVALID_REQUEST');
    problem(await w.post(endpoint, 'replay', { from: 3, to: 2 }), 400, 'INVALID_REQUEST');
    problem(await w.post(endpoint, 'replay', { to: 2 }), 400, 'INVALID_REQUEST');
  });
});

test('ranges that are asked for at once while the endpoint is paused are all sent again', async (t) => {
  const w = await World.open(t);
  const endpoint = await w.create('/hook');
  for (let i = 0; i < 6; i++) await w.add(`k${i}`);
  await until(async () => w.receiver.of('/hook').length === 6 && (await w.get(endpoint)).pending === 0);
  const sequences = w.receiver.of('/hook').map(({ record }) => record.sequence);
  success(await w.post(endpoint, 'pause'), 200);
  const asked = await Promise.all(sequences.map((one) => w.post(endpoint, 'replay', { from: one, to: one })));
  for (const answer of asked) success(answer, 202);
  success(await w.post(endpoint, 'resume'), 200);
  await until(() => w.receiver.of('/hook').length >= 12);
  const again = w.receiver
    .of('/hook')
    .slice(6)
    .map(({ record }) => record.sequence);
  assert.deepEqual(
    again.sort((a, b) => a - b),
    sequences.sort((a, b) => a - b),
  );
});

test('all that was given up is sent again, or what was since a time, and nothing between', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0' });
  const endpoint = await w.create('/hook');
  w.receiver.answers.set('/hook', ({ record }) => ({ status: record.key.startsWith('bad') ? 500 : 200 }));
  const add = async (...keys: string[]): Promise<void> => {
    for (const key of keys) await w.add(key);
  };
  await add('bad-1', 'good-1', 'bad-2', 'good-2');
  await until(async () => (await w.parked(endpoint)).length === 2);
  await add('bad-3');
  await until(async () => (await w.parked(endpoint)).length === 3);
  const [last, ...first] = await w.parked(endpoint);
  w.receiver.answers.delete('/hook');
  const sent = (): string[] => w.receiver.of('/hook').map(({ record }) => record.key);
  const before = sent().length;
  const { endpointId } = endpoint;
  const one = success(await w.post(endpoint, 'parked/resend', { since: last?.at }), 202).json();
  assert.deepEqual(one, { endpointId, messages: 1, from: last?.sequence, to: last?.sequence });
  await until(async () => (await w.parked(endpoint)).length === 2);
  // What was asked for just before a kill is sent all the same.
  success(await w.post(endpoint, 'pause'), 200);
  const [to, from] = first.map(({ sequence }) => sequence);
  const rest = success(await w.post(endpoint, 'parked/resend'), 202).json();
  assert.deepEqual(rest, { endpointId, messages: 2, from, to });
  await w.service.kill();
  await w.start();
  success(await w.post(endpoint, 'resume'), 200);
  await until(async () => (await w.parked(endpoint)).length === 0);
  assert.deepEqual(sent().slice(before).sort(), ['bad-1', 'bad-2', 'bad-3']);
  assert.deepEqual(success(await w.post(endpoint, 'parked/resend'), 202).json(), { endpointId, messages: 0 });
  problem(await w.post(endpoint, 'parked/resend', { since: 'yesterday' }), 400, 'INVALID_REQUEST');
});

test('a message that waits for its next attempt is attempted now, whatever the pause', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '3600' });
  const endpoint = await w.create('/hook');
  w.receiver.answers.set('/hook', () => ({ status: 503, headers: { 'retry-after': '3000' } }));
  await w.add('k1');
  await until(async () => (await w.attempts(endpoint)).length === 1);
  const [failed] = await w.attempts(endpoint);
  const path = `messages/${failed?.messageId}/retry`;
  success(await w.post(endpoint, path), 202);
  await until(async () => (await w.attempts(endpoint)).length === 2);
  assert.equal((await w.get(endpoint)).pending, 1, 'it is none of its schedule: there is another attempt');
  w.receiver.answers.delete('/hook');
  await until(async () => (await w.post(endpoint, path)).status === 202);
  await until(async () => (await w.get(endpoint)).pending === 0);
  assert.deepEqual(new Set(w.receiver.of('/hook').map(idOf)), new Set([failed?.messageId]));
  problem(await w.post(endpoint, path), 404, 'NOT_FOUND');
  success(await w.post(endpoint, 'pause'), 200);
  problem(await w.post(endpoint, path), 404, 'NOT_FOUND');
});

test('a pause that the endpoint asks for is kept, whatever was under way then', async (t) => {
  const w = await World.open(t);
  const endpoint = await w.create('/busy');
  let release = (): void => undefined;
  const after = new Promise<void>((resolve) => (release = resolve));
  let askedAt = Infinity;
  const times: number[] = [];
  w.receiver.answers.set('/busy', ({ record }) => {
    times.push(performance.now());
    if (record.key !== 'asks' || askedAt < Infinity) return { status: 200, after };
    askedAt = performance.now();
    return { status: 429, headers: { 'retry-after': '2' } };
  });
  for (const key of ['one', 'two', 'asks']) await w.add(key);
  await until(async () => (await w.attempts(endpoint, '?status=429')).length === 1);
  const before = times.length;
  release();
  await w.add('behind');
  await until(() => times.length >= before + 2);
  for (const at of times.slice(before)) assert.ok(at - askedAt > 1_900, `${at - askedAt} ms after it asked for 2 s`);
});

test('filters and the pace', async (t) => {
  const w = await World.open(t);
  const some = await w.create('/some', { keys: ['k1', 'k3'] });
  const slow = await w.create('/slow', { ratePerSecond: 10 });
  const begun = Date.now();
  for (let i = 0; i < 20; i++) await w.add(`k${i % 5}`);
  await until(() => w.receiver.of('/some').length === 8);
  assert.deepEqual(new Set(w.receiver.of('/some').map(({ record }) => record.key)), new Set(['k1', 'k3']));
  await until(() => w.receiver.of('/slow').length === 20);
  assert.ok(Date.now() - begun >= 1_800, '19 attempts after the first, ten a second');
  success(await w.api.patch(`${ENDPOINTS}/${slow.endpointId}`, { ratePerSecond: null }), 200);
  success(await w.api.patch(`${ENDPOINTS}/${some.endpointId}`, { keys: ['k0'] }), 200);
  for (let i = 0; i < 5; i++) await w.add(`k${i % 5}`);
  await until(() => w.receiver.of('/slow').length === 25 && w.receiver.of('/some').length === 9);
  assert.equal(w.receiver.of('/some').at(-1)?.record.key, 'k0');
});

test('all events of the tenant, by type', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0,0,0,0,0,0' });
  await w.api.append('order-1', 'Placed', { n: 1 });
  const all = await w.create('/all', { source: { feed: {} }, from: 'start' });
  const some = await w.create('/some', {
    source: { feed: { aggregateTypes: ['order'], eventTypes: ['Paid', 'Sent'] } },
  });
  await w.create('/of', { source: { feed: {} }, keys: ['order-2'] });
  assert.deepEqual(some.source, { feed: { aggregateTypes: ['order'], eventTypes: ['Paid', 'Sent'] } });
  await w.api.append('order-1', 'Paid', { n: 2 }, { correlationId: 'c', metadata: { by: 'ada' } });
  await w.api.append('cart-1', 'Paid', { n: 3 });
  await w.api.append('order-2', 'Placed', { n: 4 });
  await w.api.append('order-2', 'Sent', { n: 12345678901234567890n.toString() });
  type Told = { data: Record<string, unknown> & { position: number; eventType: string } };
  const told = (path: string): Told['data'][] => w.receiver.of(path).map(({ body }) => (JSON.parse(body) as Told).data);
  await until(() => told('/all').length === 5 && told('/some').length === 2 && told('/of').length === 2);
  assert.deepEqual(new Set(told('/some').map(({ eventType }) => eventType)), new Set(['Paid', 'Sent']));
  assert.deepEqual(
    told('/of').map(({ eventType }) => eventType),
    ['Placed', 'Sent'],
  );
  const paid = w.receiver.of('/some').find(({ body }) => body.includes('"Paid"'));
  verify(paid, some.secret);
  const { events } = await w.api.read<{ events: { eventId: string; timestamp: string }[] }>('/events/order-1');
  const [, event] = events;
  const { type, timestamp, data } = JSON.parse(paid?.body ?? '') as Told & { type: string; timestamp: string };
  assert.deepEqual([type, timestamp], ['event.appended', event?.timestamp]);
  assert.deepEqual(data, {
    position: data.position,
    ...{ eventId: event?.eventId, aggregateId: 'order-1', aggregateType: 'order', eventType: 'Paid', data: { n: 2 } },
    ...{ version: 2, timestamp: event?.timestamp, correlationId: 'c', metadata: { by: 'ada' } },
  });
  assert.ok(Number.isSafeInteger(data.position) && data.position > 0);
  // It goes on from its place, and can be sent again by it.
  await until(async () => (await w.get(all)).pending === 0);
  await w.service.kill();
  await w.start();
  // The place of the last moment may be lost in a kill: until it has come there again, it gets that one by itself.
  await until(async () => (await w.post(some, 'replay', { from: data.position, to: data.position })).status === 202);
  await until(() => told('/some').filter(({ position }) => position === data.position).length >= 2);
  await until(async () => (await w.attempts(some)).some(({ position }) => position === data.position));
  success(await w.api.patch(`${ENDPOINTS}/${some.endpointId}`, { source: { feed: { eventTypes: ['Closed'] } } }), 200);
  await w.api.append('cart-1', 'Closed');
  await until(() => told('/some').some(({ eventType }) => eventType === 'Closed'));
});
