/**
 * Many WebSockets on one process, some of which read nothing: what each takes in memory while it is idle and while it is behind, and how long
 * the ones that read wait for a push. The sockets are opened by a process of its own. `BENCH_SOCKETS` (5,000), one in `BENCH_SLOW` (50) is slow.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { API_KEY, startService, until } from '../support/service.js';
import { quantile, report } from './load.js';

const SOCKETS = Number(process.env['BENCH_SOCKETS'] ?? 5_000);
const SLOW = Number(process.env['BENCH_SLOW'] ?? 50);
const EVENTS = 200;
/** Of each event: what a slow socket does not read is more than the buffers of the kernel hold. */
const DATA_BYTES = 2_000;
const AT_ONCE = 50;

interface Told {
  readonly opened: number;
  readonly events: number;
  readonly closed: number;
  readonly lags: readonly number[];
}

const sleep = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Opens the sockets, counts what they are pushed, and tells when it is asked. */
async function follower(url: string): Promise<void> {
  const told = { opened: 0, events: 0, closed: 0, lags: [] as number[] };
  process.on('message', () => void process.send?.(told satisfies Told));
  const open = async (i: number): Promise<void> => {
    const socket = new WebSocket(url, { headers: { 'x-api-key': API_KEY }, perMessageDeflate: false });
    await once(socket, 'open');
    told.opened++;
    socket.on('close', () => told.closed++).on('error', () => undefined);
    if (i % SLOW === 0) return socket.pause();
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; data?: { at: number } };
      if (message.type === 'ping') return socket.send('{"type":"pong"}');
      if (message.type !== 'event') return;
      told.events++;
      // Of some: all would be as many figures as events.
      if (i % 97 === 1) told.lags.push(Date.now() - (message.data?.at ?? 0));
    });
  };
  for (let i = 0; i < SOCKETS; i += AT_ONCE)
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, SOCKETS - i) }, (_, n) => open(i + n)));
}

/** Resident and anonymous memory of a process, bytes: what others share with it is no part of the latter. */
function memoryOf(pid: number): number {
  const [, kilobytes = '0'] = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

async function bench(): Promise<void> {
  const cleanups: (() => void | Promise<void>)[] = [];
  const context = { after: (cleanup: () => void): void => void cleanups.unshift(cleanup) } as unknown as Parameters<
    typeof startService
  >[0];
  try {
    const service = await startService(context, {
      readStore: true,
      env: {
        MAX_CONNECTIONS: String(SOCKETS + 100),
        TENANT_CONNECTIONS: String(SOCKETS + 100),
        CLICKHOUSE_URL: 'http://127.0.0.1:9',
        LOG_LEVEL: 'error',
      },
    });
    const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    const append = (n: number): Promise<unknown> =>
      client.append({
        aggregateId: `pushed-${n % 10}`,
        eventType: 'Pushed',
        data: { at: Date.now(), text: 'x'.repeat(DATA_BYTES) },
      });
    for (let n = 0; n < 2_000; n++) await append(n);
    /** What is not collected yet counts as taken: the least of some looks. */
    const settled = async (): Promise<number> => {
      let least = Infinity;
      for (let look = 0; look < 20; look++) {
        least = Math.min(least, memoryOf(service.pid));
        await sleep(250);
      }
      return least;
    };
    const before = await settled();
    const child = fork(fileURLToPath(import.meta.url), ['follow', `${service.url.replace('http', 'ws')}/feed/stream`]);
    cleanups.unshift(() => void child.kill());
    const ask = async (): Promise<Told> => {
      child.send('tell');
      return ((await once(child, 'message')) as [Told])[0];
    };
    await until(async () => (await ask()).opened === SOCKETS, 300_000);
    const idle = await settled();
    const reading = SOCKETS - Math.ceil(SOCKETS / SLOW);
    for (let n = 0; n < EVENTS; n++) await append(n);
    const behind = memoryOf(service.pid);
    await until(async () => (await ask()).events >= reading * EVENTS, 300_000);
    const { lags, closed } = await ask();
    const after = await settled();
    const each = (bytes: number): string => `${(bytes / SOCKETS / 1024).toFixed(1)} KiB`;
    report(
      `${SOCKETS} sockets, idle: memory each`,
      each(idle - before),
      `the process ${(idle / 2 ** 20).toFixed(0)} MiB`,
    );
    report(
      `  ${EVENTS} events later, ${SOCKETS - reading} of them slow`,
      each(after - before),
      `at most ${each(behind - before)}`,
    );
    report(
      '  from the append to a push, of those that read',
      `p50 ${quantile(lags, 0.5)} ms`,
      `p99 ${quantile(lags, 0.99)} ms; ${closed} slow ones were cut by then`,
    );
  } finally {
    for (const cleanup of cleanups) await cleanup();
  }
}

if (process.argv[2] === 'follow') await follower(process.argv[3] ?? '');
else await bench();
