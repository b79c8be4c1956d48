import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import test, { type TestContext } from 'node:test';
import { FrontDoor, type Household } from '../../src/http/front-door.js';
import { until } from '../support/service.js';

/** A connection to a door whose household answers nothing, but counts. */
async function opened(t: TestContext): Promise<{ client: Socket; asked: () => number }> {
  const door = new FrontDoor({
    port: 0,
    host: '127.0.0.1',
    maxConnections: 100,
    maxConnectionsPerAddress: 0,
    headersTimeoutMs: 10_000,
    requestTimeoutMs: 10_000,
    keepAliveTimeoutMs: 10_000,
  });
  let asked = 0;
  const serve = (): void => void asked++;
  const household: Household = { request: serve, checkContinue: serve, upgrade: serve };
  door.open(household);
  const client = connect({ port: await door.listen(), host: '127.0.0.1' });
  t.after(() => {
    client.destroy();
    return door.close();
  });
  client.on('error', () => undefined);
  await once(client, 'connect');
  return { client, asked: () => asked };
}

const ASKED = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const HOSTLESS = 'GET / HTTP/1.1\r\n\r\n';
const EXPECTING = 'GET / HTTP/1.1\r\nHost: x\r\nExpect: the unexpected\r\n\r\n';

test('a request without Host, or which expects what nobody knows, is refused', async (t) => {
  const [hostless, expecting] = [await opened(t), await opened(t)];
  hostless.client.write(HOSTLESS);
  expecting.client.write(EXPECTING);
  const answers = [await once(hostless.client, 'data'), await once(expecting.client, 'data')].map(([data]) =>
    String(data).slice(0, 12),
  );
  assert.deepEqual(answers, ['HTTP/1.1 400', 'HTTP/1.1 417']);
  assert.deepEqual([hostless.asked(), expecting.asked()], [0, 0]);
  await once(hostless.client, 'close');
});

test('a client of HTTP/1.0 needs no Host', async (t) => {
  const { client, asked } = await opened(t);
  client.write('GET / HTTP/1.0\r\n\r\n');
  await until(() => asked() === 1);
});

test('they too are bounded behind an answer that is not there yet', async (t) => {
  for (const refused of [HOSTLESS, EXPECTING]) {
    const { client, asked } = await opened(t);
    client.write(ASKED + refused.repeat(15));
    await until(() => asked() === 1);
    assert.equal(client.closed, false);
    client.write(refused);
    await once(client, 'close');
  }
});
