/*
 * What one tenant throws at a service to the harm of the others: requests in a closed loop over many keep-alive sockets, or sockets
 * that are opened and left. As a program it is sent a `Flood`, says when it has begun, and is sent anything to end it: it tells the
 * answers by status.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { fileURLToPath } from 'node:url';

export interface FloodRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Base64; `$I` in a text body is the number of the request. */
  readonly body?: string;
  readonly text?: string;
  /** The answer is not waited for: the socket stays open for a while. */
  readonly stays?: boolean;
}

export interface Flood {
  readonly port: number;
  readonly clients: number;
  readonly request: FloodRequest;
}

export interface RunningFlood {
  /** Ends it; gives the answers by status, and how many a second there were. */
  end(): Promise<{ readonly perSecond: number; readonly byStatus: Readonly<Record<string, number>> }>;
}

const PROGRAM = fileURLToPath(import.meta.url);
const STAYS_MS = 50;

/** Where there is such a thing it has a processor while nobody else wants it: clients of a service run on other machines, and take none of its time. */
const [COMMAND, ...BELOW_ALL] = process.platform === 'linux' ? ['chrt', '--idle', '0'] : ['nice', '-n', '19'];

export async function startFlood(flood: Flood): Promise<RunningFlood> {
  const child = spawn(COMMAND, [...BELOW_ALL, process.execPath, PROGRAM], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  child.send(flood);
  await once(child, 'message');
  const began = performance.now();
  return {
    end: async () => {
      const seconds = (performance.now() - began) / 1000;
      const exited = once(child, 'exit');
      child.send('end');
      const [byStatus] = (await once(child, 'message')) as [Record<string, number>];
      await exited;
      return { perSecond: Object.values(byStatus).reduce((sum, n) => sum + n, 0) / seconds, byStatus };
    },
  };
}

function run({ port, clients, request: one }: Flood): void {
  const byStatus: Record<string, number> = {};
  const count = (status: string): void => void (byStatus[status] = (byStatus[status] ?? 0) + 1);
  const agent = new Agent({ keepAlive: one.stays !== true, maxSockets: clients });
  const fixed = one.body === undefined ? undefined : Buffer.from(one.body, 'base64');
  let sent = 0;
  let ended = false;
  const next = (): void => {
    if (ended) return;
    const body = fixed ?? one.text?.replaceAll('$I', String(sent));
    sent++;
    const asked = request({
      port,
      host: '127.0.0.1',
      agent,
      method: one.method,
      path: one.path,
      headers: { ...one.headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
    });
    asked.on('response', (response) => {
      count(String(response.statusCode));
      if (one.stays === true) return void setTimeout(() => response.destroy(), STAYS_MS);
      response.resume().on('end', next);
    });
    asked.on('upgrade', (response, socket) => {
      count(String(response.statusCode));
      setTimeout(() => socket.destroy(), STAYS_MS);
      socket.on('close', next);
    });
    if (one.stays === true) asked.on('close', next);
    asked.on('error', () => {
      if (ended) return;
      count('broken');
      if (one.stays !== true) setTimeout(next, STAYS_MS);
    });
    asked.end(body);
  };
  for (let i = 0; i < clients; i++) next();
  process.send?.('begun');
  process.once('message', () => {
    ended = true;
    process.send?.(byStatus, () => process.exit());
  });
}

if (process.argv[1] === PROGRAM) process.once('message', (flood: Flood) => run(flood));
