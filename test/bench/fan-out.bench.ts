/**
 * Pushes a second to 500 WebSockets that follow one projection (events appended, folded, their changes written and pushed) ÷ a bare ws server
 * that sends as many messages of the size to as many sockets. Each server is a process of its own, and so are those who follow, who count frames
 * by raw sockets, so that they cost little of what is measured. Side by side, alternating, in one run.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { WebSocketServer, type WebSocket } from 'ws';
import { Api } from '../support/api.js';
import { API_KEY, startService, until } from '../support/service.js';
import { median, report } from './load.js';

const SOCKETS = Number(process.env['BENCH_SOCKETS'] ?? 500);
const CHANGES = Number(process.env['BENCH_CHANGES'] ?? 1_000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7);
const BATCH = 100;
/** A ping of the service is shorter. */
const SHORTEST = 100;
const PROGRAM = fileURLToPath(import.meta.url);
const PROJECTION = `public record Tally(long Total);
public class Tallies : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.AggregateId;
    public Tally? Apply(Tally? s, Event e) => new((s?.Total ?? 0) + 1);
}`;

interface Counted {
  readonly open: number;
  readonly frames: number;
  readonly bytes: number;
}

/** Opens the sockets and counts the frames that come. */
function follow(port: number, path: string): void {
  const counted = { open: 0, frames: 0, bytes: 0 };
  process.on('message', () => void process.send?.(counted satisfies Counted));
  for (let i = 0; i < SOCKETS; i++) {
    const socket = connect(port, '127.0.0.1');
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-API-Key: ${API_KEY}\r\n\r\n`,
    );
    let rest: Buffer = Buffer.alloc(0);
    let isOpen = false;
    socket.on('data', (chunk: Buffer) => {
      let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      if (!isOpen) {
        const end = data.indexOf('\r\n\r\n');
        if (end < 0) return void (rest = data);
        isOpen = true;
        counted.open++;
        data = data.subarray(end + 4);
      }
      let at = 0;
      while (at + 4 <= data.length) {
        const short = (data[at + 1] as number) & 0x7f;
        const head = short === 126 ? 4 : 2;
        const length = short === 126 ? data.readUInt16BE(at + 2) : short;
        if (at + head + length > data.length) break;
        at += head + length;
        if (length < SHORTEST) continue;
        counted.frames++;
        counted.bytes += length;
      }
      rest = data.subarray(at);
    });
  }
}

/** Sends as many messages as it is told to all who are connected, as whoever wrote no more than that would. */
function bare(): void {
  const sockets = new Set<WebSocket>();
  const server = createServer();
  new WebSocketServer({ server, perMessageDeflate: false }).on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('message', ({ messages, bytes }: { messages: number; bytes: number }) => {
    const message = Buffer.alloc(bytes, 'x');
    const send = (left: number): void => {
      if (left === 0) return;
      for (const socket of sockets) socket.send(message, { binary: false });
      setImmediate(send, left - 1);
    };
    send(messages);
  });
}

async function bench(): Promise<void> {
  const cleanups: (() => void | Promise<void>)[] = [];
  const context = { after: (cleanup: () => void): void => void cleanups.unshift(cleanup) } as unknown as Parameters<
    typeof startService
  >[0];
  const program = (...args: string[]): ChildProcess => {
    const child = fork(PROGRAM, args);
    cleanups.unshift(() => void child.kill());
    return child;
  };
  try {
    const service = await startService(context, { env: { TENANT_CONNECTIONS: String(SOCKETS + 100) } });
    const api = new Api(service);
    const projectionId = await api.deployProjection({ 'Tallies.cs': PROJECTION });
    const server = program('bare');
    const [port] = (await once(server, 'message')) as [number];
    const ours = program('follow', new URL(service.url).port, `/projections/${projectionId}/stream`);
    const theirs = program('follow', String(port), '/');
    const ask = async (child: ChildProcess): Promise<Counted> => {
      child.send('tell');
      return ((await once(child, 'message')) as [Counted])[0];
    };
    for (const child of [ours, theirs]) await until(async () => (await ask(child)).open === SOCKETS, 60_000);
    let round = 0;
    const append = async (): Promise<void> => {
      round++;
      const events = Array.from({ length: BATCH }, () => ({ eventType: 'Counted', data: { amount: 7 } }));
      await Promise.all(
        Array.from({ length: CHANGES / BATCH }, (_, n) =>
          api.post('/events/batch', { aggregateId: `fanned-${round}-${n}`, events }),
        ),
      );
    };
    /** Seconds until all who follow have all of it. */
    const measured = async (child: ChildProcess, send: () => unknown): Promise<{ seconds: number; bytes: number }> => {
      const before = await ask(child);
      const began = performance.now();
      await send();
      let counted = before;
      while (counted.frames < before.frames + SOCKETS * CHANGES) counted = await ask(child);
      return { seconds: (performance.now() - began) / 1000, bytes: counted.bytes - before.bytes };
    };
    const pairs: { readonly ours: number; readonly bare: number }[] = [];
    for (let i = -2; i < ROUNDS; i++) {
      const pushed = await measured(ours, append);
      const bytes = Math.round(pushed.bytes / SOCKETS / CHANGES);
      const sent = await measured(theirs, () => server.send({ messages: CHANGES, bytes }));
      // The first ones warm up.
      if (i >= 0) pairs.push({ ours: pushed.seconds, bare: sent.seconds });
    }
    const rate = (of: 'ours' | 'bare'): string =>
      `${Math.round((SOCKETS * CHANGES) / median(pairs.map((pair) => pair[of]))).toLocaleString('en')}/s`;
    report(
      `fan-out to ${SOCKETS} sockets, pushes`,
      rate('ours'),
      `bare ws ${rate('bare')}`,
      median(pairs.map((pair) => pair.bare / pair.ours)),
      'goal 1',
    );
  } finally {
    for (const cleanup of cleanups) await cleanup();
  }
}

const [role, port = '', path = ''] = process.argv.slice(2);
if (role === 'follow') follow(Number(port), path);
else if (role === 'bare') bare();
else await bench();
