import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import type { Turns } from '../../src/core/turns.js';
import { RequestMemory, UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';
import type { RouteDependencies } from '../../src/http/routes/dependencies.js';
import { WEBHOOK_ENDPOINTS } from '../../src/http/routes/webhook-endpoints.js';

test('what changes a large webhook endpoint takes a turn of its size, however short the request', async () => {
  const reached = new Error('it is changed');
  const change = (): never => {
    throw reached;
  };
  for (const [operation, body] of [
    ['pauseWebhookEndpoint', undefined],
    ['resumeWebhookEndpoint', undefined],
    ['rotateWebhookEndpointSecret', undefined],
    ['changeWebhookEndpoint', { description: 'd' }],
  ] as const)
    for (const [keys, paid] of [
      [1, 0],
      [1_000, (1_000 * 256 + 2) / 4_096],
    ] as const) {
      const costs: number[] = [];
      const request = {} as IncomingMessage;
      const turns = { enter: (_: string, cost: number) => void costs.push(cost) } as unknown as Turns;
      RequestMemory.begin(request, 't', { ...UNBOUNDED_REQUESTS, turns });
      const endpoint = { keys: Array<string>(keys).fill('k'.repeat(256)), source: { feed: { eventTypes: ['ab'] } } };
      const endpoints = { require: () => endpoint, pause: change, resume: change, rotate: change, change };
      const call = { request, tenantId: 't', parameter: () => 'e', body: () => Promise.resolve(body) };
      const route = WEBHOOK_ENDPOINTS.find(({ operationId }) => operationId === operation);
      await assert.rejects(
        Promise.resolve(route?.serve({ endpoints } as unknown as RouteDependencies, call as never)),
        reached,
      );
      assert.equal(
        costs.reduce((sum, cost) => sum + cost, 0),
        paid,
        operation,
      );
    }
});
