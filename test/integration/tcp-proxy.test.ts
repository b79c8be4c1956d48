import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { PRODUCE, TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/service.js';

/** A request of Kafka's protocol with `size` bytes after its head. */
function request(apiKey: number, correlationId: number, size = 2): Buffer {
  const frame = Buffer.alloc(12 + size);
  frame.writeInt32BE(8 + size, 0);
  frame.writeInt16BE(apiKey, 4);
  frame.writeInt32BE(correlationId, 8);
  return frame;
}

/** A broker that answers each request with its correlation id, and a client of it behind a proxy. */
async function world(t: TestContext) {
  const received: number[] = [];
  const broker = createServer((socket) => {
    let rest = Buffer.alloc(0);
    socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        rest = Buffer.concat([rest, chunk]);
        while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
          const id = rest.readInt32BE(8);
          received.push(id);
          const answer = Buffer.alloc(8);
          answer.writeInt32BE(4, 0);
          answer.writeInt32BE(id, 4);
          socket.write(answer);
          rest = rest.subarray(4 + rest.readInt32BE(0));
        }
      });
  }).listen(0, '127.0.0.1');
  await once(broker, 'listening');
  const proxy = await TcpProxy.start((broker.address() as { port: number }).port);
  t.after(async () => {
    await proxy.close();
    broker.close();
  });
  const client = async (): Promise<{ socket: Socket; answers: number[]; errors: string[]; ended: () => boolean }> => {
    const socket = connect(proxy.port, '127.0.0.1');
    const answers: number[] = [];
    const errors: string[] = [];
    let rest = Buffer.alloc(0);
    socket.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? ''));
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (; rest.length >= 8; rest = rest.subarray(8)) answers.push(rest.readInt32BE(4));
    });
    t.after(() => socket.destroy());
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    return { socket, answers, errors, ended: () => socket.readableEnded || socket.destroyed };
  };
  return { proxy, received, client };
}

test('a proxy passes frames and ends', async (t) => {
  const { proxy, received, client } = await world(t);
  const { socket, answers, ended } = await client();
  // Cut in the middle of a head, and two at once.
  const bytes = Buffer.concat([request(PRODUCE, 1, 100_000), request(1, 2), request(3, 3)]);
  socket.write(bytes.subarray(0, 7));
  socket.write(bytes.subarray(7, 100_020));
  socket.write(bytes.subarray(100_020));
  await until(() => answers.length === 3);
  assert.deepEqual(answers, [1, 2, 3]);
  assert.deepEqual(received, [1, 2, 3]);
  socket.end();
  await until(() => ended() && proxy.connections === 0);
});

test('replies and requests that are chosen are lost, the others pass', async (t) => {
  const { proxy, received, client } = await world(t);
  const { socket, answers } = await client();
  proxy.judge(({ apiKey, correlationId }) =>
    apiKey !== PRODUCE ? 'pass' : correlationId === 1 ? 'lose reply' : 'lose request',
  );
  for (const [key, id] of [
    [PRODUCE, 1],
    [1, 2],
    [PRODUCE, 3],
    [1, 4],
  ] as const)
    socket.write(request(key, id));
  await until(() => answers.length === 2);
  assert.deepEqual(answers, [2, 4]);
  assert.deepEqual(received, [1, 2, 4]);
  assert.equal(proxy.lost, 2);
  await proxy.heal();
  socket.write(request(PRODUCE, 1));
  await until(() => answers.length === 3);
});

test('a half-open link holds what is sent, and hands it on when it is healed', async (t) => {
  const { proxy, received, client } = await world(t);
  const { socket, answers } = await client();
  proxy.set({ down: 'stall' });
  socket.write(request(1, 1));
  await until(() => received.length === 1);
  proxy.set({ up: 'stall' });
  socket.write(request(1, 2));
  const other = await client();
  other.socket.write(request(1, 3));
  proxy.set({ up: 'pass' });
  await until(() => received.length === 3);
  assert.deepEqual([answers, other.answers], [[], []]);
  await proxy.heal();
  await until(() => answers.length === 2 && other.answers.length === 1);
  assert.deepEqual(answers, [1, 2]);
});

test('a later connection overtakes what is held on an earlier one', async (t) => {
  const { proxy, received, client } = await world(t);
  const { socket, answers } = await client();
  socket.write(request(1, 1));
  await until(() => answers.length === 1);
  proxy.stallPresent('requests');
  socket.write(request(1, 2));
  const other = await client();
  other.socket.write(request(1, 3));
  await until(() => other.answers.length === 1);
  assert.deepEqual(received, [1, 3]);
  await proxy.heal();
  await until(() => answers.length === 2);
  assert.deepEqual(received, [1, 3, 2]);
});

test('what a client sent before it gave up arrives late, and its reply nowhere', async (t) => {
  const { proxy, received, client } = await world(t);
  const { socket, answers } = await client();
  socket.write(request(1, 1));
  await until(() => answers.length === 1);
  proxy.stallPresent('requests');
  socket.write(request(PRODUCE, 2, 50_000));
  const other = await client();
  other.socket.write(request(1, 3));
  await until(() => other.answers.length === 1);
  socket.destroy();
  await new Promise((resolve) => socket.once('close', resolve));
  assert.deepEqual(received, [1, 3]);
  await proxy.heal();
  await until(() => received.length === 3 && proxy.connections === 1);
  assert.deepEqual(received, [1, 3, 2]);
});

test('a slow link passes so many bytes a millisecond, or waits before each frame', async (t) => {
  const { proxy, client } = await world(t);
  const { socket, answers } = await client();
  const timed = async (frame: Buffer, expected: number): Promise<number> => {
    const started = performance.now();
    socket.write(frame);
    await until(() => answers.length === expected);
    return performance.now() - started;
  };
  proxy.set({ up: { bytesPerMs: 10 } });
  assert.ok((await timed(request(1, 1, 2_000), 1)) >= 150, '2,000 bytes at 10 a millisecond');
  proxy.set({ up: 'pass', down: { latencyMs: 100 } });
  assert.ok((await timed(request(1, 2), 2)) >= 95);
});

test('connections are reset, and refused until they are accepted again', async (t) => {
  const { proxy, client } = await world(t);
  const first = await client();
  first.socket.write(request(1, 1));
  await until(() => first.answers.length === 1);
  await proxy.refuse();
  const refused = await client();
  assert.deepEqual(refused.errors, ['ECONNREFUSED']);
  first.socket.write(request(1, 2));
  await until(() => first.answers.length === 2);
  proxy.reset();
  await until(() => first.errors.length === 1 && proxy.connections === 0);
  assert.deepEqual(first.errors, ['ECONNRESET']);
  await proxy.accept();
  const again = await client();
  again.socket.write(request(1, 3));
  await until(() => again.answers.length === 1);
});

test('a broker that is not there resets the connection', async (t) => {
  const { proxy, client } = await world(t);
  proxy.target = 1;
  const { errors, ended } = await client();
  await until(() => ended() && proxy.connections === 0);
  assert.deepEqual(errors, ['ECONNRESET']);
});
