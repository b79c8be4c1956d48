import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as requestOf, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { RequestAbortedError } from '../../src/http/body.js';
import { readUpload } from '../../src/http/upload.js';

const LIMITS = { maxUploadBytes: 1_000_000, maxInflatedBytes: 1_000_000, maxArchiveEntries: 10 };

// Nothing tells a reader that comes later of it.
test('an upload whose client left before it was read is given up', { timeout: 10_000 }, async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const client = requestOf({
    port: (server.address() as AddressInfo).port,
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b', 'content-length': '1000' },
  }).on('error', () => undefined);
  client.flushHeaders();
  const [request] = (await once(server, 'request')) as [IncomingMessage];
  // It tells by an error that it was cut.
  const cut = once(request, 'error');
  client.destroy();
  await cut;
  await assert.rejects(readUpload(request, LIMITS), RequestAbortedError);
});
