// A key that is revoked, or expires, while a line waits for its turn: the line is not taken.
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { BulkRoute, type BulkOptions } from '../../src/http/bulk/bulk-route.js';
import { UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';

/** Long enough for a turn of its own. */
const LINE = `{"aggregateId":"a","eventType":"T","data":"${'x'.repeat(64 * 1024)}"}\n`;

/** What the stream is told when the first of these lines waits for its turn, and the key is not in force behind that. */
async function told(lines: string, isHeard: boolean): Promise<{ readonly line: number; readonly code: string }> {
  const principal = { tenantId: 't', keyId: 'k' };
  let isRevoked = false;
  let revoke = (): void => undefined;
  const options = {
    admission: {
      authenticator: {
        admit: () => Promise.resolve(principal),
        authenticate: () => {
          if (isRevoked) throw new StatefoldError('UNAUTHENTICATED', 'The API key is not valid.');
          return principal;
        },
        onRevoked: (listener: (keyId: string, why: 'revoked') => void) => {
          revoke = () => {
            isRevoked = true;
            if (isHeard) listener(principal.keyId, 'revoked');
          };
        },
      },
      requests: { take: () => undefined },
      connections: { take: () => () => undefined },
      dues: { turned: () => undefined, counted: () => undefined },
      turns: {
        enter: (_tenantId: string, cost: number) => (cost > 1 ? Promise.resolve().then(revoke) : undefined),
      },
      memory: UNBOUNDED_REQUESTS,
    },
    catalog: { onChange: () => undefined },
    tenants: { partitionsOf: () => assert.fail('the line is taken') },
    limits: { maxBodyBytes: 1024 * 1024, maxDepth: 64, maxEvents: 1 },
    idleMs: 60_000,
    untimed: () => undefined,
  } as unknown as BulkOptions;
  const request = Object.assign(Readable.from([Buffer.from(lines)]), {
    url: '/events/bulk',
    headers: { 'content-type': 'application/x-ndjson' },
    socket: { destroySoon: () => undefined },
  }) as unknown as IncomingMessage;
  const answer = new PassThrough();
  const response = Object.assign(answer, {
    headersSent: false,
    writeHead: () => undefined,
    flushHeaders: () => undefined,
  }) as unknown as ServerResponse;
  const answers = text(answer);
  await new BulkRoute(options).serve(request, response, 'r');
  return JSON.parse((await answers).trim().split('\n').at(-1) ?? '') as {
    readonly line: number;
    readonly code: string;
  };
}

test('a line that waited for its turn while the key was revoked is refused', async () => {
  const { line, code } = await told(LINE, true);
  assert.deepEqual([line, code], [1, 'UNAUTHENTICATED']);
});

test('so is one while the key expired, which nobody tells, behind lines of the same bytes that were taken', async () => {
  const { line, code } = await told(`{}\n${LINE}`, false);
  assert.deepEqual([line, code], [2, 'UNAUTHENTICATED']);
});
