import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { z } from 'zod';
import { MemoryBudget } from '../../src/core/budget.js';
import type { AppendCommand } from '../../src/core/event.js';
import { answerError } from '../../src/http/answer.js';
import { appendRoute, type AppendRouteOptions } from '../../src/http/append-route.js';
import { json } from '../../src/http/bodies.js';
import { Gateway } from '../../src/http/gateway/gateway.js';
import type { Turns } from '../../src/core/turns.js';
import { RequestMemory, UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';
import { ToldOwnership } from '../support/edge-pair.js';
import { until } from '../support/service.js';
import { peers } from '../support/peers.js';

const MIB = 1024 * 1024;

async function serve(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The route of appends of one tenant, `t`, over an aggregate home of the test. */
async function route(
  t: TestContext,
  budget: MemoryBudget,
  gateway: Gateway,
  append: (command: AppendCommand) => unknown = () => assert.fail('it is served elsewhere'),
): Promise<(body: object) => Promise<Response>> {
  const principal = { tenantId: 't', keyId: 'k' };
  const serves = appendRoute({
    authenticator: {
      find: () => principal,
      isClosed: () => false,
      permit: () => undefined,
      admit: () => Promise.resolve(principal),
    },
    requests: { take: () => undefined },
    events: { take: () => undefined },
    tenants: {
      partitionsOf: () => 1,
      home: () => ({ append: (command: AppendCommand) => Promise.resolve(append(command)) }),
    },
    gateway,
    memory: { budget, waitMs: 1000, stallMs: 30_000 },
    limits: { maxBodyBytes: MIB, maxDepth: 64, maxEvents: 1000 },
  } as unknown as AppendRouteOptions);
  const url = await serve(t, (request, response) => {
    serves(request, response, 'r', request.url === '/events/batch' ? 'batch' : 'single').catch((error: unknown) =>
      answerError(response, error, 'r'),
    );
  });
  return (body) =>
    fetch(url + ('events' in body ? '/events/batch' : '/events'), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
}

test('an append that is stored is answered so, whatever the other answers of the tenant hold', async (t) => {
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const ownership = new ToldOwnership();
  ownership.tell('self');
  const gateway = new Gateway({ ownership, peers, deadlineMs: 1000 });
  t.after(() => gateway.close());
  const state = Buffer.from(JSON.stringify('x'.repeat(100_000)));
  let stored = 0;
  const append = await route(t, budget, gateway, ({ aggregateId, aggregateType, events }) => {
    stored++;
    return {
      aggregateId,
      aggregateType,
      startVersion: 1,
      endVersion: events.length,
      timestamp: 0,
      eventIds: events.map((_, i) => `0190f5a0-0000-7000-8000-${String(i).padStart(12, '0')}`),
      state,
    };
  });
  const events = Array.from({ length: 1000 }, () => ({ eventType: 'e', data: {} }));
  const answered: (readonly [number, boolean])[] = [];
  for (const room of [200_000, 130_000, 105_000, 50_000, 0]) {
    const others = budget.tenant('t').hold('answers');
    others.add(4 * MIB - room);
    const answer = await append({ aggregateId: 'a', aggregateType: 'T', expectedVersion: 'any', events });
    const body = (await answer.json()) as { state?: string; stateStatus?: string; endVersion: number };
    assert.equal(body.state === undefined, body.stateStatus === 'unavailable');
    assert.equal(body.endVersion, 1000);
    answered.push([answer.status, body.state !== undefined]);
    others.close();
  }
  assert.deepEqual(answered, [
    [201, true],
    [201, false],
    [201, false],
    [201, false],
    [201, false],
  ]);
  assert.equal(stored, 5);
  await until(() => budget.held() === 0);
});

test('bodies on their way to an owner that does not answer are held of the budget, and refused past it', async (t) => {
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const ownerUrl = await serve(t, (request) => void request.resume());
  const ownership = new ToldOwnership();
  ownership.tell({ url: ownerUrl });
  const gateway = new Gateway({
    ownership,
    peers,
    deadlineMs: 20_000,
    memory: { budget, waitMs: 1000, stallMs: 30_000 },
  });
  const append = await route(t, budget, gateway);
  const statuses: number[] = [];
  const body = { aggregateId: 'a', aggregateType: 'T', eventType: 'e', data: 'x'.repeat(900_000) };
  for (let i = 0; i < 20; i++)
    void append(body).then(
      ({ status }) => statuses.push(status),
      () => undefined,
    );
  await until(() => statuses.length === 20 - 9);
  assert.ok(statuses.every((status) => status === 429));
  await until(() => budget.held('appends') >= 8_100_000);
  assert.ok(budget.held('appends') <= 8 * MIB, 'half of the budget of the tenant');
  await gateway.close();
});

test('bodies of JSON whose clients stop before the end are held of the budget, and refused past it', async (t) => {
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const body = json(z.object({ text: z.string() }));
  const settings = { maxBodyBytes: MIB, maxJsonDepth: 64 } as Parameters<typeof body.read>[1];
  const url = await serve(t, (request, response) => {
    RequestMemory.begin(request, 't', { budget, waitMs: 1000, stallMs: 30_000 });
    body.read(Object.assign(request, { res: response }), settings).then(
      () => response.end('{}'),
      (error: unknown) => answerError(response, error, 'r'),
    );
  });
  const { port, hostname } = new URL(url);
  const whole = Buffer.from(JSON.stringify({ text: 'x'.repeat(900_000) }));
  let answers = '';
  const sockets = Array.from({ length: 8 }, () => {
    const socket = connect(Number(port), hostname).on('data', (data) => (answers += data.toString('latin1')));
    t.after(() => socket.destroy());
    socket.write(
      `POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: ${whole.length}\r\n\r\n`,
    );
    socket.write(whole.subarray(0, 800_000));
    return socket;
  });
  const refused = (): number => answers.split('HTTP/1.1 429').length - 1;
  await until(() => budget.held('uploads') + refused() * 800_000 >= 8 * 800_000 - 8 * 64 * 1024);
  assert.ok(refused() >= 3, 'a quarter of the budget of the tenant');
  assert.ok(budget.held('uploads') <= 4 * MIB);

  for (const socket of sockets) socket.write(whole.subarray(800_000));
  await until(() => answers.split('HTTP/1.1 200').length - 1 === 8 - refused());
  await until(() => budget.held() === 0);
});

test('what is read and told on a few turns begins as any request does; the parts of what is longer stand behind those begun before', () => {
  const asked: (number | undefined)[] = [];
  const enter: Turns['enter'] = (_, _cost, asker) => void asked.push(asker?.begun);
  const memory = { ...UNBOUNDED_REQUESTS, turns: { enter } as Turns };
  const [first, second] = [1, 2].map(() => RequestMemory.begin({} as IncomingMessage, 't', memory));
  for (let part = 0; part < 5; part++) void first?.turnOf(1);
  for (let part = 0; part < 4; part++) void second?.turnOf(1);
  const none = Array.from({ length: 3 });
  const older = asked[3] ?? assert.fail();
  assert.deepEqual(asked, [...none, older, older, ...none, older + 1]);
});
