import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import test, { type TestContext } from 'node:test';
import { networkOf } from '../../src/http/address-connections.js';
import { FrontDoor } from '../../src/http/front-door.js';
import { until } from '../support/service.js';

async function door(t: TestContext, maxConnectionsPerAddress: number): Promise<(from: string) => Socket> {
  const opened = new FrontDoor({
    port: 0,
    host: '127.0.0.1',
    maxConnections: 100,
    maxConnectionsPerAddress,
    headersTimeoutMs: 10_000,
    requestTimeoutMs: 10_000,
    keepAliveTimeoutMs: 10_000,
  });
  const port = await opened.listen();
  t.after(() => opened.close());
  return (localAddress) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    return socket;
  };
}

/** Whether it is answered. */
async function isServed(socket: Socket): Promise<boolean> {
  socket.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
  const ends = new AbortController();
  try {
    return await Promise.race([
      once(socket, 'data', ends).then(() => true),
      once(socket, 'close', ends).then(() => false),
    ]);
  } finally {
    ends.abort();
  }
}

test('an address that has as many connections as it may takes no others, and those of another address are served', async (t) => {
  const open = await door(t, 2);
  const [first, second] = [open('127.0.0.1'), open('127.0.0.1')];
  assert.deepEqual([await isServed(first), await isServed(second)], [true, true]);
  assert.equal(await isServed(open('127.0.0.1')), false);
  assert.equal(await isServed(open('127.0.0.2')), true);
  first.destroy();
  await until(() => isServed(open('127.0.0.1')));
});

test('without the setting an address takes what it likes, as a proxy does', async (t) => {
  const open = await door(t, 0);
  for (let i = 0; i < 50; i++) assert.equal(await isServed(open('127.0.0.1')), true);
});

test('addresses of IPv6 count by their /64, those of IPv4 one by one', () => {
  assert.deepEqual(
    ['10.0.0.1', '::ffff:10.0.0.1', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::9', '2001:db8::1', '::1', 'fe80::1'].map(
      networkOf,
    ),
    ['10.0.0.1', '10.0.0.1', '2001:db8:1:2', '2001:db8:1:2', '2001:db8:0:0', '0:0:0:0', 'fe80:0:0:0'],
  );
});
