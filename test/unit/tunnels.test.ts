import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { Gateway } from '../../src/http/gateway/gateway.js';
import type { Attempt } from '../../src/http/gateway/forward-call.js';
import { Tunnels } from '../../src/http/gateway/tunnels.js';
import type { Refusals } from '../../src/http/refusals.js';
import { peers } from '../support/peers.js';

test('an owner that refuses a handshake without end is given up', async (t) => {
  let sent = 0;
  const owner = createServer();
  owner.on('upgrade', (_request, socket) => {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n');
    const more = (): void => {
      while (!socket.destroyed && socket.write(`10000\r\n${'x'.repeat(0x10000)}\r\n`)) sent += 0x10000;
    };
    socket.on('drain', more);
    more();
  });
  owner.listen(0, '127.0.0.1');
  await once(owner, 'listening');
  const { port } = owner.address() as AddressInfo;
  const client = connect(port, '127.0.0.1');
  await once(client, 'connect');
  t.after(() => {
    client.destroy();
    owner.close();
    owner.closeAllConnections();
  });
  let outcome: Attempt | undefined;
  const gateway = {
    peers,
    reach: async (_request: unknown, _answer: unknown, _to: unknown, attempt: (url: string) => Promise<Attempt>) => {
      outcome = await attempt(`http://127.0.0.1:${port}`);
      return true;
    },
  } as unknown as Gateway;
  const request = { url: '/ws', headers: { upgrade: 'websocket' }, rawHeaders: [], socket: client, method: 'GET' };
  const tunnels = new Tunnels(gateway, {
    upgrade: (_r: unknown, _c: unknown, error: unknown) => assert.fail(String(error)),
  } as unknown as Refusals);
  await tunnels.connect(request as unknown as IncomingMessage, client, Buffer.alloc(0), {
    tenantId: 't',
    by: 'owner',
    requestId: 'r',
  });
  assert.equal(outcome?.kind, 'failed');
  assert.ok(sent < 64 * 1024 * 1024);
});
