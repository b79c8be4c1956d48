// What a request reads for its answer is held of its tenant's memory before it is read: many that wait for their turn have read by then.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { test } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import { PAGE_BYTES } from '../../src/core/reads.js';
import { RequestMemory } from '../../src/http/request-memory.js';
import { Call } from '../../src/http/route.js';
import { ROUTES } from '../../src/http/table.js';

const MIB = 1024 * 1024;
const PARTITIONS = 3;

/** Serves the route up to where it first reads; resolves with what is held then, bytes. */
async function heldAtFirstRead(operationId: string): Promise<number> {
  const budget = new MemoryBudget({ processBytes: 512 * MIB, tenantBytes: 128 * MIB });
  const request = {
    ...{ method: 'GET', url: '/', headers: {}, socket: new EventEmitter() },
  } as unknown as IncomingMessage;
  const response = Object.assign(new EventEmitter(), { destroyed: false, closed: false }) as unknown as ServerResponse;
  RequestMemory.begin(request, 't', { budget, waitMs: 100, stallMs: 100 });
  const route = ROUTES.find((one) => one.operationId === operationId) ?? assert.fail(operationId);
  const parameters = { id: 'p', key: 'k', aggregateId: 'a', type: 'a' };
  const call = new Call(route, request, response, { parameters, requestId: 'r', settings: {} } as never);
  call.admit({ tenantId: 't', keyId: 'k' });
  const read = new Error('read');
  let held: number | undefined;
  const reads = (): never => {
    held ??= budget.held('answers');
    throw read;
  };
  const value = {
    tenantId: 't',
    projectionId: 'p',
    status: 'compiled',
    revision: 2,
    partitions: PARTITIONS,
    createdAt: '2026-01-01',
  };
  const tenant = {
    projections: { states: reads, statesOf: reads, life: reads, reached: 0 },
    aggregates: { list: reads, types: reads, eventTypes: reads },
    faults: { ofProjection: reads, ofType: reads },
    // So that the projection is not behind.
    events: { head: 0, read: reads },
  };
  const dependencies = {
    catalog: { get: () => ({ value }), past: reads, list: () => [] },
    tenants: {
      partitionsOf: () => PARTITIONS,
      open: () => Promise.resolve(tenant),
      home: () => Promise.resolve({ events: reads }),
    },
    channels: { positionWaits: { projection: () => Promise.resolve() } },
    eventTypes: { list: () => [], get: () => undefined },
    endpoints: { require: () => value },
    endpointOperations: { attempts: reads, deadLetters: () => [] },
    audit: { list: reads },
    deployments: { uploadedSources: reads },
  };
  await assert.rejects(async () => route.serve(dependencies as never, call), read);
  return held ?? assert.fail('it reads nothing');
}

for (const [operationId, bytes] of [
  ['getStates', PAGE_BYTES],
  ['listStates', PAGE_BYTES],
  ['listEvents', PAGE_BYTES],
  ['listAggregates', PARTITIONS * MIB],
  ['listAggregateTypes', PARTITIONS * MIB],
  ['listEventTypes', PARTITIONS * MIB],
  ['getProjection', MIB],
  ['listWebhookAttempts', MIB],
  ['listAudit', PAGE_BYTES],
] as const)
  test(`${operationId} holds ${bytes / MIB} MiB before it reads`, async () => {
    assert.equal(await heldAtFirstRead(operationId), bytes);
  });
