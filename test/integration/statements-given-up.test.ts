// A ClickHouse server runs a statement that writes to its end, also when its client is gone: who gives one up has it ended. The engine is
// the real one; before it stands what tells it nothing of clients that leave.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { before, describe, it } from 'node:test';
import { ClickHouseConnection } from '../../src/read-store/clickhouse/connection.js';
import type { EmbeddedEngine } from '../../src/read-store/embedded/embedded-engine.js';
import type { ClickHouseEndpoint } from '../../src/read-store/endpoint.js';
import { readyEngine, suiteCleanUp, until, type CleanUp } from './read-store-fixture.js';

/** Far more than anybody waits for, and nothing that is kept. */
const ENDLESS = 'INSERT INTO nothing SELECT number FROM numbers(1000000000000) SETTINGS max_threads = 1';

describe('a statement that writes and is given up', () => {
  const cleanUp = suiteCleanUp();
  let engine: EmbeddedEngine;

  before(async () => {
    engine = await readyEngine(cleanUp);
  });

  const reached = (): ClickHouseEndpoint => {
    const endpoint = engine.endpoint();
    assert.ok(endpoint);
    return { ...endpoint, database: 'default' };
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...headers } = request.headers;
    const method = request.method ?? 'POST';
    const body = await buffer(request);
    const answer = await fetch(new URL(request.url ?? '/', reached().url), {
      method,
      headers: headers as Record<string, string>,
      ...(method === 'POST' && { body: new Uint8Array(body) }),
    });
    const text = await answer.text();
    response.writeHead(answer.status, {
      'X-ClickHouse-Exception-Code': answer.headers.get('x-clickhouse-exception-code') ?? '0',
    });
    response.end(text);
  }

  const open = async (context: CleanUp) => {
    const server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const connection = new ClickHouseConnection({ endpoint: () => ({ ...reached(), url }), deadlineMs: 30_000 });
    const direct = new ClickHouseConnection({ endpoint: reached, deadlineMs: 30_000 });
    context.after(async () => {
      await connection.close();
      await direct.close();
      server.closeAllConnections();
      server.close();
    });
    const isRunning = async (): Promise<boolean> =>
      (
        await direct.rows('', {
          query: "SELECT 1 FROM system.processes WHERE startsWith(query, 'INSERT INTO nothing')",
        })
      ).length > 0;
    await direct.run('', { query: 'CREATE TABLE IF NOT EXISTS nothing (n UInt64) ENGINE = Null' });
    return { connection, isRunning };
  };

  for (const [how, giveUp] of [
    ['by who asked', (asked: AbortController) => asked.abort()],
    ['with its connection', (_: AbortController, connection: ClickHouseConnection) => connection.close()],
  ] as const)
    it(`is ended in the engine, given up ${how}`, async (context) => {
      const { connection, isRunning } = await open(context);
      const asked = new AbortController();
      const written = connection.run('could not write', { query: ENDLESS, signal: asked.signal }, 60_000);
      const refused = assert.rejects(written, { code: 'UNAVAILABLE' });
      await until('it is under way', isRunning);
      await giveUp(asked, connection);
      await refused;
      await until('it is ended', async () => !(await isRunning()), 10_000);
    });
});
