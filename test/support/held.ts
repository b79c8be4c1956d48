import { until, type Service } from './service.js';
import type { Held } from './watched-service.js';

/** How long the event loop of a `WATCHED_SERVICE` was held, since the last call. */
export async function heldBy(service: Service): Promise<Held> {
  return (await toldAt<{ held: Held }>(service, 'SIGUSR2', 'held')).held;
}

/** What a `WATCHED_SERVICE` has in its heap and in buffers once its garbage is collected, bytes. */
export async function liveBytesOf(service: Service): Promise<number> {
  return (await toldAt<{ live: number }>(service, 'SIGURG', 'live')).live;
}

async function toldAt<T>(service: Service, signal: NodeJS.Signals, what: string): Promise<T> {
  const told = (): string[] => service.output.split('\n').filter((line) => line.startsWith(`{"${what}"`));
  const before = told().length;
  process.kill(service.pid, signal);
  await until(() => told().length > before);
  return JSON.parse(told().at(-1) ?? '') as T;
}
