/*
 * Load of `POST /events/bulk` by a child process, over raw sockets, so that the generator costs little of what it measures.
 * As a program its argument is a JSON `BulkLoad`; prints `{ events, seconds }`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

export interface BulkLoad {
  readonly port: number;
  readonly key: string;
  readonly aggregates: number;
  /** Lines of one aggregate that follow each other. */
  readonly run: number;
  readonly clients: number;
  readonly durationMs: number;
}

const PROGRAM = fileURLToPath(import.meta.url);
const NOTE = 'a customer note of a usual length, so that a body has some 250 bytes in all';
const LINES = 1_000;
const STORED = '"status":201';

export async function runBulk(load: BulkLoad): Promise<{ events: number; seconds: number }> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(load)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the load ended with ${code}`);
  return JSON.parse(text) as { events: number; seconds: number };
}

/** Bodies of 1,000 lines, as chunks of HTTP, that between them name all aggregates. */
function chunks({ aggregates, run }: BulkLoad): Buffer[] {
  return Array.from({ length: Math.ceil((aggregates * run) / LINES) }, (_, c) => {
    let body = '';
    for (let i = c * LINES; i < (c + 1) * LINES; i++)
      body += `{"aggregateId":"plain-${Math.floor(i / run) % aggregates}","eventType":"Counted","data":{"amount":7,"note":"${NOTE}","channel":"web"}}\n`;
    return Buffer.from(`${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`);
  }).slice(0, 1_000);
}

function client(load: BulkLoad, bodies: readonly Buffer[], first: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(load.port, '127.0.0.1');
    const end = performance.now() + load.durationMs;
    let sent = 0;
    let answered = 0;
    let ended = false;
    const fill = (): void => {
      while (!ended) {
        if (performance.now() >= end) {
          ended = true;
          socket.write('0\r\n\r\n');
          return;
        }
        sent += LINES;
        if (!socket.write(bodies[(first + sent / LINES) % bodies.length] as Buffer)) return;
      }
    };
    socket.on('connect', () => {
      socket.write(
        `POST /events/bulk HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${load.key}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n`,
      );
      fill();
    });
    socket.on('drain', fill);
    socket.on('error', reject);
    let tail = '';
    socket.on('data', (chunk) => {
      const text = tail + chunk.toString('latin1');
      for (let at = text.indexOf(STORED); at >= 0; at = text.indexOf(STORED, at + STORED.length)) answered++;
      tail = text.slice(1 - STORED.length);
      if (!ended || !text.endsWith('\r\n0\r\n\r\n')) return;
      socket.destroy();
      if (answered === sent) resolve(answered);
      else reject(new Error(`${sent - answered} of ${sent} lines were not stored`));
    });
    socket.on('close', () => reject(new Error('the stream ended before all was answered')));
  });
}

if (process.argv[1] === PROGRAM) {
  const load = JSON.parse(process.argv[2] ?? '') as BulkLoad;
  const bodies = chunks(load);
  const began = performance.now();
  const answered = await Promise.all(
    Array.from({ length: load.clients }, (_, i) =>
      client(load, bodies, Math.floor((i * bodies.length) / load.clients)),
    ),
  );
  process.stdout.write(
    JSON.stringify({ events: answered.reduce((a, b) => a + b, 0), seconds: (performance.now() - began) / 1000 }),
  );
}
