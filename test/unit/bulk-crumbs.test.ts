import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import { Turns } from '../../src/core/turns.js';
import { BulkRoute, type BulkOptions } from '../../src/http/bulk/bulk-route.js';
import { UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';

/** A route of one tenant that takes no lines, and counts how often it gave way. */
function route(): { readonly bulk: BulkRoute; readonly rounds: () => number } {
  const principal = { tenantId: 't', keyId: 'k' };
  let rounds = 0;
  const turns = new Turns({
    nextRound: (work) =>
      void setImmediate(() => {
        rounds++;
        work();
      }),
  });
  const options = {
    admission: {
      authenticator: {
        admit: () => Promise.resolve(principal),
        authenticate: () => principal,
        onRevoked: () => undefined,
      },
      requests: { take: () => undefined },
      connections: { take: () => () => undefined },
      dues: { turned: () => undefined, counted: () => undefined },
      turns,
      memory: UNBOUNDED_REQUESTS,
    },
    catalog: { onChange: () => undefined },
    limits: { maxBodyBytes: 1024 * 1024, maxDepth: 64, maxEvents: 1 },
    idleMs: 60_000,
    untimed: () => undefined,
  } as unknown as BulkOptions;
  return { bulk: new BulkRoute(options), rounds: () => rounds };
}

test('chunks of one byte are paid for one by one: a stream of them gives way as often as one of lines', async () => {
  const { bulk, rounds } = route();
  const CHUNKS = 20_000;
  const request = Object.assign(Readable.from(Array<Buffer>(CHUNKS).fill(Buffer.from(' '))), {
    url: '/events/bulk',
    headers: { 'content-type': 'application/x-ndjson' },
    socket: { destroySoon: () => undefined },
  }) as unknown as IncomingMessage;
  const answer = new PassThrough().resume();
  const response = Object.assign(answer, {
    headersSent: false,
    writeHead: () => undefined,
    flushHeaders: () => undefined,
  }) as unknown as ServerResponse;
  await bulk.serve(request, response, 'r');
  // Each round has 256 of them, or as many as two turns where nobody else asks.
  assert.ok(rounds() >= CHUNKS / 1_024, `${rounds()} rounds`);
});
