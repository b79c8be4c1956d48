import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import test, { type TestContext } from 'node:test';
import { Pipelines } from '../../src/http/pipelining.js';
import { until } from '../support/service.js';

async function served(t: TestContext, pipelines = new Pipelines(), localAddress = '127.0.0.1') {
  const begun: ServerResponse[] = [];
  let closed = 0;
  const server = createServer((request, response) => {
    if (!pipelines.takes(request, response)) return;
    begun.push(response);
    response.once('close', () => closed++);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', localAddress });
  t.after(() => client.destroy());
  await once(client, 'connect');
  return { client, begun, closed: () => closed };
}

const send = (client: Socket, requests: number): void =>
  void client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(requests));

test('requests that are sent ahead are answered in turn', async (t) => {
  const { client, begun, closed } = await served(t);
  let text = '';
  client.on('data', (chunk: Buffer) => (text += chunk.toString()));
  send(client, 10);
  await until(() => begun.length === 10);
  for (const [i, response] of [...begun.entries()].reverse()) response.end(`answer ${i};`);
  await until(() => text.endsWith('answer 9;'));
  assert.deepEqual(
    text.match(/answer \d;/g),
    Array.from({ length: 10 }, (_, i) => `answer ${i};`),
  );
  assert.equal(closed(), 10);
  send(client, 10);
  await until(() => begun.length === 20);
});

test('each answer hears that its connection has gone, also where its turn never came', async (t) => {
  const { client, begun, closed } = await served(t);
  send(client, 10);
  await until(() => begun.length === 10);
  client.destroy();
  await until(() => closed() === 10);
  assert.ok(begun.every(({ destroyed }) => destroyed));
});

test('whoever sends more ahead than is taken loses the connection, and nothing stays of it', async (t) => {
  const { client, begun, closed } = await served(t);
  client.on('error', () => undefined);
  send(client, 1000);
  await once(client, 'close');
  await until(() => closed() === begun.length);
  assert.equal(begun.length, 16);
  assert.ok(begun.every(({ destroyed }) => destroyed));
});

test('an address has as many sent ahead as are left for others, and one that sends a request at a time is served', async (t) => {
  const pipelines = new Pipelines(12);
  const from = (address: string) => served(t, pipelines, address);
  const [first, second, third] = [await from('127.0.0.1'), await from('127.0.0.1'), await from('127.0.0.1')];
  send(first.client, 7);
  await until(() => first.begun.length === 7);
  send(second.client, 2);
  await until(() => second.client.closed);
  assert.equal(second.begun.length, 1);
  send(third.client, 1);
  await until(() => third.begun.length === 1);
  const other = await from('127.0.0.2');
  send(other.client, 4);
  await until(() => other.begun.length === 4);
  send(other.client, 1);
  await until(() => other.client.closed);
  assert.equal(other.begun.length, 4);
  // As they are answered, and as their connection goes, there is room again.
  for (const response of first.begun.slice(0, 4)) response.end();
  await until(() => first.closed() === 4);
  send(third.client, 3);
  await until(() => third.begun.length === 4);
  first.client.destroy();
  await until(() => first.closed() === 7);
  send(third.client, 3);
  await until(() => third.begun.length === 7);
  const last = await from('127.0.0.1');
  send(last.client, 2);
  await until(() => last.client.closed);
});
