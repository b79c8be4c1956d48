import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import type { AppendCommand } from '../../src/core/event.js';
import { answerError } from '../../src/http/answer.js';
import { appendRoute, type AppendRouteOptions } from '../../src/http/append-route.js';
import { Gateway } from '../../src/http/gateway/gateway.js';
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
