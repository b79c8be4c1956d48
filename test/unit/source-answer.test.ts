// Sources are inflated as the client takes them, some on a paid turn: they are never in memory whole.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import type { Turns } from '../../src/core/turns.js';
import { RequestMemory, UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';
import { answerSources } from '../../src/http/source-answer.js';
import { until } from '../support/service.js';

const CHUNK = 64 * 1024;
const COUNT = 300;

/** Answers each request with so many chunks; `given` counts them, and `ended` whether they were ended. */
async function world(t: TestContext, chunkOf: (i: number) => Buffer = () => Buffer.alloc(CHUNK, 0x20)) {
  const seen = { given: 0, paid: [] as number[], ended: false };
  async function* chunks(): AsyncGenerator<Buffer> {
    try {
      for (; seen.given < COUNT; seen.given++) {
        yield chunkOf(seen.given);
        await Promise.resolve();
      }
    } finally {
      seen.ended = true;
    }
  }
  const enter: Turns['enter'] = (_, cost) => void seen.paid.push(cost);
  const budget = new MemoryBudget({ processBytes: 1 << 30, tenantBytes: 1 << 30 });
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    RequestMemory.begin(request, 't', { ...UNBOUNDED_REQUESTS, budget, turns: { enter } as Turns });
    const stored = { jsonBytes: COUNT * CHUNK, chunks };
    answerSources({ request, response, requestId: 'r-1' }, { reducerId: 'a' }, stored).catch(() => response.destroy());
  };
  const server = createServer(serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  const request = get({ port: (server.address() as AddressInfo).port });
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  return { seen, answer, request };
}

test('they come whole, on a turn for each part, beside the members of the answer', async (t) => {
  const { seen, answer } = await world(t);
  let text = '';
  for await (const part of answer.setEncoding('utf8')) text += part as string;
  assert.equal(text, `{"reducerId":"a","files":${' '.repeat(COUNT * CHUNK)}}`);
  assert.deepEqual(seen.paid, Array<number>(COUNT).fill(1));
  assert.equal(answer.headers['x-request-id'], 'r-1');
});

test('who does not read has no more of them inflated, and who leaves has them ended', async (t) => {
  const { seen, answer, request } = await world(t);
  answer.pause();
  // What the sockets take is taken; then nothing more comes.
  for (let before = -1; before !== seen.given;) {
    before = seen.given;
    for (let round = 0; round < 200; round++) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(seen.given < COUNT, `${seen.given} chunks`);
  request.destroy();
  await until(() => seen.ended);
  assert.ok(seen.given < COUNT, `${seen.given} chunks`);
});

test('where they can not be read to their end the connection is cut', async (t) => {
  const { answer } = await world(t, (i) => {
    if (i === 10) throw new Error('damaged');
    return Buffer.alloc(CHUNK, 0x20);
  });
  answer.resume();
  await assert.rejects(once(answer, 'end'), /aborted/);
});
