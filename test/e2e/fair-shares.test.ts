import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import test from 'node:test';
import { Api, success, newTenant, admin } from '../support/api.js';
import { BulkClient } from '../support/bulk.js';
import { API_KEY, startService, until } from '../support/service.js';

/** A connection that is open, so that a request costs one write, which the service reads as it comes. */
class Line {
  #received = '';
  #answered: ((body: string) => void) | undefined;
  #failed: ((error: Error) => void) | undefined;

  readonly #expected: RegExp;

  private constructor(
    readonly socket: Socket,
    status: string,
  ) {
    this.#expected = new RegExp(`^HTTP/1\\.1 ${status} `);
    socket.setNoDelay(true);
    socket.on('error', (error) => this.#failed?.(error));
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
      const [head = '', ...body] = this.#received.split('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
      if (body.join('\r\n\r\n').length < length || Number.isNaN(length)) return;
      assert.match(head, this.#expected);
      this.#received = '';
      this.#answered?.(body.join('\r\n\r\n'));
    });
  }

  /** `status`: a pattern of those that its answers must have. */
  static async open(port: number, status = '20[01]'): Promise<Line> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new Line(socket, status);
  }

  /** Resolves with the body of the answer when it is there. */
  ask(request: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#answered = resolve;
      this.#failed = reject;
      this.socket.write(request);
    });
  }
}

const append = (key: string, path: string, body: object): string => {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};
const read = (key: string, path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n\r\n`;

const ROUNDS = 9;
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

// How long anything takes depends on the machine; who is answered before whom does not.
test('whoever sends little is not behind those who send much', async (t) => {
  const service = await startService(t, { env: { ANSWER_DEADLINE_MS: '60000' } });
  const port = Number(new URL(service.url).port);
  const flooding = await newTenant(service, { tenantId: 'flood' });
  const events = Array.from({ length: 200 }, (_, n) => ({ eventType: 'Made', data: { n, fill: 'f'.repeat(50) } }));
  const flood = new Api(service, flooding);
  success(await flood.post('/events/batch', { aggregateId: 'read-1', events }), 201);
  await new Api(service).append('calm-1', 'Made');
  const calm = await Line.open(port);
  t.after(() => calm.socket.destroy());

  for (const [name, count, request] of [
    [
      'appends',
      200,
      (i: number) => append(flooding, '/events', { aggregateId: `a-${i}`, eventType: 'Made', data: {} }),
    ],
    ['batches', 60, (i: number) => append(flooding, '/events/batch', { aggregateId: `b-${i}`, events })],
    ['reads', 120, () => read(flooding, '/events/read-1')],
  ] as const)
    await t.test(`beside a burst of ${count} ${name}`, async () => {
      const lines = await Promise.all(Array.from({ length: count }, () => Line.open(port)));
      const shares: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        let answered = 0;
        // All of the burst is written before the one request that is looked at.
        const burst = lines.map((line, i) => line.ask(request(i)).then(() => answered++));
        await calm.ask(append(API_KEY, '/events', { aggregateId: `calm-${round}`, eventType: 'Made', data: {} }));
        shares.push(answered / count);
        await Promise.all(burst);
        assert.equal(answered, count);
      }
      for (const line of lines) line.socket.destroy();
      await until(() => lines.every(({ socket }) => socket.destroyed));
      const seen = `it was answered when ${shares.map((share) => `${Math.round(100 * share)}%`).join(', ')} of the burst were`;
      assert.ok(median(shares) <= 0.5, seen);
      // A round in which the processor was elsewhere, between the two writes say, tells nothing.
      assert.ok(shares.filter((share) => share > 0.75).length <= 2, seen);
    });
});

// A stream is one request however much comes in it: it takes its turns line by line, and for lines with nothing in them too.
test('whoever sends little is not behind those who send streams of lines', async (t) => {
  const [STREAMS, LINES] = [16, 800];
  const service = await startService(t, { env: { ANSWER_DEADLINE_MS: '60000' } });
  const flooding = await newTenant(service, { tenantId: 'flood' });
  await new Api(service).append('calm-1', 'Made');
  const calm = await Line.open(Number(new URL(service.url).port));
  t.after(() => calm.socket.destroy());
  const line = (i: number, n: number): object => ({ aggregateId: `s-${i}`, eventType: 'Made', data: { n } });

  for (const [name, linesOf] of [
    ['lines', (i: number) => Array.from({ length: LINES }, (_, n) => line(i, n))],
    [
      'blank lines between lines',
      (i: number) => Array.from({ length: LINES }, (_, n) => [' \r\n\t\n', line(i, n)]).flat(),
    ],
    ['lines with nothing in them, and one behind', (i: number) => ['\n'.repeat(256 * 1024), line(i, 0)]],
  ] as const)
    await t.test(`beside a burst of ${name}`, async () => {
      const streams = Array.from({ length: STREAMS }, () => new BulkClient(service.url, flooding));
      await Promise.all(
        streams.map(async (stream, i) => {
          stream.write(line(i, 0));
          assert.equal((await stream.next())?.status, 201);
        }),
      );
      const shares: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const burst = streams.map(async (stream, i) => {
          const lines = linesOf(i);
          stream.write(...lines);
          const times: string[] = [];
          for (const sent of lines) {
            if (typeof sent === 'string') continue;
            const answer = await stream.next();
            assert.equal(answer?.status, 201, JSON.stringify(answer));
            times.push(String(answer['timestamp']));
          }
          return times;
        });
        // A client of HTTP writes at the end of its turn.
        await new Promise((resolve) => setImmediate(resolve));
        const event = { aggregateId: `calm-${round}`, eventType: 'Made', data: {} };
        const { timestamp } = JSON.parse(await calm.ask(append(API_KEY, '/events', event))) as { timestamp: string };
        const times = (await Promise.all(burst)).flat();
        shares.push(times.filter((time) => time < timestamp).length / times.length);
      }
      for (const stream of streams) stream.end();
      for (const stream of streams) assert.deepEqual(await stream.rest(), []);
      const seen = `it was decided when ${shares.map((share) => `${Math.round(100 * share)}%`).join(', ')} of the lines were`;
      // Where streams take no turns it is half of them in every third round.
      assert.ok(shares.filter((share) => share > 0.25).length <= 2, seen);
    });
});

// What is refused costs the event loop about as much as what isn't.
test('whoever sends little is not behind those whose requests are refused', async (t) => {
  const service = await startService(t);
  const port = Number(new URL(service.url).port);
  await newTenant(service, { tenantId: 'refused' });
  const suspended = await newTenant(service, { tenantId: 'suspended' });
  const slow = await newTenant(service, { tenantId: 'slow' });
  const keyOf = async (body: object): Promise<string> =>
    success(await admin(service, 'POST', '/admin/tenants/refused/keys', body), 201).json<{ apiKey: string }>().apiKey;
  const narrow = await keyOf({ scopes: ['webhooks'] });
  success(await admin(service, 'PATCH', '/admin/tenants/suspended', { suspended: true }), 200);
  success(await admin(service, 'PATCH', '/admin/tenants/slow', { quotas: { requestsPerSecond: 0 } }), 200);
  const event = { aggregateId: 'refused-1', eventType: 'Made', data: {} };
  const ask = (method: string, path: string, key: string): string =>
    `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\nContent-Length: 0\r\n\r\n`;
  const calm = await Line.open(port);
  t.after(() => calm.socket.destroy());

  for (const [name, status, request] of [
    ['reads without the scope', '403', read(narrow, '/aggregates')],
    ['appends without the scope', '403', append(narrow, '/events', event)],
    ['appends past the pace', '429', append(slow, '/events', event)],
    ['reads past the pace', '429', read(slow, '/aggregates')],
    ['paths that are not there', '404', read(narrow, '/nothing')],
    ['methods that are not allowed', '405', ask('PUT', '/usage', narrow)],
    ['requests of a suspended tenant', '403', read(suspended, '/usage')],
    ['appends of a suspended tenant', '403', append(suspended, '/events', event)],
    ['keys that are none', '401', read('not-a-key', '/usage')],
    ['bodies that are not JSON', '415', ask('POST', '/events', await keyOf({ scopes: ['append'] }))],
  ] as const)
    await t.test(`beside a burst of ${name}`, async () => {
      const lines = await Promise.all(Array.from({ length: 240 }, () => Line.open(port, status)));
      const shares: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        let answered = 0;
        const burst = lines.map((line) => line.ask(request).then(() => answered++));
        await calm.ask(read(API_KEY, '/auth/whoami'));
        shares.push(answered / lines.length);
        await Promise.all(burst);
        assert.equal(answered, lines.length);
      }
      for (const line of lines) line.socket.destroy();
      await until(() => lines.every(({ socket }) => socket.destroyed));
      const seen = `it was answered when ${shares.map((share) => `${Math.round(100 * share)}%`).join(', ')} of the burst were`;
      assert.ok(median(shares) <= 0.5, seen);
    });
});
