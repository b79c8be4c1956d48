// Two processes over one log, of which one owns the tenant and the other serves its feed, from a copy that follows: what either
// answers has what was written at either, and nothing is missed as they change places.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { MAX_COMMIT_EVENTS } from '../../src/core/event.js';
import type { FeedEvent, FeedPage } from '../support/feed-channels.js';
import { edgePair, PROJECTION, TENANT, type EdgeNode, type EdgePair } from '../support/edge-pair.js';
import { until } from '../support/service.js';

interface Answered<T> {
  readonly status: number;
  readonly position: number;
  readonly body: T;
}

async function ask<T>({ apiKey }: EdgePair, node: EdgeNode, path: string, body?: object): Promise<Answered<T>> {
  const response = await fetch(node.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    position: Number(response.headers.get('statefold-position') ?? NaN),
    body: (await response.json()) as T,
  };
}

async function read<T>(pair: EdgePair, node: EdgeNode, path: string): Promise<T> {
  const { status, body } = await ask<T>(pair, node, path);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

/** Gives the position. */
async function append(pair: EdgePair, node: EdgeNode, aggregateId: string): Promise<number> {
  const { status, position } = await ask(pair, node, '/events', { aggregateId, eventType: 'Counted', data: {} });
  assert.equal(status, 201);
  assert.ok(Number.isSafeInteger(position), 'whoever answers tells it');
  return position;
}

/** `owner` owns the tenant, and `notifier` serves its feed. */
function cast({ a, b }: EdgePair, owner: EdgeNode, notifier: EdgeNode): void {
  for (const node of [a, b]) {
    node.ownership.tell(node === owner ? 'self' : { url: owner.url });
    node.ownership.tellNotifier(node === notifier ? 'self' : { url: notifier.url });
  }
}

/** Follows over WebSocket, and connects again where it was. */
function follow(pair: EdgePair, node: EdgeNode): { readonly received: FeedEvent[]; stop(): void } {
  const received: FeedEvent[] = [];
  let stopped = false;
  let socket: WebSocket | undefined;
  const connect = (): void => {
    const after = received.at(-1)?.position ?? 0;
    socket = new WebSocket(`${node.url.replace('http', 'ws')}/feed/stream?after=${after}`, {
      headers: { 'X-API-Key': pair.apiKey },
    });
    socket.on('error', () => undefined);
    socket.on('message', (data: Buffer) => {
      const { type, ...event } = JSON.parse(data.toString()) as Omit<FeedEvent, 'type'> & { type: string };
      if (type === 'event') received.push(event);
    });
    socket.on('close', () => void (stopped ? undefined : connect()));
  };
  connect();
  return {
    received,
    stop: () => {
      stopped = true;
      socket?.terminate();
    },
  };
}

async function pages(pair: EdgePair, node: EdgeNode): Promise<FeedEvent[]> {
  const events: FeedEvent[] = [];
  for (let after = 0; ;) {
    const page = await read<FeedPage>(pair, node, `/feed?after=${after}&limit=50`);
    if (page.events.length === 0) return events;
    events.push(...page.events);
    after = page.position;
  }
}

test('a write is read wherever one asks for it by its position, and followers miss nothing as owner and notifier change', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, a);
  const followers = [a, b].map((node) => follow(pair, node));
  t.after(() => followers.forEach((one) => one.stop()));
  const written: number[] = [];
  const load = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++)
      written.push(await append(pair, written.length % 2 === 0 ? a : b, `tally-${written.length % 7}`));
  };
  const settled = (): Promise<unknown> =>
    until(() => followers.every(({ received }) => received.length === written.length));
  await load(20);
  await settled();
  assert.equal(a.registry.size, 0, 'who serves the feed owns nothing');
  assert.equal(a.registry.standby(TENANT)?.status, 'STANDBY');

  for (const [owner, notifier] of [
    [b, a],
    [a, a],
    [a, b],
    [b, b],
    [b, a],
  ] as const) {
    const loading = load(20);
    cast(pair, owner, notifier);
    await loading;
    await settled();
    for (const writer of [a, b])
      for (const reader of [a, b]) {
        const aggregateId = `tally-${written.length % 7}`;
        const position = await append(pair, writer, aggregateId);
        written.push(position);
        const query = `waitFor=${position}&waitSeconds=30`;
        const [feed, states, state, changes] = await Promise.all([
          read<FeedPage>(pair, reader, `/feed?after=${position - 1}&${query}`),
          read<{ states: { key: string; state: { total: number } }[] }>(
            pair,
            reader,
            `/projections/${PROJECTION}/states?${query}`,
          ),
          read<{ states: { state: { total: number } }[] }>(
            pair,
            reader,
            `/projections/${PROJECTION}/states/${aggregateId}?${query}`,
          ),
          read<{ notifications: { key: string; state: { total: number } }[] }>(
            pair,
            reader,
            `/projections/${PROJECTION}/notifications?limit=1000&key=${aggregateId}&${query}`,
          ),
        ]);
        const [event] = feed.events;
        assert.deepEqual([event?.position, event?.aggregateId], [position, aggregateId]);
        const total = event?.version;
        assert.equal(states.states.find(({ key }) => key === aggregateId)?.state.total, total);
        assert.equal(state.states[0]?.state.total, total);
        assert.equal(changes.notifications.at(-1)?.state.total, total);
      }
  }
  await settled();
  const all = await pages(pair, a);
  assert.deepEqual(
    all.map(({ position }) => position),
    [...written].sort((x, y) => x - y),
  );
  for (const { received } of followers) assert.deepEqual(received, all);
  assert.deepEqual(await pages(pair, b), all);
});

test('a copy that lags answers what is waited for when it has it, and says how far it is until then', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, a);
  const first = await append(pair, b, 'tally-1');
  assert.equal((await read<FeedPage>(pair, a, `/feed?waitFor=${first}`)).position, first);
  const refused = await ask<{ code: string; position: number }>(pair, a, `/feed?waitFor=${first + 1}&waitSeconds=1`);
  assert.deepEqual([refused.status, refused.body.code, refused.body.position], [503, 'NOT_CAUGHT_UP', first]);
  // Asked before it is written, at who follows: it is told when the event has come there. The next record is the next append.
  const next = first + MAX_COMMIT_EVENTS;
  const waiting = read<FeedPage>(pair, a, `/feed?after=${first}&waitFor=${next}&waitSeconds=30`);
  const late = read<{ states: { state: { total: number } }[] }>(
    pair,
    a,
    `/projections/${PROJECTION}/states/tally-1?waitFor=${next}&waitSeconds=30`,
  );
  await until(() => a.hub.subscriptions === 1 && b.hub.subscriptions === 1);
  const second = await append(pair, b, 'tally-1');
  assert.equal(second, next);
  assert.deepEqual(
    (await waiting).events.map(({ position }) => position),
    [second],
  );
  assert.equal((await late).states[0]?.state.total, 2);
});
