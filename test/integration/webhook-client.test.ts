import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import test, { type TestContext } from 'node:test';
import { WebhookClient } from '../../src/webhooks/webhook-client.js';

/** Answers each request with the bytes, as they are; `requests` counts what came. */
async function receiver(t: TestContext, answer: (socket: Socket) => void): Promise<{ url: string; requests: number }> {
  const sockets = new Set<Socket>();
  const received = { url: '', requests: 0 };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      if (!chunk.includes('POST /hook')) return;
      received.requests++;
      answer(socket);
    });
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  received.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return received;
}

function client(t: TestContext, timeoutMs = 10_000): WebhookClient {
  const made = new WebhookClient({ allowPrivate: true, timeoutMs });
  t.after(() => made.close());
  return made;
}

const BODY = Buffer.from('{}');
const never = new AbortController().signal;

test('a status counts, whatever becomes of the rest of the answer: cut, endless, or late', async (t) => {
  const cut = await receiver(t, (socket) => {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes.');
  });
  assert.deepEqual(await client(t).post(cut.url, {}, BODY, never), { kind: 'delivered', status: 200 });

  const chunk = `${(16 * 1024).toString(16)}\r\n${'x'.repeat(16 * 1024)}\r\n`;
  const endless = await receiver(t, (socket) => {
    socket.write('HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n');
    const more = (): void => {
      while (socket.writable && socket.write(chunk));
    };
    socket.on('drain', more);
    more();
  });
  const refused = await client(t).post(endless.url, {}, BODY, never);
  assert.equal(refused.kind === 'failed' && refused.excerpt, 'x'.repeat(256));

  const late = await receiver(t, (socket) => void socket.write('HTTP/1.1 410 Gone\r\ncontent-length: 9\r\n\r\nno '));
  assert.deepEqual(await client(t, 300).post(late.url, {}, BODY, never), {
    kind: 'gone',
    url: late.url,
    status: 410,
    excerpt: 'no ',
  });
});

test('what begins the body is kept over its parts, and a character that is cut is left out', async (t) => {
  const parts = await receiver(t, (socket) => {
    socket.write('HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 260\r\n\r\n');
    socket.write('a');
    setImmediate(() => socket.write('ä'.repeat(129) + 'b'));
  });
  const outcome = await client(t).post(parts.url, {}, BODY, never);
  assert.deepEqual(outcome, {
    kind: 'failed',
    status: 503,
    reason: 'answered 503',
    excerpt: `a${'ä'.repeat(127)}`,
    retryAfterMs: 7_000,
  });
});

test('hints before the answer are none', async (t) => {
  const hints = await receiver(t, (socket) => {
    socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n');
  });
  assert.deepEqual(await client(t).post(hints.url, {}, BODY, never), { kind: 'delivered', status: 204 });
});

test(
  'hints without end, and an answer byte by byte, are given up before they cost more than they are worth',
  { timeout: 10_000 },
  async (t) => {
    const sent = { hints: 0 };
    const hints = await receiver(t, (socket) => {
      const more = (): void => {
        if (!socket.writable) return;
        sent.hints++;
        socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100), () => setImmediate(more));
      };
      more();
    });
    // Not by its deadline.
    const patient = client(t, 60_000);
    const outcome = await patient.post(hints.url, {}, BODY, never);
    assert.equal(outcome.kind === 'failed' && outcome.reason, 'too many interim answers (1xx)');
    assert.ok(sent.hints < 100, `${sent.hints} times a hundred`);

    const drops = await receiver(t, (socket) => {
      socket.write(`HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(2000)}`);
    });
    const refused = await patient.post(drops.url, {}, BODY, never);
    assert.equal(refused.kind === 'failed' && refused.excerpt.slice(0, 2), 'xx');
  },
);

test('an attempt has one deadline, and is called off at once', async (t) => {
  const silent = await receiver(t, () => undefined);
  const one = client(t, 400);
  const timedOut = await one.post(silent.url, {}, BODY, never);
  assert.equal(timedOut.kind === 'failed' && timedOut.reason, 'no answer within 400 ms');

  // Nobody waits for a connection that others hold: a host may be many endpoints', of many tenants.
  const patient = client(t);
  const all = new AbortController();
  const before = silent.requests;
  const many = Array.from({ length: 40 }, () => patient.post(silent.url, {}, BODY, all.signal));
  while (silent.requests < before + 40) await new Promise((resolve) => setImmediate(resolve));
  all.abort();
  for (const outcome of await Promise.all(many))
    assert.equal(outcome.kind === 'failed' && outcome.reason, 'the attempt was called off');
  const unsent = silent.requests;
  const already = await patient.post(silent.url, {}, BODY, all.signal);
  assert.equal(already.kind, 'failed');
  assert.equal(silent.requests, unsent);
});

test('what can not be sent is an outcome: a header with a line break, a URL that is none', async (t) => {
  const taken = await receiver(t, (socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'));
  const one = client(t);
  const header = await one.post(taken.url, { 'x-bad': 'a\r\nb: c' }, BODY, never);
  assert.equal(header.kind, 'failed');
  const url = await one.post('nowhere', {}, BODY, never);
  assert.equal(url.kind === 'failed' && url.reason, 'the webhook URL is not a valid URL');
  assert.equal(taken.requests, 0);
});
