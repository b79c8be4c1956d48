// Two processes' edges over one log: a stream of appends comes to the one that doesn't own the tenant, or doesn't any more.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { bulk, BulkClient, type BulkLine } from '../support/bulk.js';
import { edgePair, type EdgeNode, type EdgePair } from '../support/edge-pair.js';
import { until } from '../support/service.js';

const noted = (aggregateId: string, n: number, more: object = {}): object => ({
  aggregateId,
  eventType: 'Noted',
  data: { n },
  ...more,
});

async function numbers({ apiKey }: EdgePair, node: EdgeNode, aggregateId: string): Promise<number[]> {
  const response = await fetch(`${node.url}/events/${aggregateId}?limit=10000`, { headers: { 'x-api-key': apiKey } });
  const { events } = (await response.json()) as { events: { data: { n: number } }[] };
  return events.map(({ data }) => data.n);
}

test('a stream goes to the owner, and each line is answered in its place', async (t) => {
  const pair = await edgePair(t);
  const lines = await bulk(pair.a.url, pair.apiKey, [
    noted('note-1', 1),
    '{',
    noted('note-1', 2, { expectedVersion: 9 }),
    '',
    noted('note-2', 3, { idempotencyKey: 'k' }),
    noted('note-2', 3, { idempotencyKey: 'k' }),
    { aggregateId: 'note-1', eventType: 'Noted', data: {}, evntId: 'x' },
  ]);
  assert.deepEqual(
    lines.map(({ line, status, version, code, pointer }) => [line, status, version ?? code, pointer]),
    [
      [1, 201, 1, undefined],
      [2, 400, 'INVALID_REQUEST', undefined],
      [3, 409, 'VERSION_CONFLICT', undefined],
      [5, 201, 1, undefined],
      [6, 201, 1, undefined],
      [7, 400, 'INVALID_REQUEST', '/evntId'],
    ],
  );
  assert.equal(lines[3]?.['eventId'], lines[4]?.['eventId']);
  assert.equal(pair.b.counts.appends + pair.a.counts.appends, 3);
  assert.equal(pair.a.counts.appends, 0);
});

/** Sends lines of 7 aggregates for as long as `when` is under way, and then some; gives how many, and the answers. */
async function streamed(
  t: TestContext,
  pair: EdgePair,
  when: () => Promise<void>,
): Promise<{ sent: number; answers: BulkLine[] }> {
  const client = new BulkClient(pair.a.url, pair.apiKey);
  t.after(() => client.request.destroy());
  let sent = 0;
  let ended = false;
  const answers: BulkLine[] = [];
  const reading = (async () => {
    for (let line = await client.next(); line !== undefined; line = await client.next()) answers.push(line);
  })();
  const write = (): void => {
    for (let i = 0; i < 10; i++) client.write(noted(`moved-${sent % 7}`, sent++));
  };
  const writing = (async () => {
    while (!ended) {
      write();
      await until(() => answers.length > sent - 100 || ended);
    }
  })();
  await until(() => answers.length > 50);
  await when();
  const before = answers.length;
  await until(() => answers.length > before + 200);
  ended = true;
  await writing;
  client.end();
  await reading;
  return { sent, answers };
}

async function wholeAndInOrder(
  pair: EdgePair,
  node: EdgeNode,
  { sent, answers }: { sent: number; answers: BulkLine[] },
): Promise<void> {
  assert.deepEqual(
    answers.map(({ line, status }) => [line, status]),
    Array.from({ length: sent }, (_, i) => [i + 1, 201]),
    JSON.stringify(answers.find(({ status }) => status !== 201)),
  );
  for (let aggregate = 0; aggregate < 7; aggregate++) {
    const expected = Array.from({ length: sent }, (_, n) => n).filter((n) => n % 7 === aggregate);
    assert.deepEqual(await numbers(pair, node, `moved-${aggregate}`), expected);
  }
}

test('while the owner changes, back and forth, each line is stored once and in its order', async (t) => {
  const pair = await edgePair(t, { aligned: true });
  const { a, b } = pair;
  const moved = await streamed(t, pair, async () => {
    for (const owner of [a, b, a, b]) {
      const appends = owner.counts.appends;
      pair.own(owner);
      await until(() => owner.counts.appends > appends + 30);
    }
  });
  await wholeAndInOrder(pair, b, moved);
});

test('when the owner dies with lines that it has stored and not answered, each is stored once', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  let stored = 0;
  const moved = await streamed(t, pair, async () => {
    // Stored, and never answered by this process.
    b.afterAppend = () => {
      stored++;
      return new Promise(() => undefined);
    };
    await until(() => stored > 20);
    b.kill();
    pair.own(a);
  });
  await wholeAndInOrder(pair, a, moved);
});

test('a client that goes away ends the stream to the owner too', async (t) => {
  const pair = await edgePair(t);
  const client = new BulkClient(pair.a.url, pair.apiKey);
  client.write(noted('note-1', 1));
  assert.equal((await client.next())?.status, 201);
  client.request.destroy();
  const connections = (): Promise<number> =>
    new Promise((resolve, reject) =>
      pair.b.edge.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
    );
  await until(async () => (await connections()) === 0);
});
