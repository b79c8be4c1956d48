import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import type { AppendCommand } from '../../src/core/event.js';
import { Turns } from '../../src/core/turns.js';
import { answerError } from '../../src/http/answer.js';
import { appendRoute, type AppendRouteOptions } from '../../src/http/append-route.js';
import { until } from '../support/service.js';

const MIB = 1024 * 1024;
const COUNT = 20;

test('bodies that were held back and end together wait for their turns, at what they cost, held of the budget', async (t) => {
  const rounds: (() => void)[] = [];
  const turns = new Turns({ nextRound: (work) => void rounds.push(work) });
  const budget = new MemoryBudget({ processBytes: 256 * MIB, tenantBytes: 64 * MIB });
  const stored: string[] = [];
  const principal = { tenantId: 't', keyId: 'k' };
  let begun = 0;
  const serves = appendRoute({
    authenticator: { find: () => principal, isClosed: () => false, permit: () => undefined },
    requests: { take: () => void begun++ },
    events: { take: () => undefined },
    turns,
    tenants: {
      partitionsOf: () => 1,
      home: () => ({
        append: ({ aggregateId, events }: AppendCommand) => {
          stored.push(aggregateId);
          return Promise.resolve({
            aggregateId,
            aggregateType: 'a',
            eventIds: events.map(() => 'e'),
            endVersion: 1,
            timestamp: 0,
          });
        },
      }),
    },
    gateway: { serves: () => true },
    memory: { budget, waitMs: 1000, stallMs: 30_000 },
    limits: { maxBodyBytes: MIB, maxDepth: 64, maxEvents: 1000 },
  } as unknown as AppendRouteOptions);
  const server = createServer((request, response) => {
    serves(request, response, 'r', 'single').catch((error: unknown) => answerError(response, error, 'r'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const open = async (aggregateId: string, fill: number): Promise<{ socket: Socket; rest: string }> => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const body = JSON.stringify({ aggregateId, eventType: 'Made', data: { fill: 'f'.repeat(fill) } });
    // Of a body in chunks nobody knows beforehand what it will cost.
    socket.write(
      `POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n`,
    );
    return { socket, rest: '\r\n' };
  };
  const opened = await Promise.all(Array.from({ length: COUNT }, (_, i) => open(`a-${i}`, 60_000)));
  await until(() => begun === COUNT);
  assert.deepEqual([turns.waiting, rounds.length, stored.length], [0, 0, 0], 'none had its turn without its body');
  for (const { socket, rest } of opened) socket.write(rest);
  await until(() => turns.waiting === COUNT - 1);
  await until(() => stored.length === 1);
  assert.ok(budget.held('appends') >= (COUNT - 1) * 60_000, 'what waits is held');
  // About 15 units each, of 16 a round.
  for (let round = 0; turns.waiting > 0; round++) {
    assert.ok(round < 2 * COUNT);
    const before = stored.length;
    for (const work of rounds.splice(0)) work();
    await until(() => stored.length === COUNT - turns.waiting);
    assert.ok(stored.length - before <= 2, `${stored.length - before} in a round`);
  }
  assert.equal(stored.length, COUNT);
  await until(() => budget.held('appends') === 0);
  for (const { socket } of opened) socket.destroy();
});
