/*
 * Child process: HTTP/1.1 load over raw keep-alive sockets, closed loop or at a steady rate, so that the generator costs little of
 * what it measures. Each message to it has loads, which run at the same time; it answers with a `LoadResult` for each and waits for
 * the next ones, with code that is warm. The time begins when all of a load's sockets are connected.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Load, LoadResult } from './load.js';

/** More than one client after another can have in a run. */
const MOST_ANSWERS = 2_000_000;
const head = Buffer.from('\r\n\r\n');

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay(true);
  await once(socket, 'connect');
  return socket;
}

async function run(load: Load): Promise<LoadResult> {
  let [answered, failed, sent] = [0, 0, 0];
  const latencies = new Float64Array(
    load.perSecond === undefined ? MOST_ANSWERS : Math.ceil((load.perSecond * load.durationMs) / 1000) + load.clients,
  );
  const request = (): Buffer => {
    const i = load.first + sent++;
    const key = load.keys[i % load.keys.length] ?? '';
    const body = load.bodies
      .map((part) => part.replaceAll('$AGGREGATE', String(i % load.aggregates)).replaceAll('$I', String(i)))
      .join('');
    return Buffer.from(
      `POST ${load.path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  };

  const sockets = await Promise.all(Array.from({ length: load.clients }, () => connected(load.port)));
  const phaseMs = load.perSecond === undefined ? 0 : ((load.phase ?? 0) * 1000) / load.perSecond;
  const started = performance.now() + phaseMs;
  const end = started + load.durationMs;
  /** At a steady rate: clients that wait for a request to be due, and requests that were due when no client was free. */
  const idle: { send(dueAt: number): void; end(): void }[] = [];
  const due: number[] = [];

  const client = (socket: Socket): Promise<void> =>
    new Promise((resolve, reject) => {
      let sentAt = 0;
      let buffered: Buffer = Buffer.alloc(0);
      const send = (at: number): void => {
        sentAt = at;
        socket.write(request());
      };
      const finish = (): void => {
        socket.destroy();
        resolve();
      };
      const next = (): void => {
        const now = performance.now();
        if (now >= end) return finish();
        if (load.perSecond === undefined) return send(now);
        const waiting = due.shift();
        if (waiting === undefined) idle.push({ send, end: finish });
        else send(waiting);
      };
      socket.on('error', reject);
      socket.on('data', (chunk) => {
        buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
        const at = buffered.indexOf(head);
        if (at < 0) return;
        const text = buffered.toString('latin1', 0, at);
        const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
        if (buffered.length < at + 4 + length) return;
        latencies[answered++] = performance.now() - sentAt;
        if (!text.startsWith('HTTP/1.1 201')) failed++;
        if (load.mustContain !== undefined && !buffered.includes(load.mustContain)) failed++;
        buffered = buffered.subarray(at + 4 + length);
        next();
      });
      next();
    });

  const tick = (perSecond: number, n: number): void => {
    const now = performance.now();
    if (now >= end) return idle.forEach((waiting) => waiting.end());
    const free = idle.shift();
    if (free === undefined) due.push(now);
    else free.send(now);
    setTimeout(tick, started + ((n + 1) * 1000) / perSecond - performance.now(), perSecond, n + 1);
  };

  const clients = sockets.map(client);
  if (load.perSecond !== undefined) setTimeout(tick, phaseMs, load.perSecond, 0);
  await Promise.all(clients);
  const seconds = (performance.now() - started) / 1000;
  const sorted = latencies.subarray(0, answered).sort();
  const at = (share: number): number => sorted[Math.min(answered - 1, Math.floor(answered * share))] ?? 0;
  return {
    perSecond: answered / seconds,
    answered,
    failed,
    p50: at(0.5),
    p99: at(0.99),
    latencies: load.perSecond === undefined ? [] : Array.from(sorted),
    next: load.first + sent,
  };
}

process.on('message', (loads: readonly Load[]) => {
  void Promise.all(loads.map(run)).then((results) => process.send?.(results));
});
