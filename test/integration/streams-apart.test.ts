// What pages use, over two processes of one log: tickets of one hold at the other, the states come from who has them, and the origin of
// a page is asked of the process that it reaches.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { revokeKey } from '../../src/catalog/tenants.js';
import { edgePair, PROJECTION, TENANT, type EdgeNode, type EdgePair } from '../support/edge-pair.js';
import { until } from '../support/service.js';
import { openStream, refusalOf, snapshotOf, type Stream, type StreamKind } from '../support/streams.js';

const KINDS: readonly StreamKind[] = ['stream', 'sse'];
const path = (kind: StreamKind, query: string): string => `/projections/${PROJECTION}/${kind}?${query}`;

async function ask<T>({ apiKey }: EdgePair, node: EdgeNode, target: string, body?: object): Promise<T> {
  const response = await fetch(node.url + target, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, text);
  return JSON.parse(text) as T;
}

const append = (pair: EdgePair, node: EdgeNode, aggregateId: string): Promise<unknown> =>
  ask(pair, node, '/events', { aggregateId, eventType: 'Counted', data: {} });

const ticketOf = async (pair: EdgePair, node: EdgeNode, body: object): Promise<string> =>
  (await ask<{ ticket: string }>(pair, node, '/auth/tickets', body)).ticket;

interface State {
  readonly key: string;
  readonly state: { readonly total: number };
  readonly sequence: number;
}
const statesOf = async (pair: EdgePair, node: EdgeNode): Promise<readonly State[]> =>
  (await ask<{ states: State[] }>(pair, node, `/projections/${PROJECTION}/states?limit=1000`)).states;
/** By key, the total that was told last. */
const totals = (changes: Stream['changes']): Map<string, unknown> =>
  new Map([...changes].map(({ key, state }) => [key, (state as State['state']).total] as const).sort());
const totalsOf = async (pair: EdgePair, node: EdgeNode): Promise<Map<string, unknown>> =>
  new Map((await statesOf(pair, node)).map(({ key, state }) => [key, state.total] as const).sort());

/** `owner` owns the tenant, and `notifier` notifies of it. */
function cast({ a, b }: EdgePair, owner: EdgeNode, notifier: EdgeNode): void {
  for (const node of [a, b]) {
    node.ownership.tell(node === owner ? 'self' : { url: owner.url });
    node.ownership.tellNotifier(node === notifier ? 'self' : { url: notifier.url });
  }
}

test('a ticket of one process opens its stream at each of them, and nothing else at any', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, b);
  for (const made of [a, b])
    for (const kind of KINDS) {
      const ticket = await ticketOf(pair, made, { path: `/projections/${PROJECTION}/${kind}`, key: 'tally-1' });
      for (const node of [a, b]) {
        const stream = await openStream(t, node.url, path(kind, `ticket=${ticket}&key=tally-1`));
        await append(pair, a, 'tally-2');
        await append(pair, a, 'tally-1');
        await until(() => stream.changes.length === 1);
        stream.close();
        await stream.ended;
        for (const wrong of [
          path(kind, `ticket=${ticket}`),
          path(kind === 'sse' ? 'stream' : 'sse', `ticket=${ticket}&key=tally-1`),
        ])
          assert.equal(await refusalOf(t, node.url, wrong), 403);
      }
    }
});

test('the end of a key closes what its tickets opened through another process', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, b);
  const keyId = a.catalog.list('key', TENANT)[0]?.id ?? '';
  for (const kind of KINDS) await ticketOf(pair, a, { path: `/projections/${PROJECTION}/${kind}` });
  const [socketTicket, eventsTicket] = await Promise.all(
    KINDS.map((kind) => ticketOf(pair, a, { path: `/projections/${PROJECTION}/${kind}` })),
  );
  const socket = await openStream(t, a.url, path('stream', `ticket=${socketTicket}`));
  const events = await openStream(t, a.url, path('sse', `ticket=${eventsTicket}`));
  await revokeKey(a.catalog, TENANT, keyId);
  assert.equal(await socket.ended, 4401);
  assert.equal(await events.ended, 0);
  for (const node of [a, b])
    await until(async () => (await refusalOf(t, node.url, path('stream', `ticket=${socketTicket}`))) === 401);
});

test('the states come from the owner, also where another process notifies, and through a takeover they come anew', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  const headers = { 'x-api-key': pair.apiKey };
  cast(pair, b, a);
  for (let i = 0; i < 40; i++) await append(pair, a, `tally-${i % 9}`);
  // What is told is compared with what is read a moment later: all is folded by then.
  await until(
    async () => [...(await totalsOf(pair, a)).values()].reduce<number>((sum, n) => sum + Number(n), 0) === 40,
  );
  for (const kind of KINDS) {
    const streams = await Promise.all(
      [a, b].map((node) => openStream(t, node.url, path(kind, 'snapshot=true'), { headers })),
    );
    for (const stream of streams) {
      const { states } = await snapshotOf(stream);
      assert.deepEqual(totals(states as Stream['changes']), await totalsOf(pair, a));
    }
    assert.deepEqual([a.hub.subscriptions, b.hub.subscriptions], [0, 2]);
    await append(pair, a, 'tally-1');
    for (const stream of streams) await until(() => stream.changes.at(-1)?.cause === undefined);
    for (const stream of streams) {
      stream.close();
      await stream.ended;
    }
    await until(() => b.hub.subscriptions === 0);
  }

  // The tenant moves while pages come and go: each begins anew, and then has what there is.
  let owner = b;
  let moving = true;
  const load = (async () => {
    for (let i = 0; moving; i++) await append(pair, i % 2 === 0 ? a : b, `tally-${i % 9}`);
  })();
  const page = async (node: EdgeNode, kind: StreamKind): Promise<number> => {
    for (let begun = 1; ; begun++) {
      const stream = await openStream(t, node.url, path(kind, 'snapshot=true'), { headers });
      const latest = new Map<string, unknown>();
      const over = stream.ended.then(() => true);
      for (;;) {
        const rest = moving ? undefined : await totalsOf(pair, node);
        for (const [key, total] of totals(stream.changes)) latest.set(key, total);
        if (rest !== undefined && [...rest].every(([key, total]) => latest.get(key) === total)) {
          assert.ok(stream.messages.some(({ type }) => type === 'snapshot_end'));
          stream.close();
          return begun;
        }
        if (await Promise.race([over, new Promise((resolve) => setImmediate(resolve))])) break;
      }
    }
  };
  const pages = [a, b].flatMap((node) => KINDS.map((kind) => page(node, kind)));
  for (let turn = 0; turn < 3; turn++) {
    owner = owner === a ? b : a;
    cast(pair, owner, owner);
    await until(() => owner.registry.active(TENANT)?.status === 'RUNNING');
    const before = Math.max(...(await statesOf(pair, owner)).map(({ sequence }) => sequence));
    await until(async () => Math.max(...(await statesOf(pair, owner)).map(({ sequence }) => sequence)) > before + 5);
  }
  moving = false;
  await load;
  assert.ok(
    (await Promise.all(pages)).every((begun) => begun >= 2),
    'they were cut, and began anew',
  );
});

test('a page of a foreign origin is refused where it comes in, and one of its own host is not, whoever serves it', async (t) => {
  const pair = await edgePair(t, { projection: true });
  const { a, b } = pair;
  cast(pair, b, b);
  const ticket = await ticketOf(pair, a, { path: `/projections/${PROJECTION}/stream` });
  const asked = path('stream', `ticket=${ticket}`);
  for (const node of [a, b]) {
    (await openStream(t, node.url, asked, { headers: { origin: node.url } })).close();
    assert.equal(await refusalOf(t, node.url, asked, { headers: { origin: 'https://evil.example' } }), 403);
  }
  assert.equal(await refusalOf(t, a.url, asked, { headers: { origin: b.url } }), 403);
});

test('an answer that another process gave has the headers of CORS once', async (t) => {
  const origin = 'https://app.example.com';
  const pair = await edgePair(t, { projection: true, env: { CORS_ORIGINS: origin } });
  const { a, b } = pair;
  cast(pair, b, b);
  await append(pair, a, 'tally-1');
  for (const node of [a, b])
    for (const target of ['/events/tally-1', '/events/nothing', `/projections/${PROJECTION}/notifications`]) {
      const answer = await fetch(node.url + target, { headers: { origin, 'X-API-Key': pair.apiKey } });
      await answer.text();
      assert.equal(answer.headers.get('access-control-allow-origin'), origin);
      assert.match(answer.headers.get('access-control-expose-headers') ?? '', /Statefold-Position/);
    }
});
